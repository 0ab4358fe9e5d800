from dataclasses import replace

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.recost import recost_terms
from slicewise.cost.training import Training
from slicewise.errors import ClusterError, GraphError, InfeasibleError, PlanError, UnknownName
from slicewise.graph.dims import Dim
from slicewise.graph.sources import load_graph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import SPACES, Space
from slicewise.planning import baseline_plan, describe, model_of, pipeline_plan, plan
from slicewise.search.baselines import data
from slicewise.simulate.predicting import predicted_step
from tests.builders import machine, residual_net, small_cnn


def test_a_plan_says_what_it_was_made_for() -> None:
    made = plan(small_cnn(), "p100-4x4", batch=32, devices=4)
    assert (made.model, made.cluster, made.devices, made.batch) == ("small_cnn", "p100-4x4", 4, 32)
    assert made.axes == {"intra0": 2, "intra1": 2}
    assert set(made.slicings) == {layer.name for layer in small_cnn()}
    assert made.certificate["optimal"]


def test_a_plans_cost_is_the_sum_over_its_layers_and_edges() -> None:
    graph, cluster = residual_net(), machine(2, 2)
    made = plan(graph, cluster)
    model = AnalyticModel(graph, cluster)
    total = Cost()
    for layer in graph:
        total += model.layer_cost(layer, made.slicings[layer.name])
        for slot, source in enumerate(layer.inputs):
            total += model.edge_cost(layer, slot, made.slicings[source], made.slicings[layer.name])
    assert made.predicted["additive_s"] == pytest.approx(total.total_s)
    assert sum(cost["total_s"] for cost in made.costs.values()) == pytest.approx(total.total_s)
    assert made.predicted["bytes_moved"] == total.bytes_moved


def test_no_baseline_is_cheaper_than_the_plan() -> None:
    made = plan(load_graph("alexnet"), "p100-4x4", batch=128, devices=8)
    assert {name for name, baseline in made.baselines.items() if baseline["feasible"]} == {
        "data",
        "filter",
        "spatial",
        "owt",
    }
    for baseline in made.baselines.values():
        assert made.predicted["additive_s"] <= baseline["additive_s"] * (1 + 1e-9)


def test_baselines_that_do_not_exist_say_why() -> None:
    made = plan(small_cnn(batch=2), machine(2, 2))
    assert made.baselines["data"] == {"feasible": False, "reason": "2 samples do not reach 4 devices"}
    assert made.baselines["spatial"]["feasible"]


def test_throughput_follows_from_the_time_we_believe() -> None:
    made = plan(small_cnn(), machine(2), batch=16)
    assert made.predicted["iteration_s"] == made.predicted["simulated_s"]
    assert made.predicted["samples_per_s"] == pytest.approx(16 / made.predicted["iteration_s"])


def test_a_wider_space_is_never_dearer() -> None:
    graph, cluster = small_cnn(), machine(2, 4)
    costs = [
        plan(graph, cluster, space=Space(dims_per_layer=limit, dims_per_tier=limit)).predicted["additive_s"]
        for limit in (1, 2, 3)
    ]
    assert costs == sorted(costs, reverse=True)


def test_given_slicings_are_described_as_they_are() -> None:
    """The second evaluator, which shares nothing with the planner's tables, is the truth."""
    graph, cluster = small_cnn(), machine(2)
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    described = describe(AnalyticModel(graph, cluster), slicings)
    assert described.slicings == slicings
    terms = recost_terms(graph, cluster, slicings)
    terms["compute_s"] = terms.pop("forward_s") + terms.pop("backward_s")
    assert {term: described.predicted[term] for term in terms} == pytest.approx(terms)
    assert described.predicted["additive_s"] == pytest.approx(sum(terms.values()))


@pytest.mark.parametrize("training", [Training(), Training(optimizer="adam", batchnorm="local", recompute=True)])
@pytest.mark.parametrize("cost", ["analytic", "optcnn"])
def test_a_plan_is_costed_again_as_it_was(training: Training, cost: str) -> None:
    cluster = machine(2, 2)
    made = plan(residual_net(8), cluster, **training.options(), cost=cost, space=SPACES["optcnn"])
    assert (made.training, made.cost_model) == (training, cost)
    model = model_of(made, residual_net(), cluster)
    assert predicted_step(model, made.slicings) == made.predicted


