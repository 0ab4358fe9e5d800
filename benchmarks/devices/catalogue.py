"""The fit's records as kernels.toml, for the devices that a cluster file can name.

Convolutions are DeepBench's, the only source of all three directions; products, norms and element-wise layers are
NeuSight's, whose libraries are newer. What was not timed on a device comes by rule (record.py). Three kinds neither
source has (volumes, grouped, depth-wise) and what is left in a step are set by hand, from published training steps of
whole networks on one GPU (README.md). Devices that nobody timed come by rule throughout.
"""

from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path

import numpy as np

from benchmarks.devices.boards import GENERATIONS, standing
from benchmarks.devices.record import Record, by_rule, completed, half_size
from benchmarks.devices.samples import Board
from slicewise.cluster.device import Device, load_device
from slicewise.cluster.kernels import Kernels, Unit
from slicewise.cluster.writing import toml

# catalogue: whose timings, by source
SOURCES = {
    "P100": ("P100", "P100-16GB-PCIe"),
    "V100-16": ("V100", "V100-32GB-PCIe"),
    "A100-40": ("A100", "A100-40GB-PCIe"),
    "A100-80": ("A100-80", "A100-80GB-PCIe"),
    "A100-80-PCIe": ("A100-80-PCIe", "A100-80GB-PCIe"),
    "H100": ("H100", "H100-80GB-HBM3"),
}
BY_RULE = (
    "H100-PCIe", "H200",
    "GTX-1080Ti", "T4", "RTX-2080Ti", "TITAN-RTX", "A10", "A30", "A40", "RTX-A6000", "RTX-3080", "RTX-3090", "RTX-4090",
    "RTX-6000-Ada", "L4", "L40S", "B200", "MI210", "MI300X",
)  # fmt: skip
CALLS = {"forward": "conv_forward", "backward_input": "conv_backward_input", "backward_weight": "conv_backward_weight"}
# share of the peak: volumes, grouped, depth-wise; of the latter two on matrix units, FLOPs per byte of bandwidth, which
# bounds them
UNTIMED = {"simt": (0.5, 0.25, 0.08), "tensor": (0.9, 7.0, 36.0)}
# Not all that kernels reach alone is left in a step, under its power limit: of plain units so much, of matrix units the
# less the more their peak outgrew what feeds them, in FLOPs per byte of bandwidth
PLAIN_LEFT = 0.85
FED, OUTGROWN = 110.0, 0.65
FIRST_MATRIX_UNITS = GENERATIONS["volta"][0]
POOL = 0.6  # share of the bandwidth: windows overlap
DIGITS = 3
HEAD = """\
# Written by `python -m benchmarks.devices.fit --write` from published timings of kernels; docs/cost.md has the formula.
# Devices that are `like` one of these share its kernels.

"""


def write(records: Mapping[str, Record], boards: Mapping[tuple[str, str], Board]) -> None:
    found = {name: asdict(kernels(name, records, boards)) for name in (*SOURCES, *BY_RULE)}
    said = {name: {key: value for key, value in table.items() if value} for name, table in found.items()}
    path = Path(str(resources.files("slicewise.cluster"))) / "kernels.toml"
    path.write_text(HEAD + toml(said, digits=DIGITS), encoding="utf-8")


