"""What a plan costs, and the choices that a search has: asked for in many tests."""

from collections.abc import Mapping

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.pins import Pins

WIDE = Space()


def cost_of(model: CostModel, slicings: Mapping[str, Slicing]) -> Cost:
    """Of all layers."""
    return sum(model.plan_costs(slicings).values(), Cost())


def pool_of(model: CostModel, space: Space = WIDE) -> Candidates:
    """Nothing known before, nothing pinned."""
    return candidates(model, space, {}, Pins())