def test_statistics_of_a_ranks_own_samples_cost_no_exchange() -> None:
    whole, local = (
        plan(residual_net(8), machine(2), batchnorm=kind, fix=["*=N"]).predicted["reduce_s"]
        for kind in ("exact", "local")
    )
    assert whole > local == 0


def test_local_norms_refuse_fewer_samples_than_devices_and_say_what_to_use() -> None:
    local = Training(batchnorm="local")
    told = "3 samples do not reach 4 ranks; use batchnorm exact, or a batch of 4 or more"
    with pytest.raises(PlanError, match=told):
        plan(residual_net(), machine(4), batch=3, batchnorm="local")
    with pytest.raises(PlanError, match=told):
        baseline_plan(residual_net(), machine(4), "filter", batch=3, training=local)
    made = plan(residual_net(), machine(4), batch=4, batchnorm="local")
    with pytest.raises(PlanError, match=told):
        replace(made, batch=3).sized(residual_net())
    assert plan(small_cnn(), machine(4), batch=3, batchnorm="local").batch == 3  # no batch norm in it


def test_a_pipeline_cuts_no_batch_over_its_ranks() -> None:
    made = pipeline_plan(residual_net(), machine(2), batch=1, training=Training(batchnorm="local"))
    assert all(layer.chunk is None for layer in made.sized(residual_net()))


def test_remedies_for_too_little_memory_have_a_sample_for_every_rank() -> None:
    training = Training(batchnorm="local")
    with pytest.raises(InfeasibleError, match="no plan fits") as error:
        plan(residual_net(8), machine(4), **training.options(), memory_limit=1000)
    assert "nor with `recompute=True`, 16 times the devices or 1/16 the batch" in str(error.value)
    peak = plan(residual_net(8), machine(4), batch=4, **training.options(), objective="memory").predicted
    with pytest.raises(InfeasibleError, match=r"would fit: .*`batch=4`"):
        plan(residual_net(8), machine(4), **training.options(), memory_limit=peak["peak_memory_bytes"])


def test_the_papers_space_is_named_and_holds() -> None:
    made = plan(small_cnn(8), machine(2, 2), cost="optcnn", space=SPACES["optcnn"])
    assert "every mesh axis to an output dim or nothing" in made.certificate["space"]
    assert "equal parts" in made.certificate["space"]
    assert made.certificate["optimal"]


def test_a_strategy_without_a_search_is_a_plan_too() -> None:
    graph, cluster = small_cnn(), machine(2, 2)
    made = baseline_plan(graph, cluster, "data", batch=8)
    assert made.slicings == data(AnalyticModel(graph.with_batch(8), cluster))
    assert made.certificate == {}
    with pytest.raises(UnknownName, match="unknown strategy 'luck'; choose from channel, data"):
        baseline_plan(graph, cluster, "luck", batch=8)


@pytest.mark.parametrize("devices", [0, -1])
def test_no_devices_are_refused(devices: int) -> None:
    with pytest.raises(ClusterError, match=f"devices must be from 1 to 65,536 \\(got {devices}\\)"):
        plan(small_cnn(), "p100-4x4", devices=devices)


def test_no_samples_are_refused() -> None:
    with pytest.raises(GraphError, match=r"batch must be positive \(got 0\)"):
        plan(small_cnn(), machine(2), batch=0)


def test_unknown_clusters_and_searches_are_refused() -> None:
    with pytest.raises(UnknownName, match="unknown cluster 'cray'"):
        plan(small_cnn(), "cray")
    with pytest.raises(UnknownName, match="unknown search 'luck'"):
        plan(small_cnn(), machine(2), search="luck")


def test_unknown_objectives_models_and_dtypes_are_refused() -> None:
    with pytest.raises(UnknownName, match="unknown objective 'beauty'; choose from memory, time"):
        plan(small_cnn(), machine(2), objective="beauty")
    with pytest.raises(UnknownName, match="unknown cost model 'guess'"):
        plan(small_cnn(), machine(2), cost="guess")
    with pytest.raises(ClusterError, match="toy has no bf16; choose from fp32"):
        plan(small_cnn(), machine(2), dtype="bf16")
