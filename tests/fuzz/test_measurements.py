"""What `diagnose` and `calibrate --from` read: traces, runs and tables, plain and compressed."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from slicewise.diagnosis.diagnosing import asked_of, check_record
from slicewise.diagnosis.diagnosis import diagnosis_of
from slicewise.diagnosis.expectation import expectation_of
from slicewise.diagnosis.readers.files import read_files
from slicewise.fitting.runs import read_runs
from slicewise.plans.plan import Plan
from tests.fuzz.campaign import campaign, sizes
from tests.fuzz.mutations import Mutant, as_json, damaged, mutated, tables

V1 = Path(__file__).parent.parent / "formats" / "v1"
NAMES = ("run.json", "timeline.json.gz", "profiler-rank0.json.gz")
ITERATIONS = [
    "iteration_s\n" + "0.05\n0.051\n" * 20,
    "step,rank0_s,rank1_s\n" + "".join(f"{step},0.05,{0.05 + step / 1000}\n" for step in range(30)),
]
RUNS = [(V1 / "runs.csv").read_text()]


def content(name: str) -> bytes:
    stored = (V1 / name).read_bytes()
    return gzip.decompress(stored) if name.endswith(".gz") else stored


def shortened(name: str) -> Any:
    """The document, of a trace with fewer events: so that changes meet what matters."""
    document = json.loads(content(name))
    if "traceEvents" in document:
        telling = ("step", "ProfilerStep", "wait for", "gloo", "Optimizer", "DataLoader", "weights")
        events = [e for e in document["traceEvents"] if any(word in str(e.get("name")) for word in telling)]
        document["traceEvents"] = [*events[:40], *document["traceEvents"][-20:]]
    return document


@pytest.fixture(scope="module")
def diagnosed() -> Callable[[Path], None]:
    plan = Plan.load(V1 / "plan-data.json")
    expected = expectation_of(plan, plan.network(), plan.hardware())

    def judged(path: Path) -> None:
        record = read_files([path])
        check_record(asked_of(plan), record)
        json.dumps(diagnosis_of(record, expected).to_dict(), allow_nan=False)

    return judged


@sizes(450, 15_000)
def test_a_mutated_measurement_is_refused_or_judged(
    inputs: int, begin: int, tmp_path: Path, diagnosed: Callable[[Path], None]
) -> None:
    def judged(mutant: Mutant) -> None:
        path = tmp_path / "measured.json"
        path.write_bytes(as_json(mutant.document))
        diagnosed(path)

    campaign(inputs, begin, mutated([shortened(name) for name in NAMES]), judged)


@sizes(150, 5_000)
def test_a_damaged_measurement_is_refused_or_judged(
    inputs: int, begin: int, tmp_path: Path, diagnosed: Callable[[Path], None]
) -> None:
    def judged(damaged_content: bytes) -> None:
        path = tmp_path / "measured.json.gz"
        path.write_bytes(damaged_content)
        diagnosed(path)

    texts = [*(as_json(shortened(name)) for name in NAMES), *(text.encode() for text in ITERATIONS)]
    campaign(inputs, begin, damaged(texts), judged)


@sizes(150, 4_000)
def test_a_mutated_table_of_iterations_is_refused_or_judged(
    inputs: int, begin: int, tmp_path: Path, diagnosed: Callable[[Path], None]
) -> None:
    def judged(text: str) -> None:
        path = tmp_path / "times.csv"
        path.write_text(text)
        diagnosed(path)

    campaign(inputs, begin, tables(ITERATIONS), judged)


@sizes(150, 4_000)
def test_a_mutated_or_damaged_table_of_runs_is_refused_or_read(inputs: int, begin: int, tmp_path: Path) -> None:
    def read(given: str | bytes) -> None:
        path = tmp_path / "runs.csv"
        path.write_bytes(given.encode() if isinstance(given, str) else given)
        read_runs(path)

    campaign(inputs, begin, st.one_of(tables(RUNS), damaged([RUNS[0].encode()])), read)


@pytest.mark.parametrize("bomb", [b"0", b"[", b"{},", b"0.1\n", b'{"traceEvents":[{}]}'])
def test_a_compressed_file_that_never_ends_is_refused(
    bomb: bytes, tmp_path: Path, diagnosed: Callable[[Path], None]
) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(400):
            file.write(bomb * (2**20 // len(bomb)))
    campaign(1, 0, st.just(path), diagnosed)
