"""The fields of a saved graph, version 1 (docs/formats.md)."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from slicewise.formats.schema import Count, Name, Natural, Note, Table, Whole
from slicewise.graph.kind import Kind

Shape = Annotated[tuple[Count, ...], Meta(max_length=16)]
Letters = Annotated[str, Meta(max_length=16)]


class WindowFields(Table):
    kernel: Count
    stride: Count = 1
    padding: Whole = 0  # of a crop negative: how much it leaves out
    dilation: Count = 1
    transposed: bool = False
    output_padding: Natural = 0
    wraps: bool = False


class WindowsFields(Table):
    F: WindowFields | UnsetType = UNSET
    D: WindowFields | UnsetType = UNSET
    H: WindowFields | UnsetType = UNSET
    W: WindowFields | UnsetType = UNSET


class WeightFields(Table):
    name: Name
    shape: Shape
    dims: Letters
    trained: bool
    shared: bool = False
    again: bool = False


class OptionsFields(Table):
    op: Name | UnsetType = UNSET
    dtype: Name | UnsetType = UNSET
    arguments: dict[Name, Any] | UnsetType = UNSET
    statistics: Letters | UnsetType = UNSET
    in_place: bool | UnsetType = UNSET
    differentiable: bool | UnsetType = UNSET
    output: Natural | UnsetType = UNSET
    counts: bool | UnsetType = UNSET
    mask: Letters | UnsetType = UNSET
    ranks: Count | UnsetType = UNSET


class LayerFields(Table):
    name: Name
    kind: Kind
    inputs: Annotated[tuple[Name, ...], Meta(max_length=10_000)]
    input_shapes: tuple[Shape, ...]
    input_dims: tuple[Letters, ...]
    shape: Shape
    dims: Letters
    weights: tuple[WeightFields, ...]
    windows: WindowsFields
    options: OptionsFields
    groups: Count
    buffers: tuple[WeightFields, ...] = ()


class LeafFields(Table):
    value: Note | UnsetType = UNSET
    held: Name | UnsetType = UNSET


class ReturnsFields(Table):
    tree: Annotated[str, Meta(max_length=1_000_000)]
    leaves: list[Natural | LeafFields]


class GraphFields(Table):
    schema_version: int
    name: Name
    layers: Annotated[list[LayerFields], Meta(min_length=1, max_length=100_000)]
    returns: ReturnsFields | None = None
    fingerprint: str | None = None
