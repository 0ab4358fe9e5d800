import pytest

from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.search.baselines import BASELINES, data, filter_, owt, spatial
from slicewise.search.planner import baseline_slicings
from tests.builders import Net, machine, small_cnn


def test_data_parallelism_slices_every_layer_by_sample() -> None:
    graph = small_cnn(batch=4)
    assert set(data(CostModel(graph, machine(2, 2))).values()) == {(Dim.N, Dim.N)}


def test_data_parallelism_needs_a_sample_for_every_device() -> None:
    with pytest.raises(InfeasibleError, match="2 samples do not reach 4 devices"):
        data(CostModel(small_cnn(batch=2), machine(2, 2)))


def test_filter_parallelism_uses_as_many_inner_axes_as_filters_allow() -> None:
    net = Net()
    net.output(net.conv(net.conv(net.input(4, 3, 8, 8), 8), 3))
    chosen = filter_(CostModel(net.graph, machine(2, 2)))
    assert chosen["conv0"] == (Dim.F, Dim.F)
    assert chosen["conv1"] == (None, Dim.F)
    assert chosen["input0"] == chosen["output0"] == (Dim.N, Dim.N)


def test_one_weird_trick_changes_at_the_first_linear_layer() -> None:
    chosen = owt(CostModel(small_cnn(batch=4), machine(2)))
    assert chosen["conv0"] == chosen["flatten0"] == (Dim.N,)
    assert chosen["linear0"] == (Dim.F,)


def test_one_weird_trick_needs_a_linear_layer_and_enough_samples() -> None:
    net = Net()
    net.output(net.conv(net.input(4, 3, 8, 8), 8))
    with pytest.raises(InfeasibleError, match="the network has no linear layer"):
        owt(CostModel(net.graph, machine(2)))
    with pytest.raises(InfeasibleError, match="1 samples do not reach 2 devices"):
        owt(CostModel(small_cnn(batch=1), machine(2)))


def test_spatial_parallelism_cuts_space_and_what_has_none_by_sample() -> None:
    chosen = spatial(CostModel(small_cnn(batch=4), machine(2)))
    assert chosen["conv0"] in [(Dim.H,), (Dim.W,)]
    assert chosen["linear0"] == (Dim.N,)


def test_spatial_parallelism_needs_space() -> None:
    net = Net()
    net.output(net.linear(net.input(4, 8), 4))
    with pytest.raises(InfeasibleError, match="no layer has space to slice over these devices"):
        spatial(CostModel(net.graph, machine(2)))


def test_a_volume_is_cut_into_cubes_from_layer_to_output() -> None:
    net = Net()
    net.output(net.conv(net.input(1, 4, 32, 32, 32), 4))
    chosen = spatial(CostModel(net.graph, machine(8)))
    assert chosen["conv0"] == chosen["output0"] == (Dim.D, Dim.H, Dim.W)


def test_baselines_that_do_not_exist_for_a_network_say_why() -> None:
    found, reasons = baseline_slicings(CostModel(small_cnn(batch=1), machine(2)))
    assert set(found) | set(reasons) == set(BASELINES)
    assert reasons["data"] == "1 samples do not reach 2 devices"
