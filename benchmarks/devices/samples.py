"""Published kernel timings as the compute model sees them: a matrix product or so many bytes, and its seconds."""

import csv
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.cost.utilisation import Work, aligned, tiled

# kinds that multiply; all others move bytes
PRODUCTS = ("linear", "product", "pointwise", "winograd", "window", "strided")
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

# on matrix units: rate over the peak of 16 bits; they take items of 4 bytes half as fast
MATRIX = {"fp16_mixed": 1.0, "tf32": 0.5}
# what else a file may call a dtype
_WIDE, _HALF = ("fp32", "float32", "float"), ("fp16", "float16", "half", "bf16", "bfloat16", "fp16_mixed")

OPERATORS = {
    "deepbench": {*CONVOLUTIONS, "gemm"},
    "neusight": {*ELEMENTWISE, "bmm", "linear", "conv", "layernorm", "softmax"},
}
SOURCES = tuple(OPERATORS)


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
    """By device and source; a device under `both` or another source's name is found too. Devices that the folder does
    not describe are those of the fit.
    """
    found: dict[tuple[str, str], Board] = {}
    for path in dict.fromkeys((folder, DATA)):
        here: dict[tuple[str, str], Board] = {}
        for row in _rows(path / "devices.csv"):
            board = _board(row)
            if board is None:
                continue
            for source in SOURCES:
                if row.get("dataset", "both") in (source, "both") or (board.name, source) not in here:
                    here[board.name, source] = board
        found = here | found
    return found


def _board(row: Mapping[str, str]) -> Board | None:
    """None where it lacks a name, a peak or a bandwidth."""
    fp32, tensor, memory = (
        _positive(row.get(name))
        for name in ("peak_fp32_flops_per_s", "peak_fp16_tensor_flops_per_s", "memory_bytes_per_s")
    )
    if not row.get("device") or fp32 is None or memory is None:
        return None
    return Board(name=row["device"], fp32_flops_per_s=fp32, tensor_flops_per_s=tensor, memory_bytes_per_s=memory)


@dataclass(frozen=True, slots=True)
class Timings:
    """What a folder holds: samples, and how many rows were left out, by reason."""

    rows: list[Sample]
    left_out: dict[str, int]


def timings(folder: Path) -> Timings:
    """Of whichever of the two files the folder has. A row that cannot be read is left out and counted."""
    rows: list[Sample] = []
    left_out: Counter[str] = Counter()
    described = boards(folder)
    for source, name, read in (
        ("deepbench", "deepbench_layers.csv", _deepbench),
        ("neusight", "neusight_ops.csv", _neusight),
    ):
        for row in _rows(folder / name):
            why = _unfit(row, source, described)
            if why is None:
                try:
                    rows.append(_sound(read(row, described[row["device"], source])))
                except (TypeError, ValueError, ZeroDivisionError):
                    why = f"sizes that make no {row['op']}"
            if why is not None:
                left_out[f"{name}: {why}"] += 1
    return Timings(rows, dict(left_out))


def _unfit(row: Mapping[str, str], source: str, described: Mapping[tuple[str, str], Board]) -> str | None:
    """Why a row says nothing, by its name, its seconds and its device."""
    if not row.get("device"):
        return "no device"
    if (row["device"], source) not in described:
        return f"{row['device']} is not in devices.csv"
    if row.get("op") not in OPERATORS[source]:
        return f"unknown operator {row.get('op')}"
    if source == "deepbench" and _dtype(row, described[row["device"], source]) is None:
        return f"unknown dtype {row.get('dtype')}"
    return None if _positive(row.get("seconds")) else "no seconds"


def _dtype(row: Mapping[str, str], board: Board) -> str | None:
    """By the name that records have: what runs on matrix units does so where the board has some."""
    name = (row.get("dtype") or "fp32").strip().lower()
    if name in _HALF:
        return "fp16_mixed" if board.tensor_flops_per_s else "fp16_in_fp32_math"
    if name == "tf32":
        return "tf32" if board.tensor_flops_per_s else "fp32"
    if name in _WIDE:
        return "fp32"
    return name if name == "fp16_in_fp32_math" else None


