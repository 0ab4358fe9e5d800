"""What a run should take: the prediction of its plan, and each rank's share of the work."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cost.prediction import Prediction
from slicewise.diagnosis.record import Floats
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.parts import intervals
from slicewise.planning.modelling import model_of
from slicewise.planning.predicting import predicted_of
from slicewise.plans.plan import Plan
from slicewise.strategies.projection import Projection
from slicewise.strategy import STRATEGIES, Form
from slicewise.terms import LAYER_TERMS, Nature


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    step: Prediction
    shares: Floats  # of each rank's work in that of the rank that has most
    waits_inside: bool = False  # a pipeline's ranks wait for each other where nobody can see it

    @property
    def terms(self) -> dict[str, float]:
        """Seconds by term, as a record names them; sync: what backward does not hide."""
        return self.step.waited

    @property
    def work_s(self) -> float:
        return sum(self.terms[term.name] for term in LAYER_TERMS if term.nature is Nature.COMPUTE)

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: self.step[name] for name in ("iteration_s", "low_s", "high_s")},
            **{f"{term}_s": seconds for term, seconds in self.terms.items()},
            "origin": self.step.origin,
        }


def expectation_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> Expectation:
    return Expectation(
        step=predicted_of(plan, graph, cluster),
        shares=np.ones(plan.devices) if plan.pipeline else _shares(plan, graph, cluster),
        waits_inside=plan.pipeline is not None,
    )


def expected_as(projection: Projection) -> Expectation:
    """A strategy's closed form, as a framework runs it; every rank has as much to do."""
    return Expectation(
        step=projection.prediction,
        shares=np.ones(projection.devices),
        waits_inside=STRATEGIES[projection.strategy].form is Form.STAGES,
    )


def _shares(plan: Plan, graph: LayerGraph, cluster: Cluster) -> Floats:
    """Of 5 rows on 2 ranks one has 3, the other 2: a share of 2/3 in that layer's time."""
    model = model_of(plan, graph, cluster)
    mesh, costs = cluster.mesh, model.plan_costs(plan.slicings)
    work = np.zeros(mesh.devices)
    for layer in model.graph:
        part = np.ones(mesh.devices)
        slicing = plan.slicings[layer.name]
        for dim in {dim for dim in slicing if dim is not None}:
            axes = tuple(axis for axis, sliced in enumerate(slicing) if sliced is dim)
            start, stop = intervals(max(layer.extents(dim)), axes, mesh)
            part *= (stop - start) / (stop - start).max()
        work += part * costs[layer.name].compute_s
    shares: Floats = work / work.max() if work.max() > 0 else np.ones(mesh.devices)
    return shares
