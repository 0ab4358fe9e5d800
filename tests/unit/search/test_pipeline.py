import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.errors import InfeasibleError, RequestError, UnknownName
from slicewise.factors import divisors
from slicewise.graph.sources import load_graph
from slicewise.search.pipeline import best_pipeline
from tests.builders import machine, small_cnn


def test_micro_batches_are_those_predicted_to_be_fastest() -> None:
    model = AnalyticModel(load_graph("vgg16").with_batch(32), load_cluster("p100-4x4").with_devices(4))
    best = best_pipeline(model)
    for count in divisors(32):
        assert best.predicted["iteration_s"] <= best_pipeline(model, None, count).predicted["iteration_s"]


def test_a_batch_too_small_for_1f1b_goes_through_gpipe() -> None:
    model = AnalyticModel(small_cnn(2), machine(4))
    assert best_pipeline(model).schedule == "gpipe"
    with pytest.raises(InfeasibleError, match=r"1f1b needs a micro-batch per stage, 4 or more \(got 2\); use gpipe"):
        best_pipeline(model, "1f1b")


def test_stages_that_fit_the_memory_come_first() -> None:
    graph = load_graph("vgg16").with_batch(64)
    free = best_pipeline(AnalyticModel(graph, load_cluster("p100-4x4").with_devices(4)), "gpipe")
    assert free.predicted["peak_memory_bytes"] > 2**30
    # the toy device has 1 GiB
    tight = best_pipeline(AnalyticModel(small_cnn(512), machine(4)))
    assert tight.predicted["peak_memory_bytes"] <= 2**30


def test_what_does_not_divide_is_refused_with_what_does() -> None:
    with pytest.raises(RequestError, match="12 samples do not divide into 5 micro-batches; choose from 1, 2, 3, 4, 6"):
        best_pipeline(AnalyticModel(small_cnn(12), machine(2)), micro_batches=5)


def test_an_unknown_schedule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="unknown schedule 'zigzag'; choose from 1f1b, gpipe"):
        best_pipeline(AnalyticModel(small_cnn(8), machine(2)), "zigzag")


def test_more_micro_batches_than_can_be_simulated_are_refused() -> None:
    """Every turn of every stage is an event."""
    model = AnalyticModel(small_cnn(2**20), machine(2))
    with pytest.raises(RequestError, match=r"1048576 micro-batches on 2 stages are too many .*; use up to 524288"):
        best_pipeline(model, micro_batches=2**20)
