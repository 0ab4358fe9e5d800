"""Measured training runs, one per line of a CSV file: what a fit learns from.

model,strategy,devices,batch,iteration_s,split,dtype,input
resnet50,serial,1,64,0.2,,,
resnet50,data+filter,16,256,0.3,4x4,fp32,3x224x224
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NoReturn

from slicewise.cluster.device import DTYPES
from slicewise.cluster.tuning import STRATEGIES
from slicewise.errors import RequestError

REQUIRED = ("model", "strategy", "devices", "batch", "iteration_s")
OPTIONAL = ("split", "dtype", "input", "compute_s", "communication_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured configuration; `batch` is that of all devices together."""

    model: str
    strategy: str
    devices: int
    batch: int
    iteration_s: float
    split: tuple[int, int] | None = None  # of hybrids: p1 groups of p2
    dtype: str = "fp32"
    input: tuple[int, ...] | None = None  # of one sample, where it is not the model's own
    compute_s: float | None = None  # of iteration_s, where it was measured too
    communication_s: float | None = None


def read_runs(path: Path) -> tuple[Run, ...]:
    """All lines of the file; errors name the file, the line and the column."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RequestError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: not CSV (not UTF-8 text: {error.reason})") from error
    reader = csv.DictReader(text.splitlines())
    names = [name.strip() for name in reader.fieldnames or ()]
    for name in REQUIRED:
        if name not in names:
            raise RequestError(f"{path}: no column {name!r}; the first line must name {', '.join(REQUIRED)}")
    for name in names:
        if name not in REQUIRED + OPTIONAL:
            raise RequestError(f"{path}: unknown column {name!r}; choose from {', '.join(REQUIRED + OPTIONAL)}")
    runs = tuple(
        _Line(f"{path}: line {reader.line_num}", {key.strip(): value or "" for key, value in row.items() if key}).run()
        for row in reader
    )
    if not runs:
        raise RequestError(f"{path}: no runs; one line per measured configuration, below the names of the columns")
    return runs


@dataclass(frozen=True, slots=True)
class _Line:
    where: str
    values: Mapping[str, str]

    def run(self) -> Run:
        strategy, devices = self.text("strategy"), self.whole("devices")
        if strategy not in STRATEGIES:
            self.fail("strategy", f"must be one of {', '.join(STRATEGIES)}")
        if strategy == "serial" and devices != 1:
            self.fail("devices", "must be 1 for serial")
        dtype = self.text("dtype") or "fp32"
        if dtype not in DTYPES:
            self.fail("dtype", f"must be one of {', '.join(DTYPES)}")
        return Run(
            model=self.text("model") or self.fail("model", "must name a model"),
            strategy=strategy,
            devices=devices,
            batch=self.whole("batch"),
            iteration_s=self.seconds("iteration_s"),
            split=self.split(devices),
            dtype=dtype,
            input=self.sizes("input", "3x224x224"),
            compute_s=self.seconds("compute_s") if self.text("compute_s") else None,
            communication_s=self.seconds("communication_s") if self.text("communication_s") else None,
        )

    def text(self, name: str) -> str:
        return self.values.get(name, "").strip()

    def whole(self, name: str) -> int:
        text = self.text(name)
        return int(text) if text.isdecimal() and int(text) else self.fail(name, "must be a positive whole number")

    def seconds(self, name: str) -> float:
        try:
            value = float(self.text(name))
        except ValueError:
            value = -1.0
        return value if value > 0 and isfinite(value) else self.fail(name, "must be seconds above 0")

    def sizes(self, name: str, example: str) -> tuple[int, ...] | None:
        text = self.text(name)
        parts = text.lower().split("x")
        if text and not all(part.isdecimal() and int(part) for part in parts):
            self.fail(name, f"must look like {example}")
        return tuple(map(int, parts)) if text else None

    def split(self, devices: int) -> tuple[int, int] | None:
        sizes = self.sizes("split", "4x4")
        if sizes is None:
            return None
        if len(sizes) != 2 or sizes[0] * sizes[1] != devices:
            self.fail("split", f"must be p1xp2 that makes {devices} devices")
        return sizes[0], sizes[1]

    def fail(self, name: str, complaint: str) -> NoReturn:
        raise RequestError(f"{self.where}: {name} {complaint} (got {self.text(name)!r})")
