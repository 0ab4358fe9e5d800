"""Files that a report is made of, told apart by what is in them. They are data: nothing in them is ever run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from slicewise.errors import RequestError
from slicewise.fitting.runs import Run, read_runs
from slicewise.formats.checking import checked
from slicewise.formats.files import parse_json, read_text
from slicewise.formats.schema import Excerpt
from slicewise.plans.plan import Plan
from slicewise.report.document_files import DiagnosisFields, OracleFields, RunFields, ValidationFields
from slicewise.report.traces import Trace, trace_of
from slicewise.timelines.chrome_file import read_trace


@dataclass(frozen=True, kw_only=True)
class Given:
    """All files of a report, by kind, each with its name."""

    plans: list[tuple[str, Plan]] = field(default_factory=list)
    oracles: list[tuple[str, OracleFields]] = field(default_factory=list)
    runs: list[tuple[str, RunFields]] = field(default_factory=list)
    diagnoses: list[tuple[str, DiagnosisFields]] = field(default_factory=list)
    validations: list[tuple[str, ValidationFields]] = field(default_factory=list)
    traces: list[tuple[str, Trace]] = field(default_factory=list)
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
        given.traces.append((name, trace_of(read_trace(document, str(path)), str(path))))
    elif not isinstance(document, Mapping):
        raise _unknown(path)
    elif "mesh" in document and "layers" in document:
        given.plans.append((name, Plan.from_dict(document, str(path))))
    elif isinstance(document.get("plans"), list) and document["plans"]:
        made = [Plan.from_dict(item, f"{path}: plans[{at}]") for at, item in enumerate(document["plans"])]
        given.plans.extend((f"{name} {at}", plan) for at, plan in enumerate(made, 1))
    elif "verdicts" in document:
        given.diagnoses.append((name, checked(DiagnosisFields, document, str(path))))
    elif "bars" in document and "null_accuracy" in document:
        given.validations.append((name, checked(ValidationFields, document, str(path))))
    elif "rows" in document and "engine" in document:
        given.oracles.append((name, checked(OracleFields, document, str(path))))
    elif "steps_s" in document:
        given.runs.append((name, checked(RunFields, document, str(path))))
    else:
        raise _unknown(path)


def _unknown(path: Path) -> RequestError:
    return RequestError(
        f"{path}: nothing to report; give a plan, the --json of oracle, plan --pareto, run, validate or diagnose, "
        f"a trace, or measured runs (.csv)"
    )


def plain(fields: Excerpt) -> dict[str, Any]:
    """A checked document as plain values."""
    result: dict[str, Any] = to_builtins(fields)
    return result
