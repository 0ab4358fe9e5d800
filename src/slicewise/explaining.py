"""Why a plan is what it is: each layer as chosen, against the same layer under data parallelism."""

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.errors import InfeasibleError
from slicewise.partition.layout import Slicing
from slicewise.plans import spelled
from slicewise.search.baselines import data
from slicewise.search.planner import baseline_slicings


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A stretch of layers with one slicing, what it costs, and what it would cost under the reference."""

    layers: tuple[str, ...]
    slicing: str
    reference_slicing: str
    cost: Cost
    reference: Cost

    @property
    def saved_s(self) -> float:
        return self.reference.total_s - self.cost.total_s

    @property
    def saved_bytes(self) -> int:
        return self.reference.bytes_moved - self.cost.bytes_moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A plan taken apart. Each layer counts the layout changes on the edges into it."""

    reference: str  # the strategy compared with
    reason: str  # why not data parallelism, where it is another
    stretches: tuple[Comparison, ...]

    @property
    def total(self) -> Comparison:
        return Comparison(
            layers=tuple(name for stretch in self.stretches for name in stretch.layers),
            slicing="",
            reference_slicing="",
            cost=sum((stretch.cost for stretch in self.stretches), Cost()),
            reference=sum((stretch.reference for stretch in self.stretches), Cost()),
        )


def explain(model: CostModel, slicings: Mapping[str, Slicing], *, per_layer: bool = False) -> Explanation:
    """Compare with data parallelism, or with the best other strategy where the batch does not allow it.

    Neighbours that are sliced alike are one stretch, unless each layer is asked for.
    """
    reason = ""
    try:
        reference, reference_slicings = "data", data(model)
    except InfeasibleError as error:
        reason = str(error)
        reference, reference_slicings = _best_baseline(model)
    costs, reference_costs = model.plan_costs(slicings), model.plan_costs(reference_slicings)
    axes = {axis.name: axis.size for axis in model.cluster.mesh.axes}
    stretches: list[Comparison] = []
    for layer in model.graph:
        name = layer.name
        now = Comparison(
            layers=(name,),
            slicing=spelled(slicings[name], axes),
            reference_slicing=spelled(reference_slicings[name], axes),
            cost=costs[name],
            reference=reference_costs[name],
        )
        before = stretches[-1] if stretches else None
        if (
            not per_layer
            and before
            and (before.slicing, before.reference_slicing) == (now.slicing, now.reference_slicing)
        ):
            stretches[-1] = Comparison(
                layers=before.layers + now.layers,
                slicing=now.slicing,
                reference_slicing=now.reference_slicing,
                cost=before.cost + now.cost,
                reference=before.reference + now.reference,
            )
        else:
            stretches.append(now)
    return Explanation(reference=reference, reason=reason, stretches=tuple(stretches))


def _best_baseline(model: CostModel) -> tuple[str, dict[str, Slicing]]:
    found, _ = baseline_slicings(model)
    best = min(found, key=lambda name: sum(cost.total_s for cost in model.plan_costs(found[name]).values()))
    return best, found[best]
