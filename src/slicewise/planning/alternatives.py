"""Every legal slicing of one layer, and the whole step under each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slicewise.cost.model import CostModel
from slicewise.errors import UnknownName
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_choices
from slicewise.partition.spelling import spelled
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, loaded
from slicewise.simulate.predicting import predicted_steps_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliced:
    """One layer sliced so, all other layers as the plan has them."""

    slicing: Slicing  # a dim, or nothing, per mesh axis
    told: str  # "N4@inter F4@intra"
    iteration_s: float
    current: bool  # whether the plan has it so


def alternatives(plan: Plan | str | Path, layer: str) -> list[Sliced]:
    """Every legal slicing of `layer` with the whole step under it, the fastest first; all other layers stay.

    Layers that share weights with it change together. The space is the one that the plan was made in.

    >>> plan = sw.plan("lenet5", "p100-4x4", batch=64, devices=4)
    >>> rows = sw.alternatives(plan, "features.0")
    >>> sum(row.current for row in rows), rows[0].iteration_s <= rows[-1].iteration_s
    (1, True)
    """
    plan = loaded(plan)
    model = model_of(plan, plan.network(), plan.hardware())
    if layer not in model.graph.index:
        raise UnknownName("layer", layer, model.graph.index)
    plan.check(model.graph, model.cluster.mesh)
    space = plan.request.space if plan.request else Space()
    choices = legal_choices(model.graph[layer], model.cluster.mesh, space).including([plan.slicings[layer]])
    slicings = [choices[row] for row in range(len(choices))]
    rows = [
        Sliced(
            slicing=slicing,
            told=spelled(slicing, plan.axes),
            iteration_s=seconds,
            current=slicing == plan.slicings[layer],
        )
        for slicing, seconds in zip(slicings, _steps_s(model, plan, layer, slicings), strict=True)
    ]
    return sorted(rows, key=lambda row: (row.iteration_s, not row.current))


def _steps_s(model: CostModel, plan: Plan, layer: str, slicings: Sequence[Slicing]) -> list[float]:
    number = model.graph.index[layer]
    together = next((tie for tie in model.graph.ties if number in tie), (number,))
    names = [model.graph.layers[tied].name for tied in together]
    plans = [{**plan.slicings, **dict.fromkeys(names, slicing)} for slicing in slicings]
    return predicted_steps_s(model, plans)
