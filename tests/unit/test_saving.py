"""A file is replaced whole, or stays as it was."""

import errno
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import RequestError
from slicewise.saving import check_target, write_file


@pytest.fixture
def older(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text("the older plan")
    return path


@pytest.mark.parametrize("failing", ["open", "fsync", "replace"])
def test_a_full_disk_leaves_the_older_file_and_no_other(
    older: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if failing == "fsync" else Path, failing, full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_file(older, "the newer plan", keep_older=True)
    monkeypatch.undo()
    assert caught.value.filename == str(older)
    assert {path.name: path.read_text() for path in older.parent.iterdir()} == {"plan.json": "the older plan"}


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs a file system of its own")
    try:
        path = disk / "plan.json"
        write_file(path, "older")
        with pytest.raises(OSError, match="No space left on device"):
            write_file(path, "newer" * 100_000)
        assert path.read_text() == "older"
        assert list(disk.iterdir()) == [path]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_an_interrupted_write_leaves_the_older_file(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(older, "newer")
    assert [path.read_text() for path in older.parent.iterdir()] == ["the older plan"]


def test_a_link_stays_a_link_and_permissions_stay(older: Path, tmp_path: Path) -> None:
    older.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(older.name)
    write_file(link, "newer")
    assert link.is_symlink()
    assert older.read_text() == "newer"
    assert stat.S_IMODE(older.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_that_any_program_would_give_it(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new.json", b"{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    write_file(pipe, "through")
    assert reader.communicate(timeout=30)[0] == b"through"
    write_file(Path(os.devnull), "away")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_may_be_named_even_where_it_is_a_file(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("w") as out:
        write_file(Path(f"/dev/fd/{out.fileno()}"), "there")
    assert said.read_text() == "there"
    assert list(tmp_path.iterdir()) == [said]


def test_older_files_are_kept_under_numbers(tmp_path: Path) -> None:
    path = tmp_path / "local.toml"
    kept = [write_file(path, text, keep_older=True) for text in ("first", "second", "third")]
    assert kept == [None, tmp_path / "local.1.toml", tmp_path / "local.2.toml"]
    assert [file.read_text() for file in (tmp_path / "local.1.toml", tmp_path / "local.2.toml", path)] == [
        "first",
        "second",
        "third",
    ]


def test_older_files_are_kept_where_a_file_has_one_name_only(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    kept = write_file(older, "newer", keep_older=True)
    assert kept is not None
    assert kept.read_text() == "the older plan"
    assert older.read_text() == "newer"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent/plan.json", "absent is not a folder"),
        ("plan.json/plan.json", "plan.json is not a folder"),
        ("folder", "it is a folder; name a file"),
        ("read-only/plan.json", "read-only is read-only"),
        ("guarded.json", "it is read-only"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_before_any_work(
    older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "read-only").mkdir()
    (tmp_path / "guarded.json").write_text("{}")
    guarded = {tmp_path / "read-only", tmp_path / "guarded.json"}
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) not in guarded)  # root may write everywhere
    with pytest.raises(RequestError, match=f"^cannot write .*{name}: .*{told}$"):
        check_target(tmp_path / name)


@pytest.mark.parametrize("name", ["absent/plan.json", "plan.json/plan.json", "folder"])
def test_an_error_names_the_file_that_was_asked_for(older: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_file(tmp_path / name, "never")
    assert caught.value.filename == str(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"plan.json", "folder"}


def test_a_file_that_is_read_only_is_not_replaced(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError) as caught:
        write_file(older, "newer")
    assert caught.value.filename == str(older)
    assert older.read_text() == "the older plan"


def test_no_other_module_writes_files() -> None:
    source = Path(__file__).parents[2] / "src" / "slicewise"
    exceptions = {
        "saving.py",
        "running/launch.py",  # what ranks say, in a folder of its own
        "runtime/failures.py",
        "runtime/whereabouts.py",  # where a rank is, in shared memory
    }
    words = ("write_text(", "write_bytes(", '("w")', '("wb")', ', "w"', "savefig(path")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(word in line for line in path.read_text().split("\n") for word in words if ">>>" not in line)
    }
    assert found <= exceptions
