"""Any legal plan of any network costs the same both ways."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import SOFTWARE, Cluster
from slicewise.cluster.device import load_device
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.recost import recost_terms
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
