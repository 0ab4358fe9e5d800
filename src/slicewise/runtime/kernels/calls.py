"""Captured operators, called on a rank's parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slicewise.graph.layer import Layer
from slicewise.partition.layout import Slicing, layouts
from slicewise.partition.parts import Box, box
from slicewise.runtime.groups import Groups
from slicewise.runtime.kernels.operators import constant, operator

Kernel = Callable[[Sequence[Tensor]], Tensor]
Values = Callable[[Sequence[Tensor]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass."""

    training: bool = True
    number: int = 0  # passes in training mode so far: random numbers differ between them
    again: bool = False  # in backward, of what was not kept: leaves no trace in running statistics


@dataclass(slots=True, kw_only=True)
class Context:
    """What kernels need beside their layer."""

    groups: Groups
    tensors: Mapping[str, Tensor]  # weights (local leaves) and buffers (local parts), by name
    device: torch.device
    seed: int = 0
    batch: int = 1  # samples of the network that is compiled
    in_place: bool = True  # whether an operator may overwrite its input where the model's own does
    now: Pass = Pass()

    def training(self) -> bool:
        return self.now.training

    def generator(self, stream: int) -> torch.Generator:
        """Random numbers of this pass for a stream."""
        generator = torch.Generator(device=self.device)
        generator.manual_seed(self.drawn(stream))
        return generator

    def drawn(self, stream: int) -> int:
        """The seed of this pass for a stream."""
        return ((self.seed * 1_000_003 + self.now.number) * 2_147_483_647 + stream) % 2**63

    def output_box(self, layer: Layer, slicing: Slicing) -> Box:
        """This rank's part of the output."""
        return box(layer.shape, layouts(layer, slicing).output, self.groups.mesh, self.groups.rank)


def plain(layer: Layer, slicing: Slicing, context: Context) -> Kernel:
    """The operator as captured, on the rank's parts."""
    call = caller(layer, in_place=context.in_place and bool(layer.options.get("in_place")))
    values = bound(layer, slicing, context)
    return lambda inputs: call(values(inputs))


def caller(layer: Layer, *, in_place: bool = False, overload: str = "") -> Callable[[Mapping[str, Any]], Tensor]:
    """The layer's operator as a function of its arguments by name."""
    named = operator(layer, in_place=in_place, overload=overload)
    keywords = {argument.name for argument in named._schema.arguments if argument.kwarg_only}
    chosen = layer.options.get("output")

    def call(values: Mapping[str, Any]) -> Tensor:
        if not keywords and chosen is None:
            return named(*values.values())  # type: ignore[no-any-return]
        positional = [value for name, value in values.items() if name not in keywords]
        result = named(*positional, **{name: value for name, value in values.items() if name in keywords})
        return result if chosen is None else result[chosen]  # type: ignore[no-any-return]

    return call


def bound(layer: Layer, slicing: Slicing, context: Context) -> Values:
    """The captured arguments by name, with tensors where they refer to tensors."""
    placed = layouts(layer, slicing)
    mesh, rank = context.groups.mesh, context.groups.rank
    parts = {
        buffer.name: tuple(slice(*edges) for edges in box(buffer.shape, layout, mesh, rank))
        for buffer, layout in zip(layer.buffers, placed.buffers, strict=True)
    }
    whole = {held.name: held.shape for held in (*layer.weights, *layer.buffers)}
    batch = context.batch

    def resolved(value: Any, inputs: Sequence[Tensor]) -> Any:
        if isinstance(value, dict):
            if "input" in value:
                return inputs[value["input"]]
            if "batch" in value:
                return value["batch"] * batch
            name = value.get("weight") or value["buffer"]
            held = context.tensors[name]
            held = held[parts[name]] if name in parts else held
            return _viewed(held, whole[name], value["shape"]) if "shape" in value else held
        if isinstance(value, list):
            return [resolved(item, inputs) for item in value]
        if isinstance(value, str) and value.startswith("torch."):
            return constant(value)
        return value

    arguments = layer.options["arguments"]
    varying = [(name, value) for name, value in arguments.items() if _varies(value, parts)]
    fixed = {name: None if _varies(value, parts) else resolved(value, ()) for name, value in arguments.items()}
    if "device" in fixed:  # the network's own: captures are made on others, without memory even
        fixed["device"] = context.device

    def values(inputs: Sequence[Tensor]) -> dict[str, Any]:
        given = fixed.copy()
        for name, value in varying:
            given[name] = resolved(value, inputs)
        return given

    return values


def _varies(value: Any, parts: Mapping[str, Any]) -> bool:
    """Whether an argument is another tensor in each pass: an input, or a view of a tensor that is held."""
    if isinstance(value, list):
        return any(_varies(item, parts) for item in value)
    return isinstance(value, dict) and ("input" in value or "shape" in value or value.get("buffer") in parts)


def _viewed(part: Tensor, whole: tuple[int, ...], view: list[int]) -> Tensor:
    """This rank's part under the captured view, which only adds or drops dims of size 1."""
    sizes = iter(size for size, extent in zip(part.shape, whole, strict=True) if extent != 1)
    return part.reshape([1 if size == 1 else next(sizes) for size in view])


def operator_name(layer: Layer) -> str:
    return str(layer.options["op"]).split(".")[1]


def part_number(slicing: Slicing, letters: str, groups: Groups) -> int:
    """Which part of a tensor with these letters this rank has: the same number where ranks have the same part."""
    part = 0
    for axis, dim in enumerate(slicing):
        if dim is not None and dim in letters:
            part = part * groups.mesh.sizes[axis] + int(groups.mesh.coordinates[groups.rank, axis])
    return part


def stream(name: str, part: int = 0) -> int:
    """A number for a layer's random generator; parts of the layer draw different numbers."""
    number = 0
    for letter in name.encode():
        number = (number * 257 + letter) % (2**31 - 1)
    return (number * 65537 + part) % (2**31 - 1)
