"""A folder is a checkpoint by its manifest."""

from pathlib import Path

import pytest

from slicewise.checkpoints.manifest import Manifest, checkpoints, forget, next_name, problem
from slicewise.errors import CheckpointError


def _checkpoint(folder: Path, name: str, step: int = 4) -> Path:
    path = folder / name
    path.mkdir()
    (path / "data").write_bytes(b"123456789")
    Manifest(step=step, ranks=1, files={"data": (9, 0xCBF43926)}).write(path)  # the checksum that CRC-32 is known by
    return path


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, "0001-step-4")
    assert Manifest.read(path) == Manifest(step=4, ranks=1, files={"data": (9, 0xCBF43926)})
    assert problem(path) is None


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"123456788", "damaged: its checksum is another"), (b"1234", "has 4 bytes of 9"), (None, "No such file")],
)
def test_what_is_wrong_with_a_file_is_told_by_its_name(content: bytes | None, told: str, tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, "0001-step-4")
    if content is None:
        (path / "data").unlink()
    else:
        (path / "data").write_bytes(content)
    assert f"{path / 'data'}: {told}" in (problem(path) or "")


def test_a_manifest_of_which_one_digit_changed_is_damaged(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, "0001-step-4")
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"step": 4', '"step": 5'))
    with pytest.raises(CheckpointError, match="its checksum is another"):
        Manifest.read(path)
    assert problem(tmp_path / "0002-step-9") == f"{tmp_path / '0002-step-9' / 'manifest.json'}: no such file"


def test_what_was_saved_last_comes_first_whatever_its_step(tmp_path: Path) -> None:
    """A training that went back to step 40 goes on from there."""
    for name in ("0002-step-100", "0003-step-50", "0010-step-60", "notes", ".0011-step-70-ab.tmp"):
        (tmp_path / name).mkdir()
    assert [path.name for path in checkpoints(tmp_path)] == ["0010-step-60", "0003-step-50", "0002-step-100"]
    assert next_name(tmp_path, 70) == "0011-step-70"
    forget(tmp_path, 1)
    assert [path.name for path in checkpoints(tmp_path)] == ["0010-step-60"]
    assert checkpoints(tmp_path / "absent") == []


def test_a_checkpoints_own_folder_names_it(tmp_path: Path) -> None:
    path = _checkpoint(tmp_path, "0001-step-4")
    assert checkpoints(path) == [path]
