"""`slicewise cluster`: list, show, init."""

from pathlib import Path

import pytest

from slicewise.cluster.cluster import load_cluster, preset_names
from slicewise.cluster.device import device_names
from slicewise.cluster.starter import starter
from tests.validation.commands import assert_refused, document, slicewise


def test_list_has_every_preset_and_device(tmp_path: Path) -> None:
    shown = slicewise("cluster", "list", cache=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    for name in [*preset_names(), *device_names()]:
        assert f"\n{name} " in shown.stdout
    assert "local: this machine, once `slicewise calibrate` has measured it" in shown.stdout
    listed = document(slicewise("cluster", "list", "--json", cache=tmp_path))
    assert [cluster["name"] for cluster in listed["clusters"]] == preset_names()
    assert [device["name"] for device in listed["devices"]] == device_names()


def test_list_has_this_machine_once_it_is_measured(tmp_path: Path) -> None:
    (tmp_path / "local.toml").write_text(starter(Path("local.toml"), "p100-4x4"))
    listed = document(slicewise("cluster", "list", "--json", cache=tmp_path))
    assert [cluster["name"] for cluster in listed["clusters"]] == [*preset_names(), "local"]


def test_show_says_everything_with_units(tmp_path: Path) -> None:
    shown = slicewise("cluster", "show", "dgx-a100", "--devices", 16, cache=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for told in (
        "dgx-a100: 16 x A100-80 (2 inter x 8 intra); figures: preset",
        "fp32 19.5 TFLOP/s, tf32 156 TFLOP/s, bf16 312 TFLOP/s, fp16 312 TFLOP/s",
        "85.9 GB at 2.04 TB/s",
        "22.5 GB/s",
        "6.00 us",
    ):
        assert told in shown.stdout


def test_show_as_json_is_the_cluster(tmp_path: Path) -> None:
    shown = document(slicewise("cluster", "show", "abci-v100", "--devices", 1024, "--json", cache=tmp_path))
    assert (shown["name"], shown["devices"]) == ("abci-v100", 1024)
    assert [(tier["name"], tier["size"], tier["ports"]) for tier in shown["tiers"]] == [
        ("inter", 256, 2),
        ("intra", 4, 1),
    ]
    assert shown["device"]["memory_bytes"] == load_cluster("abci-v100").device.memory_bytes


def test_a_file_is_begun_edited_and_planned_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    begun = slicewise("cluster", "init", path, "--from", "p100-4x4", cache=tmp_path)
    assert (begun.returncode, begun.stdout, begun.stderr) == (0, "", f"wrote {path}\n")
    path.write_text(path.read_text().replace("size = 4 ", "size = 2 "))
    assert document(slicewise("cluster", "show", path, "--json", cache=tmp_path))["devices"] == 4
    planned = document(slicewise("plan", "lenet5", "--cluster", path, "--batch", 64, "--json", cache=tmp_path))
    assert (planned["devices"], planned["cluster"]) == (4, str(path))


def test_a_file_that_is_there_is_overwritten_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    refused = slicewise("cluster", "init", path, cache=tmp_path)
    assert refused.returncode == 2
    assert f"{path} is there already; choose another name, or --force to overwrite it" in refused.stderr
    assert path.read_text() == "mine"
    assert slicewise("cluster", "init", path, "--force", cache=tmp_path).returncode == 0
    assert load_cluster(str(path)).tiers == load_cluster("dgx-a100").tiers


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("cluster",), "the following arguments are required: ACTION"),
        (("cluster", "show", "dgx"), "unknown cluster 'dgx'; choose from abci-v100, dgx-a100, dgx-h100, dgx1-v100"),
        (("cluster", "show", "absent.toml"), "absent.toml: no such file"),
        (("cluster", "show", "local"), "run `slicewise calibrate --quick` first"),
        (("cluster", "show", "p100-4x4", "--devices", "6"), "choose a multiple of 4"),
        (("cluster", "init", "mine"), "a cluster file is known by its ending: call it mine.toml"),
        (("cluster", "init", "absent/mine.toml"), "cannot write absent/mine.toml: absent is not a folder"),
        (("cluster", "init", "never-written.toml", "--from", "dgx"), "unknown cluster 'dgx'"),
    ],
)
def test_a_wrong_request_gets_one_line_and_code_2(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    assert_refused(slicewise(*arguments, cache=tmp_path), told)
