"""What a plan costs, and the choices that a search has: asked for in many tests."""

from collections.abc import Mapping
from typing import ClassVar

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.own import OwnModel
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.pins import Pins

WIDE = Space()


class Stopwatch(OwnModel):
    """A cost model of another name that has layers timed first."""

    name: ClassVar[str] = "stopwatch"
    coarsens: ClassVar[bool] = False
    recosted: ClassVar[bool] = False
    measures: ClassVar[bool] = True


def cost_of(model: CostModel, slicings: Mapping[str, Slicing]) -> Cost:
    """Of all layers."""
    return sum(model.plan_costs(slicings).values(), Cost())


def pool_of(model: CostModel, space: Space = WIDE) -> Candidates:
    """Nothing known before, nothing pinned."""
    return candidates(model, space, {}, Pins())
