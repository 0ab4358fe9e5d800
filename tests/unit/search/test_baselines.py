import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.errors import InfeasibleError
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import contract, refusal
from slicewise.search.baselines import (
    BASELINES,
    COMPARED,
    baseline_slicings,
    channel,
    data,
    data_filter,
    data_sequence,
    data_spatial,
    filter_,
    owt,
    sequence,
    spatial,
)
from tests.builders import Net, machine, residual_net, small_cnn


def test_data_parallelism_slices_every_layer_by_sample() -> None:
    graph = small_cnn(batch=4)
    assert set(data(AnalyticModel(graph, machine(2, 2))).values()) == {(Dim.N, Dim.N)}


def test_data_parallelism_needs_a_sample_for_every_device() -> None:
    with pytest.raises(InfeasibleError, match="2 samples do not reach 4 devices"):
        data(AnalyticModel(small_cnn(batch=2), machine(2, 2)))


def test_filter_parallelism_uses_as_many_inner_axes_as_filters_allow() -> None:
    net = Net()
    net.output(net.conv(net.conv(net.input(4, 3, 8, 8), 8), 3))
    chosen = filter_(AnalyticModel(net.graph, machine(2, 2)))
    assert chosen["conv0"] == (Dim.F, Dim.F)
    assert chosen["conv1"] == (None, Dim.F)
    assert chosen["input0"] == chosen["output0"] == (Dim.N, Dim.N)


def test_one_weird_trick_changes_at_the_first_linear_layer() -> None:
    chosen = owt(AnalyticModel(small_cnn(batch=4), machine(2)))
    assert chosen["conv0"] == chosen["flatten0"] == (Dim.N,)
    assert chosen["linear0"] == (Dim.F,)


def test_one_weird_trick_needs_a_linear_layer_and_enough_samples() -> None:
    net = Net()
    net.output(net.conv(net.input(4, 3, 8, 8), 8))
    with pytest.raises(InfeasibleError, match="the network has no linear layer"):
        owt(AnalyticModel(net.graph, machine(2)))
    with pytest.raises(InfeasibleError, match="1 samples do not reach 2 devices"):
        owt(AnalyticModel(small_cnn(batch=1), machine(2)))


def test_spatial_parallelism_cuts_space_and_what_has_none_by_sample() -> None:
    chosen = spatial(AnalyticModel(small_cnn(batch=4), machine(2)))
    assert chosen["conv0"] in [(Dim.H,), (Dim.W,)]
    assert chosen["linear0"] == (Dim.N,)


def test_spatial_parallelism_needs_space() -> None:
    net = Net()
    net.output(net.linear(net.input(4, 8), 4))
    with pytest.raises(InfeasibleError, match="no layer has space to slice over these devices"):
        spatial(AnalyticModel(net.graph, machine(2)))


def test_a_volume_is_cut_into_cubes_from_layer_to_output() -> None:
    net = Net()
    net.output(net.conv(net.input(1, 4, 32, 32, 32), 4))
    chosen = spatial(AnalyticModel(net.graph, machine(8)))
    assert chosen["conv0"] == chosen["output0"] == (Dim.D, Dim.H, Dim.W)


def test_baselines_that_do_not_exist_for_a_network_say_why() -> None:
    found, reasons = baseline_slicings(AnalyticModel(small_cnn(batch=1), machine(2)))
    assert set(found) | set(reasons) == set(COMPARED)
    assert reasons["data"] == "1 samples do not reach 2 devices"


def test_channel_parallelism_sums_over_input_channels_and_hands_them_on_sliced() -> None:
    chosen = channel(AnalyticModel(small_cnn(batch=4), machine(2, 2)))
    assert chosen["conv0"] == (None, Dim.C)  # 3 channels do not reach 4 devices
    assert chosen["elementwise0"] == chosen["pool0"] == chosen["flatten0"] == (Dim.F, Dim.F)
    assert chosen["linear0"] == (Dim.C, Dim.C)


def test_channel_parallelism_needs_input_channels() -> None:
    net = Net()
    net.output(net.relu(net.input(4, 3, 8, 8)))
    with pytest.raises(InfeasibleError, match="no layer has input channels to slice"):
        channel(AnalyticModel(net.graph, machine(2)))


def test_a_fork_promises_no_partial_gradients_where_its_readers_slice_channels() -> None:
    chosen = channel(AnalyticModel(residual_net(), machine(2)))
    assert chosen["fork0"] == (Dim.F,)
    assert chosen["conv1"] == (Dim.C,)


