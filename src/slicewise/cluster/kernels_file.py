"""The fields of a device's `kernels`: in kernels.toml, in a cluster file, or in a plan (docs/formats.md)."""

from msgspec import UNSET, UnsetType

from slicewise.formats.schema import NonNegative, Positive, Table

HalfFields = tuple[NonNegative, NonNegative, NonNegative, NonNegative]


class ProductFields(Table):
    """By kind of matrix product."""

    linear: Positive
    product: Positive
    pointwise: Positive
    winograd: Positive
    window: Positive
    strided: Positive
    volume: Positive
    grouped: Positive
    depthwise: Positive


class HalfSizeFields(Table):
    linear: HalfFields
    forward: HalfFields
    backward_input: HalfFields
    backward_weight: HalfFields


class UnitFields(Table):
    efficiency: ProductFields
    backward_input: Positive
    backward_weight: Positive
    strided_input: Positive
    half_size: HalfSizeFields
    long_reduction: Positive = 1e9


class MemoryFields(Table):
    product: Positive
    elementwise: Positive
    norm: Positive
    softmax: Positive
    pool: Positive


class CallFields(Table):
    linear: NonNegative
    product: NonNegative
    forward: NonNegative
    backward_input: NonNegative
    backward_weight: NonNegative
    elementwise: NonNegative
    norm: NonNegative
    softmax: NonNegative
    pool: NonNegative


class SpreadFields(Table):
    linear: NonNegative
    product: NonNegative
    forward: NonNegative
    backward_input: NonNegative
    backward_weight: NonNegative
    elementwise: NonNegative
    norm: NonNegative
    softmax: NonNegative
    pool: NonNegative


class KernelsFields(Table):
    simt: UnitFields
    memory: MemoryFields
    call_s: CallFields
    spread: SpreadFields
    tensor: UnitFields | UnsetType = UNSET
    by_rule: bool = False
