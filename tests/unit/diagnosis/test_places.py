"""Slow and stalled ranks are named by layer."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.diagnosis.diagnosis import diagnosis_of
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.verdict import Fault
from slicewise.errors import RequestError
from slicewise.report.diagnosis import sentence
from slicewise.runtime.stalls import Stall
from slicewise.runtime.whereabouts import Place
from tests.synthetic_runs import STEP_S, expected, factors, record

STALL = Stall(
    waited_s=61.0,
    places=(
        Place(rank=0, process=0, step=7, marks=9, time_s=0.0, doing="sync", layer="fc.weight"),
        Place(rank=1, process=0, step=7, marks=5, time_s=0.0, doing="halo", layer="conv2"),
    ),
    behind=(1,),
    stopped=(),
)


def test_the_json_of_a_run_that_stalled_says_which_rank_where(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    document = {"schema_version": 1, "model": "lenet5", "devices": 2, "batch": 8, "stalled": STALL.to_dict()}
    file.write_text(json.dumps(document))
    read = read_files([file])
    assert read.facts == {"model": "lenet5", "devices": 2, "batch": 8}
    found = diagnosis_of(read, expected())
    (verdict,) = found.verdicts
    assert not found.as_projected
    assert (verdict.kind, verdict.ranks, verdict.since_step) == (Fault.STALL, (1,), 7)
    assert (verdict.term, verdict.layer) == ("halo", "conv2")
    assert verdict.factor == pytest.approx(61.0 / STEP_S)
    assert sentence(verdict) == str(STALL)
    assert found.to_dict()["verdicts"][0]["layer"] == "conv2"


def test_a_stall_that_names_ranks_it_does_not_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"stalled": {**STALL.to_dict(), "behind": [2]}}))
    with pytest.raises(RequestError, match="names ranks beyond the 2"):
        read_files([file])


def test_a_slow_rank_is_slow_in_the_layer_where_it_loses_most() -> None:
    compute = factors(40, 3)
    compute[:, 1] = 2.0
    layers = {"conv1": [0.01, 0.01, 0.01], "conv2": [0.01, 0.03, 0.012], "fc": [0.05, 0.06, 0.05]}
    run = replace(record(compute, noise=0.01, seed=0), layers=layers)
    slow = next(v for v in diagnosis_of(run, expected(3)).verdicts if v.kind is Fault.SLOW_RANK)
    assert (slow.ranks, slow.layer) == ((1,), "conv2")
    assert "most of it in conv2" in sentence(slow)
    unknown = next(v for v in diagnosis_of(replace(run, layers={}), expected(3)).verdicts if v.kind is Fault.SLOW_RANK)
    assert unknown.layer is None
