"""What the launcher says of ranks that die."""

import os
import sys
from pathlib import Path

import pytest

from slicewise.errors import RankError
from slicewise.runtime.launch import launch

SPEAKS = "print('terminate called', file=sys.stderr, flush=True)"


@pytest.mark.parametrize(
    ("before", "told"), [(SPEAKS, ": terminate called"), ("pass", r" without a word \(out of memory\?\)")]
)
def test_a_rank_that_dies_is_told_with_its_last_words(
    before: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m slicewise` finds a program here whose rank 1 is ended by a signal."""
    program = f"import os, sys\nif os.environ['RANK'] == '1':\n    {before}\n    os.abort()\n"
    (tmp_path / "slicewise.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RankError, match=f"^rank 1 was ended by signal 6{told}$"):
        launch([], 2)
