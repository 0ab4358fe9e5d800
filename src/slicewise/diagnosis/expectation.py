"""What a run should take: the projected terms of a plan, their range, and each rank's share of the work."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.diagnosis.record import Floats
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.parts import intervals
from slicewise.planning.modelling import model_of
from slicewise.planning.predicting import predicted_of
from slicewise.plans.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    iteration_s: float
    low_s: float
    high_s: float
    terms: dict[str, float]  # seconds by term, as a record names them; sync: what backward does not hide
    shares: Floats  # of each rank's work in that of the rank that has most
    origin: str
    waits_inside: bool = False  # a pipeline's ranks wait for each other where nobody can see it

    @property
    def communication_s(self) -> float:
        return sum(self.terms[term] for term in ("transfer", "halo", "reduce", "sync"))

    @property
    def work_s(self) -> float:
        return self.terms["compute"] + self.terms["update"]

    def to_dict(self) -> dict[str, Any]:
        return {
            "iteration_s": self.iteration_s,
            "low_s": self.low_s,
            "high_s": self.high_s,
            **{f"{term}_s": seconds for term, seconds in self.terms.items()},
            "origin": self.origin,
        }


def expectation_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> Expectation:
    expected = predicted_of(plan, graph, cluster)
    terms = {term: float(expected[f"{term}_s"]) for term in ("compute", "transfer", "halo", "reduce", "update")}
    return Expectation(
        iteration_s=float(expected["iteration_s"]),
        low_s=float(expected["low_s"]),
        high_s=float(expected["high_s"]),
        terms=terms | {"sync": float(expected["exposed_sync_s"])},
        shares=np.ones(plan.devices) if plan.pipeline else _shares(plan, graph, cluster),
        origin=str(expected["origin"]),
        waits_inside=plan.pipeline is not None,
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
