"""The layer-wise paper's cost model, by hand."""

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.optcnn import OptCnnModel, PaperModel
from slicewise.cost.registry import model_named
from slicewise.errors import UnknownName
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.simulate import predicting
from tests.builders import Net, machine, residual_net
from tests.pricing import cost_of

N, F, H = Dim.N, Dim.F, Dim.H
NODES = machine(2, 2)  # 1 GB/s between the two nodes, 2 GB/s inside
BETWEEN, INSIDE = 1e9, 2e9


def convs(batch: int = 4) -> LayerGraph:
    net = Net()
    net.output(net.conv(net.conv(net.input(batch, 4, 8, 8), 8), 8))
    return net.graph


WEIGHT_BYTES = 4 * (8 * 8 * 9 + 8)
TENSOR_BYTES = 4 * (4 * 8 * 8 * 8)


def test_models_are_found_by_name() -> None:
    assert model_named("analytic") is AnalyticModel
    assert model_named("optcnn") is OptCnnModel
    with pytest.raises(UnknownName, match="'guess'; choose from analytic, calibrated, measured, optcnn"):
        model_named("guess")


@pytest.mark.parametrize("model", [CostModel, PaperModel])
def test_a_model_that_others_are_made_from_is_not_made_itself(model: type[CostModel]) -> None:
    with pytest.raises(TypeError, match="abstract"):
        model(convs(), NODES)


def test_what_knows_no_overlap_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("simulated")

    monkeypatch.setattr(predicting, "simulate_step", never)
    whole: dict[str, Slicing] = {layer.name: (None, None) for layer in convs()}
    assert predicting.predicted_step(OptCnnModel(convs(), NODES), whole).iteration_s > 0
    with pytest.raises(AssertionError, match="simulated"):
        predicting.predicted_step(AnalyticModel(convs(), NODES), whole)


def test_compute_is_the_analytic_models_and_there_is_no_update_halo_or_statistics() -> None:
    graph = residual_net()
    ours, theirs = AnalyticModel(graph, NODES), OptCnnModel(graph, NODES)
    for layer in graph:
        for slicing in ((N, N), (N, None), (N, H)):
            mine, other = ours.layer_cost(layer, slicing), theirs.layer_cost(layer, slicing)
            assert other.compute_s == mine.compute_s
            assert (other.update_s, other.halo_s, other.reduce_s) == (0.0, 0.0, 0.0)
            assert (other.halo_bytes, other.reduce_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("slicing", "replicas", "s_per_byte"),
    [
        ((N, N), 4, 1 / INSIDE + 1 / BETWEEN),
        ((None, N), 2, 1 / INSIDE),
        ((F, N), 2, 1 / INSIDE),
        ((N, F), 2, 1 / BETWEEN),
        ((H, None), 2, 1 / BETWEEN),
    ],
)
def test_every_replica_pushes_gradients_to_a_server_and_pulls_weights(
    slicing: Slicing, replicas: int, s_per_byte: float
) -> None:
    """Bytes count both ways; seconds one, for pulls go against pushes on the same links."""
    graph = convs()
    cost = OptCnnModel(graph, NODES).layer_cost(graph["conv1"], slicing)
    assert cost.sync_bytes == 2 * replicas * WEIGHT_BYTES
    assert cost.sync_s == pytest.approx(WEIGHT_BYTES * s_per_byte)


def test_a_server_takes_the_copies_of_its_node_and_then_one_per_node() -> None:
    """4 nodes of 4: three copies inside the node, all nodes at once, then three between nodes."""
    graph = convs(batch=16)
    cost = OptCnnModel(graph, machine(4, 4)).layer_cost(graph["conv1"], (N, N, N, N))
    assert cost.sync_bytes == 2 * 16 * WEIGHT_BYTES
    assert cost.sync_s == pytest.approx(3 * WEIGHT_BYTES / INSIDE + 3 * WEIGHT_BYTES / BETWEEN)


@pytest.mark.parametrize("slicing", [(F, F), (None, None), (None, F)])
def test_weights_that_one_device_alone_holds_stay_there(slicing: Slicing) -> None:
    graph = convs()
    cost = OptCnnModel(graph, NODES).layer_cost(graph["conv1"], slicing)
    assert (cost.sync_s, cost.sync_bytes) == (0.0, 0)


def transfer(before: Slicing, after: Slicing) -> Cost:
    graph = convs()
    return OptCnnModel(graph, NODES).edge_cost(graph["conv1"], 0, before, after)


def test_what_devices_need_and_lack_is_sent_one_after_the_other_without_latency_there_and_back() -> None:
    """From samples to filters: each of 4 devices needs all, has a quarter; its node has another one."""
    quarter = TENSOR_BYTES / 4
    cost = transfer((N, N), (F, F))
    assert cost.transfer_s == pytest.approx(2 * 4 * (2 * quarter / BETWEEN + quarter / INSIDE))
    assert cost.transfer_bytes == 2 * 4 * 3 * quarter


def test_borders_are_part_of_the_transfer() -> None:
    """Halves of 4 rows: each reads one row more; 4 samples, 8 channels, 8 columns."""
    row_bytes = 4 * 4 * 8 * 8
    cost = transfer((None, H), (None, H))
    assert cost.transfer_s == pytest.approx(2 * 2 * row_bytes / INSIDE)
    assert cost.transfer_bytes == 2 * 2 * row_bytes


def test_devices_along_an_axis_that_slices_nothing_stay_idle() -> None:
    """Whole, the layer is on the first device; the other needs its half from there."""
    assert transfer((None, None), (None, None)) == Cost()
    half = TENSOR_BYTES / 2
    cost = transfer((None, None), (None, N))
    assert cost.transfer_s == pytest.approx(2 * half / INSIDE)
    assert cost.transfer_bytes == 2 * half


def test_nothing_goes_back_to_the_input() -> None:
    graph = convs()
    cost = OptCnnModel(graph, NODES).edge_cost(graph["conv0"], 0, (N, N), (F, F))
    assert cost.transfer_bytes == 4 * 3 * 4 * (4 * 4 * 8 * 8) / 4


def test_on_one_device_there_is_nothing_but_compute() -> None:
    graph = convs()
    model = OptCnnModel(graph, machine(1))
    total = cost_of(model, {layer.name: () for layer in graph})
    assert total.total_s == total.compute_s > 0
    assert total.bytes_moved == 0


def test_fewer_readers_cost_fewer_transfers_so_small_linear_layers_gather_on_few_devices() -> None:
    """What the paper's plans show: the last linear layer of VGG-16 on 2 of 4 devices."""
    graph = convs()
    model = OptCnnModel(graph, machine(4))
    seconds = [model.edge_cost(graph["conv1"], 0, (N, N), after).transfer_s for after in ((F, F), (None, F))]
    assert seconds[1] == pytest.approx(seconds[0] / 2)
