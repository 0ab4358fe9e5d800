"""What software a cluster runs: asked for, carried along, told."""

import json
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.cli.main import main
from slicewise.cluster.cluster import machine_of, parse_cluster, preset_names
from slicewise.cluster.writing import to_toml
from slicewise.errors import UnknownName

WEAK: dict[str, Any] = {"batch_per_device": 32, "devices": [8], "strategies": ["data"]}
ASKED = ("resnet50", "--cluster", "dgx-a100", "--dtype", "fp16", "--devices", "8", "--json")


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_plain_until_asked_otherwise(name: str) -> None:
    assert machine_of(name).software == "plain"
    assert machine_of(name, software="tuned").software == "tuned"


def test_a_file_keeps_it() -> None:
    tuned = machine_of("dgx-a100", 16, "tuned")
    assert parse_cluster(to_toml(tuned), "mine.toml").software == "tuned"


def test_an_unknown_level_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="unknown software 'fast'; choose from plain, tuned"):
        sw.plan("lenet5", "dgx-a100", software="fast")
    with pytest.raises(UnknownName, match="unknown software 'fast'; choose from plain, tuned"):
        sw.oracle("lenet5", "dgx-a100", batch=64, devices=[8], software="fast")


@pytest.mark.parametrize(("dtype", "quicker"), [("fp32", False), ("tf32", False), ("bf16", True), ("fp16", True)])
def test_tuned_software_is_quicker_in_16_bits_alone(dtype: str, quicker: bool) -> None:
    plain_s, tuned_s = (
        next(iter(sw.oracle("resnet50", "dgx-a100", dtype=dtype, software=software, overlap=True, **WEAK))).iteration_s
        for software in ("plain", "tuned")
    )
    assert tuned_s < plain_s if quicker else tuned_s == plain_s


def test_tuned_software_exchanges_gradients_beside_backward() -> None:
    plain, tuned = (
        next(iter(sw.oracle("resnet50", "dgx-a100", software=software, **WEAK))).to_dict()["communication"]
        for software in ("plain", "tuned")
    )
    # the bucket that fills last has nothing left to hide behind
    assert 0 < tuned["gradient_s"] < 0.3 * plain["gradient_s"]


def test_a_range_spans_both_levels_where_nobody_said_which() -> None:
    open_, plain, tuned = (
        next(iter(sw.oracle("resnet50", "dgx-a100", dtype="fp16", software=software, overlap=False, **WEAK)))
        for software in (None, "plain", "tuned")
    )
    assert open_.iteration_s == plain.iteration_s
    assert open_.high_s == pytest.approx(plain.high_s)
    assert tuned.low_s <= open_.low_s * 1.05 < plain.low_s
    assert parse_cluster(to_toml(machine_of("dgx-a100")), "mine.toml").software_assumed
    assert not parse_cluster(to_toml(machine_of("dgx-a100", software="plain")), "mine.toml").software_assumed


def test_fewer_hours_are_provisioned_for_tuned_software() -> None:
    plain, tuned = (
        sw.provision("resnet50", "dgx-a100", dataset="imagenet", epochs=1, devices=[8], dtype="fp16", software=software)
        for software in (None, "tuned")
    )
    assert min(option.hours for option in tuned) < min(option.hours for option in plain)


def test_a_plan_carries_it(tmp_path: Path) -> None:
    made = sw.plan("lenet5", "dgx-a100", batch=64, devices=2, software="tuned")
    made.save(tmp_path / "plan.json")
    assert sw.Plan.load(tmp_path / "plan.json").hardware().software == "tuned"


@pytest.mark.parametrize("level", ["plain", "tuned"])
@pytest.mark.parametrize(
    "command",
    [
        ("plan", *ASKED, "--strategy", "data"),
        ("oracle", *ASKED, "--batch-per-device", "32", "--strategies", "data"),
        ("provision", *ASKED, "--dataset", "imagenet", "--epochs", "1", "--strategies", "data"),
    ],
    ids=lambda command: command[0],
)
def test_every_json_names_it(command: tuple[str, ...], level: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, *(("--software", level) if level == "tuned" else ())]) == 0
    assert json.loads(capsys.readouterr().out)["software"] == level
