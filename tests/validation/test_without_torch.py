"""PyTorch is an extra: what plans, explains and projects works without it, the rest says what to install."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from slicewise.graph.sources import load_graph
from tests.machines import write_cores

P100 = ("--cluster", "p100-4x4")
TOLD = "slicewise: this needs PyTorch, which is not installed: `pip install 'slicewise[torch]'`\n"

# command -> its exit code; diagnose finds that the run was slower than projected
LIGHT = {
    ("plan", "lenet5", *P100, "--devices", "2", "-o", "plan.json"): 0,
    ("plan", "saved.json", *P100, "--devices", "4", "--json"): 0,
    ("explain", "plan.json"): 0,
    ("oracle", "lenet5", *P100, "--devices", "4", "--batch-per-device", "8"): 0,
    ("provision", "lenet5", *P100, "--dataset", "imagenet", "--epochs", "1"): 0,
    ("cluster", "list"): 0,
    ("cluster", "show", "dgx-a100"): 0,
    ("diagnose", "plan.json", "--measured", "times.csv"): 1,
    ("doctor",): 0,
}
HEAVY = (
    ("run", "lenet5", "--strategy", "data", "--cluster", "pair.toml", "--batch", "4"),
    ("calibrate", "--quick"),
    ("doctor", "--network"),
    ("capture", "lenet5", "-o", "never.json"),
    ("plan", "lenet5", "--cluster", "pair.toml", "--input", "1x64x64"),
    ("plan", "torchvision:resnet18", "--cluster", "pair.toml"),
)
ALL = """
import sys
from slicewise.cli.main import main
for arguments in {commands}:
    print("exit code", main(list(arguments)), file=sys.stderr)
assert sys.modules.get("torch") is None
"""
DOORS = """
import slicewise as sw
for name in ("capture", "data_loader", "parallelize", "pipeline"):
    try:
        getattr(sw, name)
    except ImportError as error:
        assert isinstance(error, sw.SlicewiseError)
        print(f"slicewise: {error}")
assert sw.plan(sw.load_graph("lenet5"), "p100-4x4", batch=32, devices=4).devices == 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    load_graph("lenet5").save(tmp_path / "saved.json")
    write_cores(tmp_path / "pair.toml")
    (tmp_path / "times.csv").write_text("iteration_s\n0.1\n0.1\n")
    return tmp_path


@pytest.fixture
def blocked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Python starts with every import of torch refused, in the command and in the processes that it starts."""
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))
    return folder


def _ran(python: str | Path, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SLICEWISE_CACHE": str(folder)}
    done = subprocess.run(
        [python, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done


def _check_commands(python: str | Path, folder: Path) -> None:
    told = _ran(python, ALL.format(commands=[*LIGHT]), folder).stderr
    assert [int(line.split()[-1]) for line in told.splitlines() if line.startswith("exit code")] == [*LIGHT.values()]
    refused = _ran(python, ALL.format(commands=HEAVY), folder)
    assert refused.stderr == f"{TOLD}exit code 2\n" * len(HEAVY)
    assert refused.stdout == ""
    assert _ran(python, DOORS, folder).stdout == TOLD * 4


def test_without_torch_everything_is_planned_and_projected_and_the_rest_says_what_to_install(blocked: Path) -> None:
    _check_commands(sys.executable, blocked)


@pytest.mark.long
@pytest.mark.parametrize("archive", ["*.whl", "*.tar.gz"])
def test_an_archive_in_an_empty_environment_plans_and_projects_without_torch(
    folder: Path, archives: Path, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    empty = folder / "empty"
    venv.create(empty, with_pip=True)
    python = empty / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *archives.glob(archive)], check=True)
    installed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "torch" not in installed
    subprocess.run([python, "-m", "pip", "check"], check=True)
    _check_commands(python, folder)
