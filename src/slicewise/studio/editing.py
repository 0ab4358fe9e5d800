"""One plan on the page: its layers, a layer's alternatives with their prices, and what a change costs whom."""

from collections.abc import Mapping
from math import prod
from typing import Any

from slicewise.cluster.mesh import Mesh
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.errors import UnknownName
from slicewise.figures.cuts import cut_figure
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Layout, Partial, Shard, Slicing, layouts
from slicewise.partition.legal import legal_choices
from slicewise.partition.parts import largest
from slicewise.partition.spelling import spelled
from slicewise.plans.plan import Plan
from slicewise.simulate.predicting import predicted_step
from slicewise.studio.benches import Bench
from slicewise.studio.letters import all_letters, letters
from slicewise.terms import LAYER_TERMS


def sliced_view(bench: Bench, slicings: Mapping[str, Slicing]) -> dict[str, Any]:
    """All that the page shows of slicings, priced now."""
    model = bench.model
    axes = axes_of(model.cluster.mesh)
    costs = model.plan_costs(slicings)
    return {
        "predicted": predicted_step(model, slicings).to_dict(),
        "memory_limit_bytes": model.cluster.device.memory_bytes,
        "bucket_bytes": model.training.bucket_bytes,
        "axes": [
            {"name": axis.name, "size": axis.size, "tier": model.cluster.tiers[axis.tier].name}
            for axis in model.cluster.mesh.axes
        ],
        "slicings": all_letters(model.graph, slicings),
        "ties": model.graph.ties,  # positions of layers that are sliced alike
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind.value,
                "shown": not layer.kind.has(Trait.WIRING),
                "told": spelled(slicings[layer.name], axes),
                "terms": terms_of(costs[layer.name]),
                "memory_bytes": costs[layer.name].memory_bytes,
            }
            for layer in model.graph
        ],
    }


def proof_view(plan: Plan) -> dict[str, Any]:
    """What is known of a plan beyond its slicings: what it was compared with, and what is proven."""
    return {
        "baselines": {name: dict(row) for name, row in plan.baselines.items()},
        "references": {name: dict(row) for name, row in plan.references.items()},
        "certificate": dict(plan.certificate),
        "strategy": plan.asked.strategy,
    }


def stages_view(plan: Plan) -> dict[str, Any]:
    """A pipeline slices no layer: its stages are shown instead."""
    assert plan.pipeline is not None
    return {"predicted": plan.predicted.to_dict(), "pipeline": plan.pipeline.to_dict(), **proof_view(plan)}


def layer_view(bench: Bench, slicings: Mapping[str, Slicing], name: str) -> dict[str, Any]:
    """How one layer is sliced, what it pays, and every other legal slicing with the whole step under it."""
    model = bench.model
    if name not in model.graph.index:
        raise UnknownName("layer", name, model.graph.index)
    layer, mesh = model.graph[name], model.cluster.mesh
    axes = axes_of(mesh)
    choices = legal_choices(layer, mesh).including([slicings[name]])
    rows = [choices[row] for row in range(len(choices))]
    tied = together(model, name)
    plans = [{**slicings, **dict.fromkeys(tied, slicing)} for slicing in rows]
    if len(plans) > 1 and model.overlaps:
        steps_s = bench.many.simulated_s(plans)
    else:
        steps_s = [predicted_step(model, plan).iteration_s for plan in plans]
    own = model.layer_seconds(layer, choices)
    found = [
        {
            "letters": letters(slicing),
            "told": spelled(slicing, axes),
            "iteration_s": step_s,
            "memory_bytes": int(own.memory_bytes[row]),
            "current": slicing == slicings[name],
        }
        for row, (slicing, step_s) in enumerate(zip(rows, steps_s, strict=True))
    ]
    return {
        "name": name,
        "kind": layer.kind.value,
        "told": spelled(slicings[name], axes),
        "tied": [other for other in tied if other != name],
        "inputs": list(layer.inputs),
        "readers": [other.name for other in model.graph if name in other.inputs],
        "terms": terms_of(model.plan_costs(slicings)[name]),
        "svg": cut_figure(layer, slicings[name], mesh),
        "tensors": _tensors(layer, slicings[name], mesh),
        "flops": _flops(layer),
        "alternatives": sorted(found, key=lambda row: (row["iteration_s"], not row["current"])),
    }


