"""Which weight gradients travel together: planner and runtime agree on the number of all-reduces."""

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer import Weight
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Layout, Slicing, layouts
from slicewise.partition.parts import box, volume

BUCKET_BYTES = 25 * 2**20  # as DDP has it


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
    graph: LayerGraph, slicings: Mapping[str, Slicing], mesh: Mesh, capacity: int = BUCKET_BYTES // 4
) -> list[Bucket]:
    """Filled in the order in which backward produces gradients, a bucket for each set of axes at a time.

    `capacity` in items, of four bytes each; a bucket holds at least one weight. They travel in the order in which their
    last gradients are there.
    """
    held = weight_layouts(graph, slicings)
    user = {weight.name: layer.name for layer in reversed(graph.layers) for weight in layer.weights}
    sizes = {name: volume(box(weight.shape, layout, mesh, 0)) for name, (weight, layout, _) in held.items()}
    filled: list[tuple[tuple[int, ...], list[str]]] = []
    open_bucket: dict[tuple[int, ...], int] = {}
    for name in reversed(held):
        weight, _, axes = held[name]
        if not axes or not weight.trained:
            continue
        names = filled[open_bucket[axes]][1] if axes in open_bucket else []
        if not names or sum(sizes[other] for other in names) + sizes[name] > capacity:
            open_bucket[axes] = len(filled)
            filled.append((axes, names := []))
        names.append(name)
    made = [
        Bucket(
            axes=axes,
            weights=tuple(names),
            layers=tuple(dict.fromkeys(user[name] for name in names)),
            items=sum(sizes[name] for name in names),
        )
        for axes, names in filled
    ]
    # the first reader of the last weight comes last in backward
    return sorted(made, key=lambda bucket: -graph.index[bucket.layers[-1]])
