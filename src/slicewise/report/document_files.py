"""What is read of the JSON that other commands print: a field that is missing or wrong is named in one line."""

from typing import Annotated, Any

from msgspec import Meta

from slicewise.formats.schema import Count, Excerpt, Name, NonNegative, Seconds

_Words = Annotated[str, Meta(max_length=10_000)]


class RowFields(Excerpt):
    strategy: Name
    devices: Count
    batch: Count
    split: _Words | None = None
    compute_s: NonNegative | None = None
    communication: dict[str, NonNegative] | None = None
    iteration_s: Seconds | None = None
    low_s: Seconds | None = None
    high_s: Seconds | None = None
    epoch_s: NonNegative | None = None
    samples_per_s: NonNegative | None = None
    efficiency: NonNegative | None = None
    memory_bytes: NonNegative | None = None
    feasible: bool = True
    reason: _Words | None = None
    best: bool = False


class BestFields(Excerpt):
    why: _Words


class LimitFields(Excerpt):
    devices: Count
    strategy: Name
    limit: Name
    told: _Words
    binds: bool


class FormFields(Excerpt):
    strategy: Name
    devices: Count
    what: Name
    formula: _Words
    numbers: _Words
    value: _Words


class OracleFields(Excerpt):
    """The JSON of `slicewise oracle`."""

    model: Name
    cluster: Name
    engine: Name
    rows: Annotated[list[RowFields], Meta(min_length=1, max_length=20_000)]
    best: BestFields | None = None
    limits: tuple[LimitFields, ...] = ()
    closed_forms: tuple[FormFields, ...] = ()


class SpreadFields(Excerpt):
    median: Seconds
    p10: Seconds | None = None
    p90: Seconds | None = None


class RunFields(Excerpt):
    """The JSON of `slicewise run`."""

    model: Name
    devices: Count
    batch: Count
    dtype: Name
    iteration_s: SpreadFields
    predicted: dict[str, Any]
    steps_s: dict[str, list[list[float]]]
    bytes_moved: NonNegative
    peak_memory_bytes: list[NonNegative]
    compute_s: float = 0.0
    transfer_s: NonNegative = 0.0
    halo_s: NonNegative = 0.0
    reduce_s: NonNegative = 0.0
    sync_s: NonNegative = 0.0
    update_s: NonNegative = 0.0
    check: dict[str, Any] | None = None


class VerdictFields(Excerpt):
    kind: Name
    term: Name
    ranks: list[int]
    since_step: int | None
    factor: float
    excess_s: float
    evidence: dict[str, Any]
    alternatives: tuple[Name, ...] = ()
    with_it: tuple[Name, ...] = ()


class MeasuredFields(Excerpt):
    iteration_s: SpreadFields
    terms_s: dict[str, list[float]]


class DiagnosisFields(Excerpt):
    """The JSON of `slicewise diagnose`."""

    model: Name
    cluster: Name
    devices: Count
    batch: Count
    as_projected: bool
    verdicts: list[VerdictFields]
    projected: dict[str, Any]
    measured: MeasuredFields


class BarFields(Excerpt):
    model: Name
    strategy: Name
    ranks: Count
    cost_model: Name
    predicted_s: Seconds
    measured_s: Seconds


class ScoreFields(Excerpt):
    all: NonNegative | None


class ValidationFields(Excerpt):
    bars: list[BarFields]
    accuracy: ScoreFields
    null_accuracy: NonNegative | None = None
    memory_accuracy: NonNegative | None = None
    spearman: Annotated[float, Meta(ge=-1, le=1)] | None = None
    regret: NonNegative | None = None