def changed_view(bench: Bench, slicings: Mapping[str, Slicing], name: str, to: Slicing) -> dict[str, Any]:
    """The plan with one layer sliced otherwise: its price, and who pays what before and after."""
    model = bench.model
    after = {**slicings, **dict.fromkeys(together(model, name), to)}
    view = sliced_view(bench, after)
    axes = axes_of(model.cluster.mesh)
    before_costs, after_costs = model.plan_costs(slicings), model.plan_costs(after)
    paid = []
    for layer in model.graph:
        one, other = before_costs[layer.name], after_costs[layer.name]
        if one != other or slicings[layer.name] != after[layer.name]:
            paid.append(
                {
                    "name": layer.name,
                    "told": spelled(after[layer.name], axes),
                    "before": terms_of(one),
                    "after": terms_of(other),
                    "before_s": one.total_s,
                    "after_s": other.total_s,
                }
            )
    return {**view, "paid": paid}


def together(model: CostModel, name: str) -> list[str]:
    """The layer, and those that share weights with it: they are sliced alike."""
    number = model.graph.index[name]
    tie = next((tie for tie in model.graph.ties if number in tie), (number,))
    return [model.graph.layers[position].name for position in tie]


def terms_of(cost: Cost) -> dict[str, float]:
    """Seconds by term, of those that are not 0."""
    found = {term.name: cost.seconds(term.name) for term in LAYER_TERMS}
    return {name: seconds for name, seconds in found.items() if seconds}


def axes_of(mesh: Mesh) -> dict[str, int]:
    return {axis.name: axis.size for axis in mesh.axes}


def _tensors(layer: Layer, slicing: Slicing, mesh: Mesh) -> list[dict[str, Any]]:
    """x, w and y: whole, one device's part, and in words what each axis does to it."""
    lies = layouts(layer, slicing)
    rows = [
        (f"x{number or ''}", dims, shape, layout)
        for number, (dims, shape, layout) in enumerate(
            zip(layer.input_dims, layer.input_shapes, lies.inputs, strict=True)
        )
    ]
    rows += [
        (weight.name.rpartition(".")[2], weight.dims, weight.shape, layout)
        for weight, layout in zip(layer.weights, lies.weights, strict=True)
    ]
    rows.append(("y", layer.dims, layer.shape, lies.output))
    return [
        {
            "name": name,
            "dims": dims,
            "shape": list(shape),
            "part": list(largest(shape, layout, mesh)),
            "told": _told(dims, layout, mesh),
        }
        for name, dims, shape, layout in rows
    ]


def _told(dims: str, layout: Layout, mesh: Mesh) -> str:
    cut: dict[str, int] = {}
    copies = summands = 1
    for size, placement in zip(mesh.sizes, layout, strict=True):
        if isinstance(placement, Shard):
            cut[dims[placement.dim]] = cut.get(dims[placement.dim], 1) * size
        elif isinstance(placement, Partial):
            summands *= size
        else:
            copies *= size
    told = [f"{dim} cut in {count}" for dim, count in cut.items()]
    told += [f"{summands} summands"] * (summands > 1) + [f"{copies} copies"] * (copies > 1)
    return ", ".join(told) or "whole"


def _flops(layer: Layer) -> float | None:
    """2 per multiply-add of a matrix product, forward."""
    if not layer.kind.has(Trait.PRODUCT) or not layer.weights:
        return None
    weight = max(layer.weights, key=lambda weight: weight.size)
    channels = layer.shape[layer.dims.index("F")] if "F" in layer.dims else 1
    return 2.0 * prod(layer.shape) / max(channels, 1) * weight.size
