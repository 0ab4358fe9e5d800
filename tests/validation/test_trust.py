"""What runs code, and only where the user says so; code that ends the program is an error."""

from pathlib import Path

import pytest

from slicewise.cli.main import main
from tests.campaigns import sample
from tests.machines import write_cores

CLUSTER = ("--cluster", "p100-4x4")
LEAVES = """
import sys, torch
from torch import nn

def network(): return nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), torch.zeros(1, 3, 2, 2)
def leaves(): sys.exit(0)
def batches(batch, shape, rank, ranks): sys.exit(0)
def stops(batch, shape, rank, ranks):
    yield torch.zeros(batch, *shape), torch.zeros(batch, dtype=torch.int64)
    sys.exit(0)
"""


@pytest.fixture
def leaving(tmp_path: Path) -> Path:
    path = tmp_path / "leaving.py"
    path.write_text(LEAVES)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "PROGRAM", *CLUSTER),
        ("oracle", "PROGRAM", *CLUSTER, "--devices", "4", "--batch", "8"),
        ("provision", "PROGRAM", *CLUSTER, "--dataset", "imagenet", "--epochs", "1"),
        ("capture", "PROGRAM", "-o", "FOLDER/graph.json"),
        ("diagnose", "PROGRAM", "--strategy", "data", *CLUSTER, "--measured", "FOLDER/times.csv"),
    ],
    ids=lambda command: command[0],
)
def test_no_command_opens_an_exported_program_without_trust(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "net.pt2"
    program.write_bytes(b"a pickle")
    (tmp_path / "times.csv").write_text("iteration_s\n0.1\n0.1\n")
    given = [part.replace("PROGRAM", str(program)).replace("FOLDER", str(tmp_path)) for part in command]
    assert main(given) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(f"slicewise: {program}: an exported program holds pickles, which can run any code")
    assert main([*given, "--trust"]) == 2
    assert "not an exported program" in capsys.readouterr().err.splitlines()[-1]  # it was opened


def test_an_exported_program_is_not_run_trusted_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.pt2").write_bytes(b"a pickle")
    assert main(["run", str(tmp_path / "net.pt2"), "--strategy", "data", *CLUSTER, "--devices", "2"]) == 2
    assert "net.pt2 is an exported program, which cannot switch modes to run" in capsys.readouterr().err


def test_a_factory_that_exits_is_no_success(leaving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", f"{leaving}:leaves", *CLUSTER]) == 2
    assert capsys.readouterr().err == f"slicewise: {leaving}:leaves failed: SystemExit: 0\n"


@pytest.mark.parametrize(
    ("data", "code", "told"),
    sample(
        [("batches", 2, "leaving.py:batches failed: SystemExit: 0"), ("stops", 3, "SystemExit: 0 (at leaving.py:")],
        quick=[("stops", 3, "SystemExit: 0 (at leaving.py:")],
    ),
)
def test_data_that_exits_is_no_success(
    data: str, code: int, told: str, leaving: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On real ranks: each of them would end well, with nothing done."""
    cluster = write_cores(tmp_path / "pair.toml")
    arguments = ("--strategy", "data", "--cluster", str(cluster), "--batch", "4", "--data", f"{leaving}:{data}")
    assert main(["run", f"{leaving}:network", *arguments]) == code
    assert told in capsys.readouterr().err.splitlines()[-1]
