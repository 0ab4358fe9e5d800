from pathlib import Path

import pytest

from slicewise.environment import FAILURE_FILE
from slicewise.runtime.failures import described, report_failure


def test_a_launched_rank_leaves_its_reason_to_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reason"
    monkeypatch.setenv(FAILURE_FILE, str(path))
    assert not report_failure("rank 1: no room")
    assert path.read_text() == "rank 1: no room"


def test_a_plain_command_tells_the_user_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FAILURE_FILE, raising=False)
    assert report_failure("unknown model")


def test_a_failure_is_one_line_with_rank_layer_cause_and_place() -> None:
    try:
        raise RuntimeError("shapes differ\nand much more")
    except RuntimeError as error:
        error.add_note("layer conv1")
        line = described(error, 3)
    assert line.startswith("rank 3: layer conv1: RuntimeError: shapes differ (at test_failures.py:")
    assert "\n" not in line
