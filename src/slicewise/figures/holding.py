"""What holds a device's memory, from a plan's costs: the device that holds most."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slicewise.cost.training import WEIGHT_BYTES
from slicewise.figures.colours import HOLDERS
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import largest

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

Holders = Mapping[str, float]  # "weights" -> bytes, ...


def held_bytes(
    plan: "Plan",
    graph: LayerGraph | None = None,
    slicings: Mapping[str, Slicing] | None = None,
    costs: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, float]:
    """Bytes by what holds them; together the predicted peak. `slicings` and `costs`: of another strategy's plan.

    weights         4 bytes each, and a copy in a narrow dtype
    gradients       as many, of those that are trained
    optimizer       its items per trained weight
    activations     what is left of the layers' `memory_bytes`
    in work         the largest `transient_bytes` of a layer
    """
    if plan.pipeline is not None:
        return {"total": float(plan.predicted.peak_memory_bytes)}
    network, training = graph or plan.network(), plan.training
    own, prices = slicings or plan.slicings, costs or plan.costs
    narrow = training.item_bytes if training.item_bytes < WEIGHT_BYTES else 0
    items = trained = 0
    for layer in network:
        placed = layouts(layer, own[layer.name]).weights
        for weight, layout in zip(layer.weights, placed, strict=True):
            if not weight.again:
                size = 1
                for extent in largest(weight.shape, layout, plan.mesh):
                    size *= extent
                items += size
                trained += size if weight.trained else 0
    weights, gradients = items * (WEIGHT_BYTES + narrow), trained * WEIGHT_BYTES
    state = trained * WEIGHT_BYTES * training.state_items
    kept = sum(float(cost.get("memory_bytes", 0)) for cost in prices.values())
    work = max((float(cost.get("transient_bytes", 0)) for cost in prices.values()), default=0.0)
    found = (weights, gradients, state, max(0.0, kept - weights - gradients - state), work)
    return dict(zip(HOLDERS, found, strict=False))
