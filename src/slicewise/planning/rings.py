"""Whether keys and values are gathered or passed round, where attention is sliced by query: what is faster, or fits.

Passed round, a device holds two parts of them instead of all, and the next part travels while this one is used. But
they travel again in backward. So it is worth it where memory is short, or where compute hides what travels. Layers
around attention want other slicings then: both networks are searched, and the faster plan is returned.
"""

from collections.abc import Mapping
from dataclasses import replace

from slicewise.cost.model import CostModel
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.rings import can_ring, with_rings
from slicewise.partition.layout import Slicing
from slicewise.plans.plan import Plan

_WORTH = 0.05  # of the step


def possible_rings(graph: LayerGraph) -> tuple[str, ...]:
    """Attention layers whose keys can be passed round."""
    return tuple(layer.name for layer in graph if can_ring(layer))


def worth_trying(plan: Plan, rings: tuple[str, ...]) -> bool:
    """Whether a plan gathers keys, and spends a share of its step on layout changes."""
    gathers = any(Dim.Q in plan.slicings[name] for name in rings)
    return gathers and plan.predicted.seconds["transfer"] > _WORTH * plan.predicted.iteration_s


def with_used_rings(model: CostModel, slicings: Mapping[str, Slicing]) -> CostModel:
    """Without those of attention that is not sliced by query: there, nothing is passed round."""
    rings = tuple(name for name in model.training.rings if Dim.Q in slicings[name])
    if rings == model.training.rings:
        return model
    return replace(model, graph=with_rings(model.graph, rings), training=replace(model.training, rings=rings))
