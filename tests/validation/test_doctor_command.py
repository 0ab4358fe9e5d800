"""`slicewise doctor`, as a user types it."""

import json
from pathlib import Path

import pytest

from slicewise.cli.main import main
from slicewise.cluster.cluster import Cluster
from slicewise.cluster.writing import to_toml
from tests.machines import CORE, tier
from tests.validation.commands import slicewise, typed


def test_the_network_is_measured_between_real_ranks_and_compared_with_the_profile(tmp_path: Path) -> None:
    """Two ranks of this host are far quicker than a link of one byte per second."""
    slow = Cluster(name="slow", device=CORE, tiers=(tier("node", bytes_per_s=1.0),))
    (tmp_path / "slow.toml").write_text(to_toml(slow))
    done = typed("doctor", "--network", "--cluster", tmp_path / "slow.toml", "--json", cache=tmp_path)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["network"]["ranks"] == 2
    assert all(0 < row["measured_s"] < row["calibrated_s"] for row in found["network"]["all_reduce"])
    (finding,) = [finding for finding in found["findings"] if "all-reduce" in finding["said"]]
    assert finding["fix"] == "slicewise calibrate"
    assert not found["ready"]


def test_text_and_json_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLICEWISE_CACHE", str(tmp_path))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["doctor", "--wide"]) == 0
    shown = capsys.readouterr().out
    assert {package["name"] for package in found["packages"]} >= {"numpy", "torch", "starlette"}
    for package in found["packages"]:
        assert f"{package['name']} " in shown
    for finding in found["findings"]:
        assert finding["said"] in " ".join(shown.split())
        assert f"fix: {finding['fix']}" in shown
    assert str(tmp_path) in shown


def test_a_single_rank_has_no_network(tmp_path: Path) -> None:
    done = slicewise("doctor", "--network", "--nproc-per-node", 1, cache=tmp_path)
    assert done.returncode == 2
    assert "takes at least 2 ranks" in done.stderr