def _size(row: Mapping[str, str], name: str, default: str = "") -> int:
    """A whole number, however it is written: `16`, or `16.0` as a table with gaps has it."""
    value = float(row.get(name) or default)
    if not value.is_integer():
        raise ValueError(value)
    return int(value)


def _sound(sample: Sample) -> Sample:
    """There is something to compute."""
    product = (sample.rows, sample.columns, sample.reduction) if sample.kind in PRODUCTS else ()
    if not all(0 < size < float("inf") for size in (*product, sample.groups, sample.bytes)):
        raise ValueError(sample)
    return sample


def _side(size: int, kernel: int, padding: int, stride: int) -> int:
    """Positions of a window's output."""
    side = (size + 2 * padding - kernel) // stride + 1
    if side < 1:
        raise ValueError(side)
    return side


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


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
    if not path.is_file():
        return []
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return list(csv.DictReader(file))


def _deepbench(row: Mapping[str, str], board: Board) -> Sample:
    dtype = _dtype(row, board) or ""
    names = ("op", "n", "c", "h", "w", "f", "kernel_h", "kernel_w", "pad_h", "pad_w", "stride_h", "stride_w", "m", "k")
    said: dict[str, Any] = {
        "device": row["device"],
        "dtype": dtype,
        "source": "deepbench",
        "op": row["op"],
        "seconds": float(row.get("seconds") or ""),
        "shape": "/".join(row.get(name) or "" for name in (*names[1:], "trans_a", "trans_b")),
    }
    item_bytes = 4 if dtype in ("fp32", "tf32") else 2
    if row["op"] == "gemm":
        m, n, k = (float(row.get(name) or "") for name in "mnk")
        return Sample(
            **said, kind="linear", direction="forward", rows=n, columns=m, reduction=k,
            bytes=item_bytes * (m * k + k * n + m * n),
        )  # fmt: skip
    n, c, h, w, f, kernel_h, kernel_w, pad_h, pad_w, stride_h, stride_w = (_size(row, name) for name in names[1:12])
    out_h, out_w = _side(h, kernel_h, pad_h, stride_h), _side(w, kernel_w, pad_w, stride_w)
    on_tensor_cores = dtype in MATRIX
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


def _neusight(row: Mapping[str, str], _: Board) -> Sample:
    """Its convolutions are 3x3, stride 1, padding 1, where the file does not say."""
    op = "elementwise" if row["op"] in ELEMENTWISE else row["op"]
    names = ("op", "b", "m", "n", "k", "c_in", "c_out", "size", "h")
    said: dict[str, Any] = {
        "device": row["device"],
        "dtype": "fp32",
        "source": "neusight",
        "op": op,
        "direction": "forward",
        "seconds": float(row.get("seconds") or ""),
        "shape": "/".join(row.get(name) or "" for name in (*names, "kernel", "stride")),
    }
    b = _size(row, "b")
    if op in ("bmm", "linear"):
        m, n, k = (_size(row, name) for name in "mnk")
        batches, rows, matrices = (b, m, b) if op == "bmm" else (1, b * m, 1)
        return Sample(
            **said, kind="product" if op == "bmm" else "linear", rows=rows, columns=k, reduction=n, groups=batches,
            bytes=4.0 * (batches * rows * (n + k) + matrices * n * k),
        )  # fmt: skip
    if op == "conv":
        c, f, size = (_size(row, name) for name in ("c_in", "c_out", "size"))
        kernel, stride, padding = _size(row, "kernel", "3"), _size(row, "stride", "1"), _size(row, "padding", "1")
        kind = _family(kernel, kernel, stride, stride, winograd=True)
        side = _side(size, kernel, padding, stride)
        rows = b * side * side
        return Sample(
            **said, kind=kind, rows=(rows + b * tiled(side) ** 2) / 2 if kind == "winograd" else rows,
            columns=f, reduction=kernel * kernel * c,
            bytes=4.0 * (b * c * size * size + rows * f + kernel * kernel * c * f),
        )  # fmt: skip
    passes = ELEMENTWISE.get(row["op"], 2)
    kind = {"layernorm": "norm", "softmax": "softmax"}.get(op, "elementwise")
    return Sample(**said, kind=kind, bytes=4.0 * passes * b * _size(row, "h"))
