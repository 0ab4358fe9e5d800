"""The fields of a cluster's description, version 1: a TOML file, or a table in a plan (docs/formats.md)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, field

from slicewise.cluster.kernels_file import KernelsFields
from slicewise.dtype import REDUCED
from slicewise.formats.schema import Count, Name, NonNegative, Positive, Share, Table
from slicewise.strategy import STRATEGIES


class LinkFields(Table):
    latency_s: Positive
    bytes_per_s: Positive


class CollectivesFields(Table):
    all_reduce: LinkFields | UnsetType = UNSET
    all_gather: LinkFields | UnsetType = UNSET
    all_to_all: LinkFields | UnsetType = UNSET
    bucket: LinkFields | UnsetType = UNSET
    gradient: LinkFields | UnsetType = UNSET
    send: LinkFields | UnsetType = UNSET


class RackFields(Table):
    name: Name
    size: Count
    latency_s: Positive
    bytes_per_s: Positive
    ports: Count = 1
    queue_s: NonNegative | UnsetType = UNSET
    collectives: CollectivesFields = field(default_factory=CollectivesFields)


class TierFields(RackFields):
    racks: RackFields | UnsetType = UNSET


class EfficiencyFields(Table):
    conv: Positive
    conv_backward: Positive
    linear: Positive
    linear_backward: Positive
    conv3d: Positive | UnsetType = UNSET
    conv3d_backward: Positive | UnsetType = UNSET


def _by_name(name: str, names: Iterable[str]) -> type[Struct]:
    """A table with an optional factor or rate for each of `names`."""
    fields = [(key.replace("+", "_"), Positive | UnsetType, field(default=UNSET, name=key)) for key in names]
    return defstruct(name, fields, bases=(Table,), module=__name__)


if TYPE_CHECKING:

    class ReducedFields(Table):
        """Peak FLOP/s of every dtype but fp32, by its name."""

    class CommunicationFields(Table):
        """A factor for every strategy, by its name."""
else:
    ReducedFields = _by_name("ReducedFields", REDUCED)
    CommunicationFields = _by_name("CommunicationFields", STRATEGIES)


class LineFields(Table):
    call_s: NonNegative = 0.0
    s_per_flop: NonNegative = 0.0
    s_per_item: NonNegative = 0.0
    s_per_weight: NonNegative = 0.0


class DeviceFields(Table):
    """What a device is `like` has been filled in before."""

    name: Name
    peak_flops_per_s: Positive
    memory_bytes_per_s: Positive
    memory_bytes: Count
    kernel_s: Positive
    efficiency: EfficiencyFields
    half_size: tuple[NonNegative, NonNegative, NonNegative] = (0.0, 0.0, 0.0)
    reduced_flops_per_s: ReducedFields = field(default_factory=ReducedFields)
    kernels: KernelsFields | UnsetType = UNSET
    layers: dict[Name, dict[Name, LineFields]] | UnsetType = UNSET
    like: Name | UnsetType = UNSET


class FixedComputeFields(Table):
    filter: Positive | UnsetType = UNSET
    channel: Positive | UnsetType = UNSET
    spatial: Positive | UnsetType = UNSET
    sequence: Positive | UnsetType = UNSET


class TuningFields(Table):
    fixed_compute: FixedComputeFields = field(default_factory=FixedComputeFields)
    compute: dict[Name, Positive] = field(default_factory=dict)
    communication: CommunicationFields = field(default_factory=CommunicationFields)
    flat_rings: bool | UnsetType = UNSET
    layer_messages: bool | UnsetType = UNSET
    split_linear: bool | UnsetType = UNSET
    staged_bytes_per_s: Positive | UnsetType = UNSET
    halo_latency_s: Positive | UnsetType = UNSET
    overlap: Share | UnsetType = UNSET
    memory_reuse: Positive | UnsetType = UNSET
    margin: Positive | UnsetType = UNSET
    networks: list[Name] | UnsetType = UNSET
    strategies: list[Name] | UnsetType = UNSET
    dtypes: list[Name] | UnsetType = UNSET
    most_devices: Count | UnsetType = UNSET


class MeasuredFields(Table):
    """A network's step on one device, and what it makes of compute here."""

    model: Name
    batch: Count
    seconds: Positive
    factor: Positive
    dtype: Name | None = None
    optimizer: Name | None = None


class MeasuredOnFields(Table):
    """What was there when a machine was measured."""

    device: Name
    torch: Name
    cores: Count
    ranks: Count


class TimeFields(Table):
    """A layer's part, timed."""

    forward_s: NonNegative
    backward_s: NonNegative
    update_s: NonNegative | None = None


class ClusterFields(Table):
    name: Name
    device: Name | DeviceFields
    tiers: Annotated[list[TierFields], Meta(min_length=1, max_length=16)]
    origin: Name = "preset"
    overlap: Share = 1.0
    straggling: Share = 0.0
    cores: Count | UnsetType = UNSET
    tuning: TuningFields = field(default_factory=TuningFields)
    software: Literal["plain", "tuned"] | UnsetType = UNSET
    software_assumed: bool = False
    measured: MeasuredFields | UnsetType = UNSET
    measured_on: MeasuredOnFields | UnsetType = UNSET
    reference_s: Positive | UnsetType = UNSET
    times: dict[Name, TimeFields] = field(default_factory=dict)
    schema_version: int = 1