def test_hybrids_slice_samples_outside_and_filters_or_space_inside() -> None:
    filters = data_filter(AnalyticModel(small_cnn(batch=4), machine(2, 2)))
    assert filters["conv0"] == filters["linear0"] == (Dim.N, Dim.F)
    space = data_spatial(AnalyticModel(small_cnn(batch=4), machine(2, 2)))
    assert space["conv0"] in [(Dim.N, Dim.H), (Dim.N, Dim.W)]
    assert space["linear0"] == (Dim.N, Dim.N)


def test_a_volume_is_cut_along_all_its_dims_within_each_group_of_samples() -> None:
    net = Net()
    net.output(net.conv(net.input(2, 4, 32, 32, 32), 4))
    assert data_spatial(AnalyticModel(net.graph, machine(2, 8)))["conv0"] == (Dim.N, Dim.D, Dim.H, Dim.W)


@pytest.mark.parametrize(("rows", "filters", "outer"), [(64, 8, 2), (1, 4096, 1)])
def test_a_hybrid_keeps_the_cheapest_split(rows: int, filters: int, outer: int) -> None:
    """Large tensors and few weights: samples over most devices. The other way round: filters."""
    net = Net()
    net.output(net.conv(net.conv(net.input(8, 64, rows, rows), filters), filters))
    model = AnalyticModel(net.graph, machine(2, 2, 2))
    samples = (Dim.N,) * 3
    cost_s = {}
    for split in (1, 2):
        both = (Dim.N,) * split + (Dim.F,) * (3 - split)
        plan = {"input0": samples, "conv0": both, "conv1": both, "output0": samples}
        cost_s[split] = sum(cost.total_s for cost in model.plan_costs(plan).values())
    assert min(cost_s, key=lambda split: cost_s[split]) == outer
    assert data_filter(model)["conv0"].count(Dim.N) == outer


def test_a_hybrid_needs_devices_for_both_and_samples_for_the_outer_ones() -> None:
    with pytest.raises(InfeasibleError, match="2 devices are no p1 x p2 with both above 1"):
        data_filter(AnalyticModel(small_cnn(batch=4), machine(2)))
    with pytest.raises(InfeasibleError, match="1 samples do not reach 2 groups of devices"):
        data_spatial(AnalyticModel(small_cnn(batch=1), machine(2, 2)))


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("graph", [small_cnn(batch=8), small_cnn(batch=6), residual_net(batch=4)], ids=lambda g: g.name)
def test_every_baseline_is_a_legal_plan_that_keeps_the_contract(name: str, graph: LayerGraph) -> None:
    mesh = machine(2, 2).mesh
    try:
        chosen = BASELINES[name](AnalyticModel(graph, machine(2, 2)))
    except InfeasibleError:
        assert name in ("owt", "sequence", "data+sequence")  # no linear layer, no tokens
        return
    for layer in graph:
        assert refusal(layer, chosen[layer.name], mesh) is None
        assert contract(layer, mesh) in (None, chosen[layer.name])


def tokens_net(batch: int) -> LayerGraph:
    """Convolution, attention of 4 heads on 12 tokens, and what each head makes of it."""
    net = Net("tokens")
    x = net.fork(net.conv(net.input(batch, 4, 12, 6), 4))
    net.output(net.attention(x, x, x))
    return net.graph


def test_sequence_slices_rows_and_queries_and_leaves_heads_alone() -> None:
    found = sequence(AnalyticModel(tokens_net(batch=1), machine(2, 2)))
    assert found["conv0"] == found["fork0"] == (Dim.H, Dim.H)
    assert found["attention0"] == (Dim.Q, Dim.Q)


def test_sequence_takes_as_many_of_the_innermost_axes_as_there_are_tokens() -> None:
    found = sequence(AnalyticModel(tokens_net(batch=1), machine(2, 8)))
    assert found["conv0"] == (None, Dim.H, Dim.H, Dim.H)


def test_groups_of_devices_share_tokens_and_the_others_samples() -> None:
    found = data_sequence(AnalyticModel(tokens_net(batch=4), machine(2, 2)))
    assert found["attention0"] == (Dim.N, Dim.Q)
    assert found["conv0"] == (Dim.N, Dim.H)


def test_a_network_without_attention_has_no_sequence() -> None:
    with pytest.raises(InfeasibleError, match="has no attention, so no tokens to share"):
        sequence(AnalyticModel(small_cnn(batch=4), machine(2, 2)))
