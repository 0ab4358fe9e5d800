"""Does continuous integration run what it says? A selection without any test would end it with an error."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "test"])  # this run is the test of that
def test_every_other_target_of_ci_finds_tests_to_run(target: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST"))}
    environment.pop("SLICEWISE_TESTS", None)
    done = subprocess.run(
        ["make", "--old-file=lint", "--old-file=dist", target],
        cwd=ROOT,
        env=environment | {"PYTEST_ADDOPTS": "--collect-only -n 0 --color=no"},
        capture_output=True,
        text=True,
        check=False,
    )
    counts = [int(count) for count in re.findall(r"^(\d+)(?:/\d+)? tests? collected", done.stdout, re.MULTILINE)]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert counts, done.stdout[-2000:]
    assert min(counts) > 0


def test_ci_runs_the_tests_and_what_would_be_uploaded() -> None:
    assert TARGETS == ["test", "test-dist"]
