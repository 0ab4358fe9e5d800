"""Files that a report is made of, told apart by what is in them. They are data: nothing in them is ever run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, to_builtins

from slicewise.errors import RequestError
from slicewise.fitting.runs import Run, read_runs
from slicewise.formats.checking import checked
from slicewise.formats.files import parse_json, read_text
from slicewise.formats.schema import Count, Excerpt, Name, NonNegative, Seconds
from slicewise.plans.plan import Plan
from slicewise.report.traces import step_of_trace
from slicewise.timelines.chrome_file import read_trace
from slicewise.timelines.event import Event

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
    name: Name
    told: _Words
    binds: bool = True


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


@dataclass(frozen=True, kw_only=True)
class Given:
    """All files of a report, by kind, each with its name."""

    plans: list[tuple[str, Plan]] = field(default_factory=list)
    oracles: list[tuple[str, OracleFields]] = field(default_factory=list)
    runs: list[tuple[str, RunFields]] = field(default_factory=list)
    diagnoses: list[tuple[str, DiagnosisFields]] = field(default_factory=list)
    traces: list[tuple[str, list[Event]]] = field(default_factory=list)  # one step of each
    measured: list[Run] = field(default_factory=list)  # lines of CSV files


def read_documents(paths: Sequence[Path]) -> Given:
    given = Given()
    for path in paths:
        if path.suffix == ".csv":
            given.measured.extend(read_runs(path))
        else:
            _read(path, given)
    if given.measured and not given.oracles:
        raise RequestError("measured runs stand beside projections; give the --json of oracle for the same network too")
    return given


def _read(path: Path, given: Given) -> None:
    name = path.name
    document = parse_json(read_text(path, RequestError, "JSON"), str(path), RequestError)
    if isinstance(document, list) or (isinstance(document, Mapping) and "traceEvents" in document):
        given.traces.append((name, step_of_trace(read_trace(document, str(path)), str(path))))
    elif not isinstance(document, Mapping):
        raise _unknown(path)
    elif "mesh" in document and "layers" in document:
        given.plans.append((name, Plan.from_dict(document, str(path))))
    elif isinstance(document.get("plans"), list) and document["plans"]:
        made = [Plan.from_dict(item, f"{path}: plans[{at}]") for at, item in enumerate(document["plans"])]
        given.plans.extend((f"{name} {at}", plan) for at, plan in enumerate(made, 1))
    elif "verdicts" in document:
        given.diagnoses.append((name, checked(DiagnosisFields, document, str(path))))
    elif "rows" in document and "engine" in document:
        given.oracles.append((name, checked(OracleFields, document, str(path))))
    elif "steps_s" in document:
        given.runs.append((name, checked(RunFields, document, str(path))))
    else:
        raise _unknown(path)


def _unknown(path: Path) -> RequestError:
    return RequestError(
        f"{path}: nothing to report; give a plan, the --json of oracle, plan --pareto, run or diagnose, a trace, "
        f"or measured runs (.csv)"
    )


def plain(fields: Excerpt) -> dict[str, Any]:
    """A checked document as plain values."""
    result: dict[str, Any] = to_builtins(fields)
    return result
