"""The fields of a plan, versions 1 and 2 (docs/formats.md)."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from slicewise.formats.schema import Count, Excerpt, Name, Natural, NonNegative, Note, Notes, Positive, Share, Table
from slicewise.graph.dims import Dim
from slicewise.partition.buckets import BUCKET_BYTES


class StageFields(Table):
    last: Name  # the one that is read back
    first: str = ""
    layers: Natural = 0
    forward_s: NonNegative = 0.0
    backward_s: NonNegative = 0.0
    transfer_s: NonNegative = 0.0


class PipelineFields(Table):
    schedule: Name
    micro_batches: Count
    stages: Annotated[list[StageFields], Meta(min_length=1)]


class PlanLayerFields(Table):
    """`degrees` and `cost` are for the reader."""

    name: Name
    slicing: dict[Name, Dim]
    kind: str = ""
    degrees: dict[str, Count] = field(default_factory=dict)
    cost: Notes = field(default_factory=dict)


class PlanV1Fields(Table):
    """Names its network and its cluster. `predicted`, `baselines` and most of `certificate` are for the reader."""

    schema_version: int
    model: Name
    cluster: Name
    devices: Count
    batch: Count
    dtype: Name
    optimizer: Name
    recompute: bool
    batchnorm: Name
    cost_model: Name
    mesh: dict[Name, Count]
    layers: Annotated[list[PlanLayerFields], Meta(min_length=1)]
    bucket_bytes: Count = BUCKET_BYTES
    rings: tuple[Name, ...] = ()
    input: Annotated[tuple[Count, ...], Meta(max_length=16)] | None = None
    predicted: Notes = field(default_factory=dict)
    baselines: dict[str, Notes] = field(default_factory=dict)
    certificate: dict[str, Note | list[Note] | Notes] = field(default_factory=dict)
    pipeline: PipelineFields | None = None


class SpaceFields(Table):
    dims_per_layer: Count
    dims_per_tier: Count
    reductions: bool
    uneven: bool


class RequestFields(Table):
    """What was asked: `slicewise explain` and planning again read it."""

    strategy: Name
    dtype: Name
    optimizer: Name
    recompute: bool
    batchnorm: Name
    cost: Name
    space: SpaceFields
    objective: Name
    memory_limit_bytes: Positive | None
    fix: list[str]
    forbid: list[str]
    gap: Share
    time_limit_s: Positive | None
    search: Name
    segments: Count | None
    bucket_bytes: Count = BUCKET_BYTES
    rings: tuple[Name, ...] = ()
    bucket: Count | None = None
    simplify: Share = 0.0  # plans of earlier releases were not made simpler


class PlanV2Fields(PlanV1Fields):
    """Carries them too: as a saved graph, and as a cluster's description. May say what was asked."""

    software: Name | UnsetType = UNSET  # the machine's
    references: dict[str, Notes] = field(default_factory=dict)
    request: dict[str, Any] | UnsetType = UNSET
    machine: dict[str, Any] | UnsetType = UNSET
    graph: dict[str, Any] | UnsetType = UNSET


class PinFields(Excerpt):
    """What a certificate says that planning again needs, where the plan does not carry its request."""

    constraints: list[str] = field(default_factory=list)
    memory_limit_bytes: Positive | None = None
