"""Spatial slices: borrow the neighbours' borders, then compute as if the rest of the tensor were not there.

The joined tensor (own part + halo + padding) lives only as long as the operator runs. What the operator saves for
backward is replaced by the parts it was joined from, and joined again when backward asks for it, so slicing costs no
activation memory beyond the borrowed slabs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.halo import halo, needed_boxes, periods
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import Box, as_boxes, box, boxes
from slicewise.runtime.clock import span
from slicewise.runtime.exchange import Exchange
from slicewise.runtime.groups import Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """How this rank's input becomes the region that its output part reads."""

    layer: str
    region: Box  # unclipped: it may reach over the tensor's borders, into padding
    forward: Exchange
    backward: Exchange


def compile_join(layer: Layer, slicing: Slicing, groups: Groups, dims: Collection[Dim], fill: float) -> Join | None:
    """The join along the windowed `dims`; None where this rank reads just what it owns and nobody exchanges.

    Dims that are not sliced are only padded: whoever needs them has all of them.
    """
    mesh, rank = groups.mesh, groups.rank
    placed = layouts(layer, slicing)
    exchange = halo(layer, slicing, mesh)
    members = groups.members(exchange.axes) if exchange else [rank]
    own = as_boxes(boxes(layer.input_shapes[0], placed.inputs[0], mesh))
    sliced = [dim for dim in dims if dim in slicing]
    needed = as_boxes(needed_boxes(layer, slicing, mesh, sliced))
    region = _region(layer, slicing, needed[rank], box(layer.shape, placed.output, mesh, rank), dims)
    if exchange is None and region == own[rank]:
        return None
    boxes_of_group: dict[str, Any] = {
        "own": [own[member] for member in members],
        "needed": [needed[member] for member in members],
        "me": members.index(rank),
        "group": groups.of(exchange.axes) if exchange else None,
        "target": region,
        "periods": periods(layer),
    }
    return Join(
        layer=layer.name,
        region=region,
        forward=Exchange.compile(**boxes_of_group, fill=fill),
        backward=Exchange.compile_adjoint(**boxes_of_group),
    )


def _region(layer: Layer, slicing: Slicing, needed: Box, output: Box, dims: Collection[Dim]) -> Box:
    """The needed box, with the padding that the windows of `dims` read beyond the tensor's borders."""
    region = list(needed)
    for dim in dims:
        window, position = layer.windows[dim], layer.input_dims[0].index(dim)
        if not window.transposed:  # a transposed window has no padding to read: its output is cropped
            start, stop = window.needs(*output[layer.dims.index(dim)])
            low, high = needed[position]
            region[position] = (start, stop) if dim in slicing else (min(start, low), max(stop, high))
    return tuple(region)


def on_joined(x: Tensor, join: Join | None, operator: Callable[[Tensor], Tensor]) -> Tensor:
    """`operator` on the joined input, saving only the parts for backward."""
    if join is None:
        return operator(x)
    borrowed: list[Tensor] = []
    joined: Tensor = _Joined.apply(x, join, borrowed)
    if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
        return operator(joined)  # somebody else decides what is kept: activation checkpointing, or offloading
    own, address, shape = x.detach(), joined.data_ptr(), joined.shape

    def pack(tensor: Tensor) -> Tensor | _Parts:
        is_joined = tensor.data_ptr() == address and tensor.shape == shape
        return _Parts(own, borrowed[0]) if is_joined else tensor

    def unpack(saved: Tensor | _Parts) -> Tensor:
        return join.forward.assemble(saved.own, saved.borrowed) if isinstance(saved, _Parts) else saved

    with saved_tensors_hooks(pack, unpack):
        return operator(joined)


@dataclass(frozen=True, slots=True)
class _Parts:
    own: Tensor
    borrowed: Tensor


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, join: Join, borrowed: list[Tensor]) -> Tensor:
        ctx.join = join
        borrowed.append(_receive(join, join.forward, x))
        return join.forward.assemble(x, borrowed[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        received = _receive(ctx.join, ctx.join.backward, gradient)
        return ctx.join.backward.assemble(gradient, received), None, None


def _receive(join: Join, exchange: Exchange, x: Tensor) -> Tensor:
    if exchange.members == 1:  # this rank only cuts or pads; others may do nothing at all
        return exchange.receive(x)
    with span("halo", join.layer):
        return exchange.receive(x)
