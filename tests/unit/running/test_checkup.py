"""What `slicewise doctor` finds, one fault at a time."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cluster.cluster import Cluster, Tier
from slicewise.cluster.writing import to_toml
from slicewise.errors import RequestError
from slicewise.running import checkup, installed
from slicewise.running.checkup import AllReduceCheck, Finding, NetworkCheck, check_up, host_memory_bytes
from slicewise.running.installed import Package
from tests.machines import CORE

RANKS = 2


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of our own, a host without GPUs, and nothing set for the network."""
    monkeypatch.setenv("SLICEWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(checkup, "_gpus", lambda: ())
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def _profile(folder: Path, cores: int | None = None, memory_bytes: int | None = None, gpu: str = "") -> None:
    """As `calibrate` writes it on this machine, but for what is given."""
    device = replace(CORE, name=gpu or "CPU core x1", memory_bytes=memory_bytes or host_memory_bytes() // RANKS)
    tier = Tier(name="local", size=RANKS, latency_s=1e-4, bytes_per_s=1e9)
    own = None if gpu else cores or max(os.cpu_count() or 1, RANKS)
    cluster = Cluster(name="local", device=device, tiers=(tier,), cores=own, origin="fitted")
    (folder / "local.toml").write_text(to_toml(cluster))


def _about(word: str) -> list[Finding]:
    return [finding for finding in check_up().findings if word in finding.said]


def test_a_profile_of_this_machine_is_well(here: Path) -> None:
    _profile(here)
    assert check_up().well
    assert not _about("profile")


def test_a_machine_that_was_never_measured_is_told_how(here: Path) -> None:
    (finding,) = _about("not calibrated")
    assert (finding.level, finding.fix) == ("missing", "slicewise calibrate")
    assert check_up().well


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cores": 512}, "measured with 512 cores"),
        ({"memory_bytes": 10**15}, "measured with 2,000 TB of memory"),
        ({"gpu": "Tesla P100"}, "measured on Tesla P100, and this host has no GPU"),
    ],
)
def test_a_profile_of_another_machine_is_found(here: Path, given: dict[str, int], told: str) -> None:
    _profile(here, **given)  # type: ignore[arg-type]
    (finding,) = _about("not of this machine")
    assert told in finding.said
    assert not check_up().well


def test_a_profile_of_cores_on_a_host_with_gpus_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _profile(here)
    monkeypatch.setattr(checkup, "_gpus", lambda: ("NVIDIA A100", "NVIDIA A100"))
    (finding,) = _about("not of this machine")
    assert finding.said.endswith("measured on CPU cores, and this host has 2 x NVIDIA A100")


def test_a_broken_profile_is_found_and_another_files_fault_is_the_requests(here: Path) -> None:
    (here / "local.toml").write_text("name = ")
    (finding,) = _about("cannot be read")
    assert (finding.level, finding.fix) == ("wrong", "slicewise calibrate")
    with pytest.raises(RequestError):
        check_up(str(here / "local.toml"))


def test_an_interface_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib77")
    (finding,) = _about("GLOO_SOCKET_IFNAME")
    assert "'ib77', which this host does not have" in finding.said
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "^docker0")
    assert not _about("SOCKET_IFNAME")


def test_a_cache_that_cannot_be_written_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "file").write_text("")
    monkeypatch.setenv("SLICEWISE_CACHE", str(here / "file" / "below"))
    (finding,) = _about("nothing can be written")
    assert finding.fix == "export SLICEWISE_CACHE=FOLDER"


@pytest.mark.parametrize(("measured_s", "well"), [(0.004, True), (0.009, True), (0.013, False), (0.002, False)])
def test_a_network_is_as_calibrated_within_a_factor_of_two(here: Path, measured_s: float, well: bool) -> None:
    _profile(here)
    exchange = AllReduceCheck(message_bytes=2**20, measured_s=measured_s, calibrated_s=0.005)
    found = check_up(network=NetworkCheck(ranks=2, exchanges=(exchange,)))
    assert found.well is well


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.13.0+cpu", ">=2.9,<3", True),
        ("2.8.1", "<3,>=2.9", False),
        ("3.0", "<3,>=2.9", False),
        ("3.0rc1", "<3", False),
        ("15.0.0", ">=13.7", True),
        ("1.26", ">=1.26.0", True),
        ("1.4.9", "~=1.4.2", True),
        ("1.5", "~=1.4.2", False),
        ("0.1", "", True),
    ],
)
def test_versions_are_compared_number_by_number(version: str, wanted: str, fits: bool) -> None:
    assert Package(name="any", wanted=wanted, extra="", version=version).fits is fits


def test_a_missing_extra_is_optional_and_an_old_package_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ['torch<3,>=99 ; extra == "torch"', 'nobody-has-this>=1; extra == "studio"', "numpy>=99"]
    monkeypatch.setattr(installed, "requires", lambda name: listed)
    fixes = {finding.fix: finding.level for finding in check_up().findings}
    assert fixes["pip install 'slicewise[studio]'"] == "missing"
    assert fixes["pip install 'torch<3,>=99'"] == "wrong"
    assert fixes["pip install 'numpy>=99'"] == "wrong"
