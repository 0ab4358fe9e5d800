"""What a release is made of: versions that agree, licences, and archives that work without the repository."""

import json
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from scripts.licences import dependencies, table
from slicewise.version import VERSION
from tests.validation.test_documents import BLOCK

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_changelog_begins_with_this_version_and_every_other_has_its_date() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found = [re.fullmatch(r"(\d+\.\d+\.\d+) \((unreleased|\d{4}-\d{2}-\d{2})\)", heading) for heading in headings]
    assert all(found), headings
    assert found[0] is not None
    assert found[0][1] == VERSION
    assert all(match is not None and match[2] != "unreleased" for match in found[1:])


def test_the_citation_names_this_version_and_both_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {VERSION}\n" in text
    assert text.count("type: conference-paper") == 2
    for paper in ("1802.04924", "2104.09075"):
        assert f"https://arxiv.org/abs/{paper}" in text


def test_the_table_of_licences_has_every_dependency() -> None:
    """Versions of packages move; names and the extras that ask for them must not be missing."""
    page = (ROOT / "docs/licences.md").read_text()
    listed = dict(re.findall(r"^\| ([\w.-]+) \| ([^|]+) \|", page, re.MULTILINE))
    asked = {name: source for name, source in dependencies().items() if source == "slicewise" or "`" in source}
    assert asked.items() <= listed.items()
    assert set(re.findall(r"`(\w+)`", " ".join(asked.values()))) == set(PROJECT["optional-dependencies"]) - {"dev"}
    assert "not stated" not in page
    assert table().startswith(page.partition("|---")[0])


def test_classifiers_name_only_what_is_tested() -> None:
    versions = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: Python :: 3." in text}
    assert versions == {"3.11"}
    assert PROJECT["requires-python"] == ">=3.11"
    assert "PYTHON ?= python3.11" in (ROOT / "Makefile").read_text()


def test_every_package_and_tool_that_is_asked_for_has_its_tested_version() -> None:
    """An open range lets a linter that came out overnight fail what passed."""
    asked = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    names = {re.split(r"[<>=\[]", text)[0].lower().replace("_", "-") for text in asked} - {"slicewise"}
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert names <= {name.lower().replace("_", "-") for name in pinned}


def test_the_migration_page_makes_a_plan_of_version_1_one_of_version_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests/formats/v1/plan.json", "old.json")
    (block,) = [
        text for language, text in BLOCK.findall((ROOT / "docs/migration.md").read_text()) if language == "python"
    ]
    exec(compile(block, "docs/migration.md", "exec"), {})
    old, new = (json.loads(Path(name).read_text()) for name in ("old.json", "new.json"))
    assert (old["schema_version"], new["schema_version"]) == (1, 2)
    assert new["graph"]["layers"]
    assert {layer["name"]: layer["slicing"] for layer in old["layers"]} == {
        layer["name"]: layer["slicing"] for layer in new["layers"]
    }


@pytest.mark.long
def test_the_archives_have_what_the_package_reads_and_no_tests(archives: Path) -> None:
    (wheel,), (sdist,) = archives.glob("*.whl"), archives.glob("*.tar.gz")
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    here = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and not any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)
    }
    assert here - packed == set()
    assert {name for name in packed if not name.startswith(("slicewise/", f"slicewise-{VERSION}.dist-info/"))} == set()
    with tarfile.open(sdist) as packed_source:
        names = {name.partition("/")[2] for name in packed_source.getnames()}
    assert {"CHANGELOG.md", "CITATION.cff", "SECURITY.md", "LICENSE"} <= names
    assert not any(name.startswith("tests") for name in names)


@pytest.mark.long
def test_the_wheel_runs_and_checks_a_network_where_the_repository_is_not(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment that has the wheel and, from here, only what it depends on."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "own", with_pip=True)
    python = tmp_path / "own/bin/python"
    (wheel,) = archives.glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    place = next((tmp_path / "own/lib").glob("python*/site-packages"))
    (place / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {"PATH": "/usr/bin:/bin", "SLICEWISE_CACHE": str(tmp_path), "HOME": str(tmp_path)}

    def told(*arguments: str) -> str:
        done = subprocess.run(
            [python, "-m", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [python, "-c", "import slicewise; print(slicewise.__file__)"], env=environment, capture_output=True, text=True
    )
    assert where.stdout.startswith(str(tmp_path))
    told("slicewise", "plan", "lenet5", "--cluster", "p100-4x4", "--devices", "2", "--batch", "8", "-o", "plan.json")
    ran = json.loads(told("slicewise", "run", "plan.json", "--check", "--iterations", "2", "--json"))
    assert ran["check"]["passed"]
    assert ran["bytes_moved"] == ran["predicted"]["bytes_moved"]
    told("slicewise", "report", "plan.json", "-o", "report.html")
