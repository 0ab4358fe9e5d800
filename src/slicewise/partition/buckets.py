"""Which weight gradients travel together: planner and runtime agree on the number of all-reduces."""

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer import Weight
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Layout, Slicing, layouts
from slicewise.partition.parts import box, volume

BUCKET_ITEMS = 25 * 2**20 // 4  # DDP's 25 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Weights whose gradients are summed over the same axes in one all-reduce, last layer first."""

    axes: tuple[int, ...]
    weights: tuple[str, ...]
    layers: tuple[str, ...]  # who uses them; the bucket is ready after the backward of the last of these
    items: int  # of rank 0


def weight_layouts(
    graph: LayerGraph, slicings: Mapping[str, Slicing]
) -> dict[str, tuple[Weight, Layout, tuple[int, ...]]]:
    """Per weight, in order of use: how it is held and over which axes its gradient is summed."""
    held: dict[str, tuple[Weight, Layout, tuple[int, ...]]] = {}
    for layer in graph:
        placed = layouts(layer, slicings[layer.name])
        for weight, layout in zip(layer.weights, placed.weights, strict=True):
            held[weight.name] = (weight, layout, placed.sync_axes)
    return held


def buckets(
    graph: LayerGraph, slicings: Mapping[str, Slicing], mesh: Mesh, capacity: int = BUCKET_ITEMS
) -> list[Bucket]:
    """Filled in the order in which backward produces gradients; a bucket holds at least one weight."""
    held = weight_layouts(graph, slicings)
    user = {weight.name: layer.name for layer in reversed(graph.layers) for weight in layer.weights}
    open_buckets: dict[tuple[int, ...], list[str]] = {}
    closed: list[Bucket] = []
    sizes = {name: volume(box(weight.shape, layout, mesh, 0)) for name, (weight, layout, _) in held.items()}

    def close(axes: tuple[int, ...]) -> None:
        names = open_buckets.pop(axes)
        closed.append(
            Bucket(
                axes=axes,
                weights=tuple(names),
                layers=tuple(dict.fromkeys(user[name] for name in names)),
                items=sum(sizes[name] for name in names),
            )
        )

    for name in reversed(held):
        weight, _, axes = held[name]
        if not axes or not weight.trained:
            continue
        filled = sum(sizes[other] for other in open_buckets.get(axes, []))
        if filled and filled + sizes[name] > capacity:
            close(axes)
        open_buckets.setdefault(axes, []).append(name)
    for axes in list(open_buckets):
        close(axes)
    return closed
