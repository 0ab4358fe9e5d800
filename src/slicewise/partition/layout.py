"""How one tensor lies on the mesh, and what a slicing does to each tensor of a layer.

A layout gives each mesh axis one of PyTorch's own placements. An axis that slices dim d does this:

    tensor has d           -> Shard there, in value and in gradient
    input without d        -> Replicate, and its gradient comes out Partial
    output without d       -> Partial (d is a reduction), and its gradient is wanted Replicate
    axis slices nothing    -> Replicate everywhere: the same work, repeated

which is the whole table of the F, C, N and space slicings of convolution and linear layers, and of every other kind.
"""

from dataclasses import dataclass

from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer


@dataclass(frozen=True, slots=True)
class Shard:
    dim: int  # of the tensor


@dataclass(frozen=True, slots=True)
class Replicate:
    pass


@dataclass(frozen=True, slots=True)
class Partial:
    pass


Placement = Shard | Replicate | Partial
Layout = tuple[Placement, ...]  # one placement per mesh axis
Slicing = tuple[Dim | None, ...]  # one dim, or nothing, per mesh axis

REPLICATE = Replicate()
PARTIAL = Partial()
_SHARDS = tuple(Shard(dim) for dim in range(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLayouts:
    """The layouts of a layer's tensors under one slicing: forward, then gradients."""

    inputs: tuple[Layout, ...]  # wanted
    output: Layout  # produced
    output_gradient: Layout  # wanted
    input_gradients: tuple[Layout, ...]  # produced
    weights: tuple[Layout, ...]  # held; gradients lie the same way after the sync
    buffers: tuple[Layout, ...]  # read; held whole
    sync_axes: tuple[int, ...]  # axes over which weight gradients are summed


def layouts(layer: Layer, slicing: Slicing) -> LayerLayouts:
    """What `slicing` does to every tensor of `layer`.

    A fork has no reduction of its own. Its C is the promise "whoever reads me will return partial gradients": they are
    summed as they are and reduced once, before the producer.
    """
    fork = layer.kind is Kind.FORK
    return LayerLayouts(
        inputs=tuple(_layout(dims, slicing, absent=REPLICATE) for dims in layer.input_dims),
        output=_layout(layer.dims, slicing, absent=REPLICATE if fork else PARTIAL),
        output_gradient=_layout(layer.dims, slicing, absent=PARTIAL if fork else REPLICATE),
        input_gradients=tuple(_layout(dims, slicing, absent=PARTIAL) for dims in layer.input_dims),
        weights=tuple(_layout(weight.dims, slicing, absent=REPLICATE) for weight in layer.weights),
        buffers=tuple(_layout(buffer.dims, slicing, absent=REPLICATE) for buffer in layer.buffers),
        sync_axes=sync_axes(layer, slicing),
    )


def sync_axes(layer: Layer, slicing: Slicing) -> tuple[int, ...]:
    """Axes along which ranks see different samples or positions, so that weight gradients must be summed."""
    if not layer.weights:
        return ()
    sharding = set("".join(weight.dims for weight in layer.weights))
    return tuple(axis for axis, dim in enumerate(slicing) if dim is not None and dim not in sharding)


def statistics_axes(layer: Layer, slicing: Slicing) -> tuple[int, ...]:
    """The axes over which a norm's statistics must be merged."""
    return tuple(axis for axis, dim in enumerate(slicing) if dim in layer.statistics)


def ring_axes(layer: Layer, slicing: Slicing) -> tuple[int, ...]:
    """The axes along which keys and values are passed round."""
    return tuple(axis for axis, dim in enumerate(slicing) if dim is Dim.Q) if layer.passes_keys else ()


def _layout(dims: str, slicing: Slicing, absent: Placement) -> Layout:
    return tuple(REPLICATE if dim is None else _SHARDS[dims.index(dim)] if dim in dims else absent for dim in slicing)


def sharding_axes(layout: Layout, dim: int) -> tuple[int, ...]:
    """The axes that shard tensor dim `dim`, outermost first."""
    return tuple(axis for axis, placement in enumerate(layout) if placement == _SHARDS[dim])


def partial_axes(layout: Layout) -> tuple[int, ...]:
    return tuple(axis for axis, placement in enumerate(layout) if placement is PARTIAL)


def replace_axes(layout: Layout, axes: tuple[int, ...], placement: Placement) -> Layout:
    return tuple(placement if axis in axes else old for axis, old in enumerate(layout))
