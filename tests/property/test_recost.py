"""Any legal plan of any network costs the same both ways."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import SOFTWARE, Cluster
from slicewise.cluster.device import load_device
from slicewise.cluster.kernels import DIRECTIONS
from slicewise.cluster.lines import Line, Lines
from slicewise.cluster.times import LayerTime
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.calibrated import CalibratedModel
from slicewise.cost.measured import MeasuredModel
from slicewise.cost.own import OwnModel
from slicewise.cost.recost import recost_terms
from slicewise.cost.recount import recount_memory
from slicewise.cost.training import BATCHNORMS, OPTIMIZER_STATE, Training
from slicewise.dtype import DTYPES
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import Space
from tests.builders import DEVICE
from tests.campaigns import examples
from tests.pricing import cost_of
from tests.property.strategies import DEEP_SIZES, TIER_SIZES, clusters, graphs, slicings

EVERY_DTYPE = replace(DEVICE, reduced_flops_per_s={"tf32": 2e12, "bf16": 4e12, "fp16": 3e12})
DEVICES = [
    replace(EVERY_DTYPE, kernels=kernels) for kernels in (None, *(load_device(n).kernels for n in ("P100", "H100")))
]

trainings = st.builds(
    Training,
    dtype=st.sampled_from(sorted(DTYPES)),
    optimizer=st.sampled_from(sorted(OPTIMIZER_STATE)),
    recompute=st.booleans(),
    batchnorm=st.sampled_from(BATCHNORMS),
)


@examples(300)
@given(graphs(), clusters([*TIER_SIZES, *DEEP_SIZES]), st.sampled_from([None, 1, 3]), trainings, st.data())
def test_the_planner_and_the_page_agree_on_every_term(
    graph: LayerGraph, cluster: Cluster, cores: int | None, training: Training, data: st.DataObject
) -> None:
    device, software = data.draw(st.sampled_from(DEVICES)), data.draw(st.sampled_from(SOFTWARE))
    machine = replace(cluster, device=device, software=software, cores=cores)
    if training.batchnorm == "local":  # a sample for every rank, and some more
        graph = training.normalised(graph.with_batch(graph.batch + machine.devices - 1), machine.devices)
    chosen = data.draw(slicings(graph, machine.mesh, Space(dims_per_layer=4, dims_per_tier=3)))
    total = cost_of(AnalyticModel(graph, machine, training), chosen)
    for term, seconds in recost_terms(graph, machine, chosen, training).items():
        assert seconds == pytest.approx(getattr(total, term), rel=1e-9, abs=1e-9 * total.total_s), term
    assert recount_memory(graph, machine, chosen, training) == total.peak_memory_bytes


def lines(seconds: float) -> Lines:
    line = Line(call_s=seconds, s_per_flop=1e-12, s_per_item=3e-9, s_per_weight=2e-9)
    return {kind: dict.fromkeys(DIRECTIONS, line) for kind in ("pointwise", "window", "linear", "norm", "elementwise")}


@examples(60)
@given(graphs(), clusters(TIER_SIZES), trainings, st.floats(1e-7, 1e-3), st.data())
def test_measured_layers_are_taken_as_given_and_all_else_is_worked_out_again(
    graph: LayerGraph, cluster: Cluster, training: Training, seconds: float, data: st.DataObject
) -> None:
    machine = replace(cluster, device=replace(EVERY_DTYPE, layers=lines(seconds)))
    if training.batchnorm == "local":
        graph = training.normalised(graph.with_batch(graph.batch + machine.devices - 1), machine.devices)
    chosen = data.draw(slicings(graph, machine.mesh, Space(dims_per_layer=4, dims_per_tier=3)))
    model: OwnModel = CalibratedModel(graph, machine, training)
    if data.draw(st.booleans()):
        untimed = MeasuredModel(graph, machine, training)
        some = [key for layer in graph if (key := untimed.key(layer, chosen[layer.name]))]
        times = {key: LayerTime(forward_s=seconds, backward_s=2 * seconds, update_s=seconds / 3) for key in some[::2]}
        model = replace(untimed, cluster=replace(machine, times=times))
    costs, total = model.plan_costs(chosen), cost_of(model, chosen)
    measured = {name: (cost.forward_s, cost.backward_s, cost.update_s) for name, cost in costs.items()}
    for term, again in recost_terms(graph, model.cluster, chosen, training, measured).items():
        assert again == pytest.approx(getattr(total, term), rel=1e-9, abs=1e-9 * total.total_s), term
    assert recount_memory(graph, model.cluster, chosen, training) == total.peak_memory_bytes
