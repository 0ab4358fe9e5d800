from dataclasses import replace
from math import prod

import pytest

from slicewise.cluster.cluster import Cluster, Link, load_cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.pipeline import LOSS_BYTES, PipelineModel
from slicewise.cost.training import Training
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.partition.stages import Cuts
from slicewise.simulate.pipeline import predicted_pipeline
from slicewise.simulate.predicting import predicted_step
from tests.builders import machine, small_cnn


def pipeline(
    graph: LayerGraph, cluster: Cluster, micro_batches: int, training: Training | None = None
) -> PipelineModel:
    model = AnalyticModel(graph, cluster, training or Training())
    return PipelineModel(model, Cuts(graph), micro_batches)


def test_the_keys_are_those_of_every_plan() -> None:
    graph, cluster = small_cnn(8), machine(2)
    given = predicted_pipeline(pipeline(graph, cluster, 2), [1], "gpipe")
    model = AnalyticModel(graph, cluster)
    assert set(predicted_step(model, {layer.name: (None,) for layer in graph})) <= set(given)
    assert (given["halo_s"], given["reduce_s"], given["sync_s"], given["exposed_sync_s"]) == (0, 0, 0, 0)


@pytest.mark.parametrize(("dtype", "item_bytes"), [("fp32", 4), ("bf16", 2)])
def test_each_cut_carries_its_tensor_there_and_the_gradient_back(dtype: str, item_bytes: int) -> None:
    graph = load_graph("alexnet").with_batch(16)
    priced = pipeline(graph, load_cluster("dgx-a100").with_devices(4), 4, Training(dtype=dtype))
    positions = [3, 6, 12]
    sent = sum(prod(graph.layers[cut].shape) for cut in positions) * item_bytes
    assert predicted_pipeline(priced, positions, "1f1b")["bytes_moved"] == 2 * sent + 3 * LOSS_BYTES


def test_stages_together_compute_the_whole_network() -> None:
    graph, cluster = small_cnn(8), machine(2)
    stages = pipeline(graph, cluster, 1).stage_costs([2])
    model = AnalyticModel(graph, cluster)
    whole = sum((model.layer_cost(layer, (None,)) for layer in graph), Cost())
    assert sum(stage.forward_s for stage in stages) == pytest.approx(whole.forward_s)
    assert sum(stage.backward_s for stage in stages) == pytest.approx(whole.backward_s)
    assert sum(stage.update_s for stage in stages) == pytest.approx(whole.update_s)


def test_neighbours_pay_for_the_tier_between_them() -> None:
    """Two nodes of two devices: ranks 1 and 2 sit on different nodes, whose link is half as quick."""
    priced = pipeline(small_cnn(8), machine(2, 2), 2)
    inside, across = priced.link_s(0, 1), priced.link_s(1, 1)
    assert inside == priced.link_s(2, 1)
    assert across == pytest.approx(4e-6 + priced.output_bytes(1) / 1e9)
    assert inside == pytest.approx(2e-6 + priced.output_bytes(1) / 2e9)


def test_stages_send_at_the_pace_of_sends_where_it_was_measured() -> None:
    cluster = machine(2)
    sends = replace(cluster.tiers[0], collectives={"send": Link(latency_s=1e-3, bytes_per_s=1e6)})
    priced = pipeline(small_cnn(8), replace(cluster, tiers=(sends,)), 2)
    assert priced.link_s(0, 1) == pytest.approx(1e-3 + priced.output_bytes(1) / 1e6)


def test_1f1b_keeps_less_than_gpipe_and_moves_the_same() -> None:
    graph = load_graph("vgg16").with_batch(64)
    priced = pipeline(graph, load_cluster("p100-4x4").with_devices(4), 16)
    gpipe, one_one = (predicted_pipeline(priced, [10, 17, 24], schedule) for schedule in ("gpipe", "1f1b"))
    assert one_one["peak_memory_bytes"] < gpipe["peak_memory_bytes"] / 2
    assert one_one["bytes_moved"] == gpipe["bytes_moved"]


def test_weights_are_those_of_the_stage() -> None:
    graph = load_graph("vgg16").with_batch(64)
    training = Training(optimizer="adam")
    stages = pipeline(graph, load_cluster("p100-4x4").with_devices(2), 16, training).stage_costs([17])
    held = [
        16 * sum(weight.size for layer in layers for weight in layer.weights)
        for layers in (graph.layers[:18], graph.layers[18:])
    ]
    assert [stage.weight_bytes for stage in stages] == held


def test_a_received_tensor_that_a_layer_keeps_is_counted_once() -> None:
    graph = small_cnn(8)
    _, second = pipeline(graph, machine(2), 2).stage_costs([graph.index["elementwise0"]])
    pool = graph["pool0"]
    assert second.received_bytes == prod(pool.input_shapes[0]) // 2 * 4
    assert second.kept_bytes == prod(graph["linear0"].input_shapes[0]) // 2 * 4


def test_a_tensor_that_several_layers_keep_is_counted_once() -> None:
    """Three convolutions read the sentences; what each of them gives is kept for its pooling."""
    graph = load_graph("textcnn").with_batch(8)
    first, _ = pipeline(graph, machine(2), 1).stage_costs([graph.index["max_pool1d_2"]])
    assert first.received_bytes == prod(graph["x_ncw"].shape) * 4
    assert first.kept_bytes == sum(prod(graph[f"convs.{number}"].shape) for number in range(3)) * 4


def test_the_largest_gradient_is_there_twice_where_micro_batches_add_to_it() -> None:
    graph, cut = load_graph("alexnet").with_batch(8), "features.12"
    one, two = (pipeline(graph, machine(2), count).stage_costs([graph.index[cut]])[1] for count in (1, 2))
    linear = graph["classifier.1"]
    items = [prod(linear.input_shapes[0]) + prod(linear.shape), prod(linear.weights[0].shape)]
    assert two.transient_bytes - 4 * items[1] == 4 * items[0] // 2
    assert one.transient_bytes < two.transient_bytes


def test_more_micro_batches_fill_the_bubble() -> None:
    graph = load_graph("vgg16").with_batch(64)
    cluster = load_cluster("p100-4x4").with_devices(4)
    few, many = (predicted_pipeline(pipeline(graph, cluster, count), [10, 17, 24], "gpipe") for count in (2, 16))
    assert many["bubble_s"] / many["iteration_s"] < few["bubble_s"] / few["iteration_s"]
    assert many["iteration_s"] < few["iteration_s"]
