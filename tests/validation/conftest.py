"""What several files here share."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sdist and wheel of what git would hand out, without the folders that a release has not."""
    folder = tmp_path_factory.mktemp("release")
    source = folder / "source"
    source.mkdir()
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "MANIFEST.in",
        "CHANGELOG.md",
        "CITATION.cff",
        "SECURITY.md",
    ):
        shutil.copy(ROOT / name, source)
    shutil.copy(ROOT / "constraints.txt", source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    subprocess.run(build, check=True, capture_output=True)
    return folder / "dist"
