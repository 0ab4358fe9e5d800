"""The licences of what slicewise depends on: `python scripts/licences.py > docs/licences.md`.

Read from the packages that are installed, with what they bring along; the `dev` extra is left out: nobody who uses
slicewise installs it.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """# Licences of dependencies

slicewise is Apache-2.0. It contains no code of others; these packages are installed beside it. The table is made by
`python scripts/licences.py > docs/licences.md` from the versions that are tested: those of torch's build for CPUs.
Builds for CUDA bring NVIDIA's packages (`nvidia-*`, under NVIDIA's own licences) and `triton` (MIT) along.

| package | asked for by | licence |
|---|---|---|
"""
WORDS = {"MIT": "Permission is hereby granted, free of charge", "MPL-2.0": "Mozilla Public License Version 2.0"}


def table() -> str:
    rows = []
    for name, source in sorted(dependencies().items()):
        rows.append(f"| {name} | {source} | {licence(distribution(name))} |\n")
    return HEAD + "".join(rows)


def dependencies() -> dict[str, str]:
    """Package -> who asks for it: slicewise, an extra, or the package that brings it along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {_name(text): "slicewise" for text in project["dependencies"]}
    for extra, listed in project["optional-dependencies"].items():
        if extra != "dev":
            asked |= {name: f"`{extra}`" for name in map(_name, listed) if name not in asked and name != "slicewise"}
    found: dict[str, str] = {}
    waiting = list(asked.items())
    while waiting:
        name, source = waiting.pop(0)
        if name not in found:
            found[name] = source
            waiting += [(other, name) for other in _brought(name)]
    return found


def _brought(name: str) -> Iterator[str]:
    """What a package always installs here: no extras, nothing for other systems."""
    for text in distribution(name).requires or []:
        if ";" not in text:
            try:
                distribution(_name(text))
            except PackageNotFoundError:
                continue
            yield _name(text)


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None, requirement
    return match[0].lower().replace("_", "-")


def licence(package: Distribution) -> str:
    """The SPDX expression, else the classifiers, else the licence field's first line, else the licence's own words."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classified = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or [] if "License ::" in text]
    said = metadata["License"].strip().split("\n")[0] if "License" in metadata else ""
    return ", ".join(classified) or said or _by_its_words(package) or "not stated"


def _by_its_words(package: Distribution) -> str:
    texts = [str(Path(str(file.locate())).read_text()) for file in package.files or [] if "licenses" in file.parts]
    return next((name for name, words in WORDS.items() if any(words in text for text in texts)), "")


if __name__ == "__main__":
    sys.stdout.write(table())