def kernels(name: str, records: Mapping[str, Record], boards: Mapping[tuple[str, str], Board]) -> Kernels:
    device, timed = load_device(name), SOURCES.get(name, (name, name))
    convolutions, others = (
        _of(f"{board}/fp32/{source}", device, records, boards)
        for board, source in zip(timed, ("deepbench", "neusight"), strict=True)
    )
    stands, board = standing(name, device.peak_flops_per_s), _board(device)
    narrow = None
    if GENERATIONS[stands.generation][0] >= FIRST_MATRIX_UNITS:
        narrow = _of(f"{timed[0]}/fp16_mixed/deepbench", device, records, boards)
    return Kernels(
        simt=_unit("simt", convolutions, others, board, stands.held * PLAIN_LEFT),
        tensor=None if narrow is None else _unit("tensor", narrow, narrow, board, stands.held * _left(board)),
        memory={
            "product": _number(convolutions.values["memory.product"]),
            **{kind: _number(others.values[f"memory.{kind}"]) for kind in ("elementwise", "norm", "softmax")},
            "pool": POOL,
        },
        call_s={
            **dict.fromkeys(("linear", "product"), _number(convolutions.values["call.gemm"])),
            **{name: _number(convolutions.values[f"call.{op}"]) for name, op in CALLS.items()},
            **dict.fromkeys(("elementwise", "norm", "softmax", "pool"), device.kernel_s),
        },
        spread={
            "linear": _rounded(others.spread["linear"]),
            "product": _rounded(others.spread["bmm"]),
            **{name: _rounded(convolutions.spread[op]) for name, op in CALLS.items()},
            "elementwise": _rounded(others.spread["elementwise"]),
            "norm": _rounded(others.spread["layernorm"]),
            "softmax": _rounded(others.spread["softmax"]),
            "pool": _rounded(others.spread["layernorm"]),
        },
        by_rule=name not in SOURCES,
    )


def _left(board: Board) -> float:
    """Of what matrix units reach alone."""
    assert board.tensor_flops_per_s is not None
    return float(min(1.0, FED * board.memory_bytes_per_s / board.tensor_flops_per_s) ** OUTGROWN)


def _of(group: str, device: Device, records: Mapping[str, Record], boards: Mapping[tuple[str, str], Board]) -> Record:
    name, _, source = group.split("/")
    board = boards.get((name, source), _board(device))
    known = records.get(group)
    return completed(known, board, records.values()) if known else by_rule(group, board, records.values())


def _board(device: Device) -> Board:
    return Board(
        name=device.name,
        fp32_flops_per_s=device.peak_flops_per_s,
        tensor_flops_per_s=device.peaks.get("fp16"),
        memory_bytes_per_s=device.memory_bytes_per_s,
    )


def _unit(name: str, convolutions: Record, products: Record, board: Board, left: float) -> Unit:
    timed = {kind: convolutions.values[f"efficiency.{kind}"] for kind in ("pointwise", "window", "strided")}
    timed["window"] = min(timed["window"], timed["pointwise"])  # 5 x 5 alone were timed, and ran as Fourier transforms
    timed["winograd"] = convolutions.values.get("efficiency.winograd", timed["window"])
    timed["linear"] = products.values["efficiency.linear"]
    timed["product"] = products.values.get("efficiency.product", timed["linear"])
    volume, grouped, depthwise = UNTIMED[name]
    if name == "tensor":
        assert board.tensor_flops_per_s is not None
        fed = board.memory_bytes_per_s / board.tensor_flops_per_s / left  # which is not lost in a step
        grouped, depthwise = grouped * fed, depthwise * fed
    shares = {kind: float(np.exp(value)) for kind, value in timed.items()}
    shares |= {"volume": volume, "grouped": grouped, "depthwise": depthwise}
    order = ("linear", "product", "pointwise", "winograd", "window", "strided", "volume", "grouped", "depthwise")
    sizes = {
        size: tuple(map(_rounded, half_size((products if size == "linear" else convolutions).values, size, board)))
        for size in ("linear", "forward", "backward_input", "backward_weight")
    }
    return Unit(
        efficiency={kind: _rounded(left * shares[kind]) for kind in order},
        backward_input=_number(convolutions.values["backward_input"]),
        backward_weight=_number(convolutions.values["backward_weight"]),
        strided_input=_number(convolutions.values["strided_input"]),
        half_size={size: (rows, columns, reduction, fill) for size, (rows, columns, reduction, fill) in sizes.items()},
        long_reduction=_number(products.values["long"]),
    )


def _number(logarithm: float) -> float:
    return _rounded(float(np.exp(logarithm)))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
