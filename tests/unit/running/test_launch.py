"""What the launcher gives to ranks, and says of those that die."""

import os
import socket
import sys
from pathlib import Path

import pytest

from slicewise.errors import RankError
from slicewise.running.launch import launch

SPEAKS = "print('terminate called', file=sys.stderr, flush=True)"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`python -m slicewise` finds what is written here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "slicewise.py"


@pytest.mark.parametrize(
    ("before", "told"), [(SPEAKS, ": terminate called"), ("pass", r" without a word \(out of memory\?\)")]
)
def test_a_rank_that_dies_is_told_with_its_last_words(before: str, told: str, program: Path) -> None:
    """Rank 1 is ended by a signal."""
    program.write_text(f"import os, sys\nif os.environ['RANK'] == '1':\n    {before}\n    os.abort()\n")
    with pytest.raises(RankError, match=f"^rank 1 was ended by signal 6{told}$"):
        launch([], 2)


@pytest.mark.skipif("lo" not in {name for _, name in socket.if_nameindex()}, reason="no loopback of that name")
@pytest.mark.parametrize(("given", "used"), [(None, "lo"), ("eth7", "eth7")])
@pytest.mark.parametrize("backend", ["GLOO", "NCCL"])
def test_ranks_talk_over_loopback_unless_the_user_says_otherwise(
    given: str | None, used: str, backend: str, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an interface, gloo and NCCL listen on the address of the host's own name."""
    variable = f"{backend}_SOCKET_IFNAME"
    monkeypatch.delenv(variable, raising=False)
    if given is not None:
        monkeypatch.setenv(variable, given)
    program.write_text(f"import os, pathlib\npathlib.Path(os.environ['RANK']).write_text(os.environ['{variable}'])\n")
    assert launch([], 2) == 0
    assert [(program.parent / rank).read_text() for rank in "01"] == [used, used]
