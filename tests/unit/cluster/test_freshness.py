"""A machine that was measured is refused where it is no longer that machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cluster.cluster import load_cluster, local_path, machine_of, parse_cluster
from slicewise.cluster.freshness import MeasuredOn, here
from slicewise.cluster.lines import Line
from slicewise.cluster.writing import to_toml
from slicewise.errors import RequestError
from tests.builders import DEVICE, machine


def written(folder: Path, measured_on: MeasuredOn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWISE_CACHE", str(folder))
    local_path().write_text(to_toml(machine(2, cores=2, origin="fitted", measured_on=measured_on)))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"device": "6502"}, "on 6502, not "),
        ({"torch": "0.4"}, "with torch 0.4, not "),
        ({"cores": 4096}, "on this many cores: 4096, not "),
    ],
)
def test_a_profile_of_another_machine_is_named_and_refused(
    changed: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, replace(here(2), **changed), monkeypatch)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=f"local was measured {told}.*slicewise calibrate --quick"):
        machine_of("local")
    assert machine_of(local_path()).devices == 2  # by its path, for who plans elsewhere
    assert load_cluster("local").devices == 2  # to be shown


def test_more_ranks_than_were_measured_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, here(2), monkeypatch)
    assert machine_of("local", 1).devices == 1
    with pytest.raises(RequestError, match="on 2 ranks, not 4; run `slicewise calibrate --quick --nproc-per-node 4`"):
        machine_of("local", 4)


def test_files_of_earlier_releases_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWISE_CACHE", str(tmp_path))
    local_path().write_text(to_toml(machine(2, cores=2, origin="fitted")))
    assert machine_of("local", 8).measured_on is None


def test_lines_and_what_was_there_survive_the_file() -> None:
    lines = {"pool": {"forward": Line(call_s=2e-5, s_per_item=1.5e-9)}}
    measured = machine(2, measured_on=here(2), reference_s=0.0123)
    measured = replace(measured, device=replace(DEVICE, layers=lines))
    again = parse_cluster(to_toml(measured), "mine.toml")
    assert again.device.layers == lines
    assert again.measured_on == measured.measured_on
    assert again.reference_s == measured.reference_s
