from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cluster.cluster import load_cluster, parse_cluster, preset_names
from slicewise.cluster.starter import starter
from slicewise.errors import UnknownName


@pytest.mark.parametrize("base", preset_names())
def test_a_file_begun_from_a_preset_is_that_preset(base: str) -> None:
    text = starter(Path("clusters/my own.toml"), base)
    assert parse_cluster(text, "mine.toml") == replace(load_cluster(base), name="my own")


@pytest.mark.parametrize("base", preset_names())
def test_the_device_that_it_spells_out_in_comments_is_the_presets(base: str) -> None:
    lines = starter(Path("mine.toml"), base).splitlines()
    named = next(number for number, line in enumerate(lines) if line.startswith("device = "))
    commented = range(named + 2, lines.index("", named))
    spelled = [line.removeprefix("# ") if number in commented else line for number, line in enumerate(lines)]
    del spelled[named]
    text = "\n".join(spelled)
    assert "\n[device.efficiency]" in text
    assert parse_cluster(text, "mine.toml").device == load_cluster(base).device


@pytest.mark.parametrize("name", ["Zürich 😀", 'a "b"', "back\\slash"])
def test_a_file_of_any_name_can_be_begun(name: str) -> None:
    assert parse_cluster(starter(Path(f"{name}.toml"), "dgx-a100"), "mine.toml").name == name


def test_a_measured_machine_can_be_begun_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWISE_CACHE", str(tmp_path))
    (tmp_path / "local.toml").write_text(starter(Path("here.toml"), "p100-4x4"))
    assert parse_cluster(starter(Path("mine.toml"), "local"), "mine.toml").tiers == load_cluster("p100-4x4").tiers


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"unknown cluster 'dgx'; choose from .*dgx-a100"):
        starter(Path("mine.toml"), "dgx")
