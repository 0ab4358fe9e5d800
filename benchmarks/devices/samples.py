"""Published kernel timings as the compute model sees them: a matrix product or so many bytes, and its seconds."""

import csv
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.cost.utilisation import Work, aligned, tiled

DATA = Path(__file__).parent / "data"
# tensors that are read and written
ELEMENTWISE = {"add": 3, "mul": 3, "div": 3, "pow": 3} | dict.fromkeys(
    ("addu", "mulu", "divu", "powu", "relu", "gelu", "tanh"), 2
)
CONVOLUTIONS = {
    "conv_forward": "forward",
    "conv_backward_input": "backward_input",
    "conv_backward_weight": "backward_weight",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A device as devices.csv describes it."""

    name: str
    fp32_flops_per_s: float
    tensor_flops_per_s: float | None
    memory_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`rows` ... `groups` of a product are 0 where only bytes count."""

    device: str
    dtype: str
    source: str  # deepbench or neusight: who timed it, and how
    op: str  # as the file calls it, element-wise operators under one name
    kind: str
    direction: str
    rows: float = 0.0
    columns: float = 0.0
    reduction: float = 0.0
    groups: float = 1.0
    bytes: float
    seconds: float
    shape: str

    @property
    def group(self) -> str:
        return f"{self.device}/{self.dtype}/{self.source}"

    @property
    def hashed(self) -> int:
        """A number by shape."""
        return zlib.crc32(self.shape.encode())

    @property
    def fold(self) -> int:
        """Of five, by shape: all devices' rows of one shape stay together."""
        return self.hashed // 7 % 5


def boards(folder: Path) -> dict[tuple[str, str], Board]:
    """By device and source; a device under `both` or another source's name is found too."""
    found: dict[tuple[str, str], Board] = {}
    for row in _rows(folder / "devices.csv"):
        tensor = row.get("peak_fp16_tensor_flops_per_s")
        board = Board(
            name=row["device"],
            fp32_flops_per_s=float(row["peak_fp32_flops_per_s"]),
            tensor_flops_per_s=float(tensor) if tensor else None,
            memory_bytes_per_s=float(row["memory_bytes_per_s"]),
        )
        for source in ("deepbench", "neusight"):
            if row.get("dataset", "both") in (source, "both") or (board.name, source) not in found:
                found[board.name, source] = board
    return found


def samples(folder: Path) -> list[Sample]:
    """Of whichever of the two files the folder has."""
    found = [_deepbench(row) for row in _rows(folder / "deepbench_layers.csv")]
    return found + [_neusight(row) for row in _rows(folder / "neusight_ops.csv")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples of one kind, direction and operator, as arrays; `places` is where they stand among the others."""

    kind: str
    direction: str
    op: str
    dtype: str
    places: NDArray[np.int64]
    work: Work
    bytes: NDArray[np.float64]


def batches(rows: Sequence[Sample]) -> list[Batch]:
    """Of samples of one group."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault((row.kind, row.direction, row.op), []).append(place)
    found = []
    for (kind, direction, op), chosen in places.items():
        alike = [rows[place] for place in chosen]
        sizes = {name: column(alike, name) for name in ("rows", "columns", "reduction", "groups")}
        found.append(
            Batch(
                kind=kind,
                direction=direction,
                op=op,
                dtype=alike[0].dtype,
                places=np.array(chosen),
                work=Work(**sizes, whole_reduction=sizes["reduction"]),
                bytes=column(alike, "bytes"),
            )
        )
    return found


def column(rows: Iterable[Sample], name: str) -> NDArray[Any]:
    return np.array([getattr(row, name) for row in rows])


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _deepbench(row: Mapping[str, str]) -> Sample:
    names = ("op", "n", "c", "h", "w", "f", "kernel_h", "kernel_w", "pad_h", "pad_w", "stride_h", "stride_w", "m", "k")
    said: dict[str, Any] = {
        "device": row["device"],
        "dtype": row["dtype"],
        "source": "deepbench",
        "op": row["op"],
        "seconds": float(row["seconds"]),
        "shape": "/".join(row.get(name) or "" for name in (*names[1:], "trans_a", "trans_b")),
    }
    item_bytes = 4 if row["dtype"] == "fp32" else 2
    if row["op"] == "gemm":
        m, n, k = (float(row[name]) for name in "mnk")
        return Sample(
            **said, kind="linear", direction="forward", rows=n, columns=m, reduction=k,
            bytes=item_bytes * (m * k + k * n + m * n),
        )  # fmt: skip
    n, c, h, w, f, kernel_h, kernel_w, pad_h, pad_w, stride_h, stride_w = (int(row[name]) for name in names[1:12])
    out_h, out_w = (h + 2 * pad_h - kernel_h) // stride_h + 1, (w + 2 * pad_w - kernel_w) // stride_w + 1
    on_tensor_cores = row["dtype"] == "fp16_mixed"
    kind = _family(kernel_h, kernel_w, stride_h, stride_w, winograd=not on_tensor_cores)
    taps, rows = kernel_h * kernel_w, float(n * out_h * out_w)
    return Sample(
        **said,
        kind=kind,
        direction=CONVOLUTIONS[row["op"]],
        rows=(rows + n * tiled(out_h) * tiled(out_w)) / 2 if kind == "winograd" else rows,
        columns=aligned(f) if on_tensor_cores else f,
        reduction=(aligned(c) if on_tensor_cores else c) * taps,
        bytes=item_bytes * (n * c * h * w + f * rows + f * c * taps),
    )


def _family(kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, *, winograd: bool) -> str:
    if max(stride_h, stride_w) > 1:
        return "strided"
    if kernel_h == kernel_w == 1:
        return "pointwise"
    return "winograd" if winograd and kernel_h == kernel_w == 3 else "window"


def _neusight(row: Mapping[str, str]) -> Sample:
    op = "elementwise" if row["op"] in ELEMENTWISE else row["op"]
    names = ("op", "b", "m", "n", "k", "c_in", "c_out", "size", "h")
    said: dict[str, Any] = {
        "device": row["device"],
        "dtype": "fp32",
        "source": "neusight",
        "op": op,
        "direction": "forward",
        "seconds": float(row["seconds"]),
        "shape": "/".join(row.get(name) or "" for name in (*names, "kernel", "stride")),
    }
    b = int(row["b"])
    if op in ("bmm", "linear"):
        m, n, k = (int(row[name]) for name in "mnk")
        batches, rows, matrices = (b, m, b) if op == "bmm" else (1, b * m, 1)
        return Sample(
            **said, kind="product" if op == "bmm" else "linear", rows=rows, columns=k, reduction=n, groups=batches,
            bytes=4.0 * (batches * rows * (n + k) + matrices * n * k),
        )  # fmt: skip
    if op == "conv":
        c, f, size, kernel, stride, padding = (
            int(row[name]) for name in ("c_in", "c_out", "size", "kernel", "stride", "padding")
        )
        kind = _family(kernel, kernel, stride, stride, winograd=True)
        side = (size + 2 * padding - kernel) // stride + 1
        rows = b * side * side
        return Sample(
            **said, kind=kind, rows=(rows + b * tiled(side) ** 2) / 2 if kind == "winograd" else rows,
            columns=f, reduction=kernel * kernel * c,
            bytes=4.0 * (b * c * size * size + rows * f + kernel * kernel * c * f),
        )  # fmt: skip
    passes = ELEMENTWISE.get(row["op"], 2)
    kind = {"layernorm": "norm", "softmax": "softmax"}.get(op, "elementwise")
    return Sample(**said, kind=kind, bytes=4.0 * passes * b * int(row["h"]))
