"""What is fitted for one device, dtype and source of timings, and what a device without timings is given instead."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.devices.boards import standing, weights
from benchmarks.devices.samples import MATRIX, PRODUCTS, Batch, Board
from slicewise.cost.utilisation import arithmetic_s, kernel_s

SIZES = ("linear", "forward", "backward_input", "backward_weight")
FILL_FLOPS = 1e13  # a device fills with so many outputs per this many fp32 FLOP/s


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`values`: natural logarithms by name; `spread`: standard deviation of ln(measured / predicted) by operator."""

    group: str
    generation: str
    values: Mapping[str, float]
    spread: Mapping[str, float]

    @property
    def source(self) -> str:
        return self.group.rsplit("/", 1)[1]

    @property
    def on_matrix_units(self) -> bool:
        return self.group.rsplit("/", 2)[1] in MATRIX


def seconds(parts: Sequence[Batch], record: Record, board: Board) -> NDArray[np.float64]:
    """Of all samples of one group."""
    found = np.zeros(sum(len(part.places) for part in parts))
    for part in parts:
        found[part.places] = _batch_s(part, record.values, board)
    return found


def _batch_s(part: Batch, values: Mapping[str, float], board: Board) -> NDArray[np.float64]:
    call_s = np.exp(values[f"call.{part.op}"])
    product = part.kind in PRODUCTS
    share = np.exp(values["memory.product" if product else f"memory.{part.kind}"])
    memory = part.bytes / (board.memory_bytes_per_s * share)
    if not product:
        return kernel_s(0.0, memory, call_s)
    tensor = (board.tensor_flops_per_s or 0.0) * MATRIX.get(part.dtype, 0.0)
    held = standing(board.name, board.fp32_flops_per_s).held
    rate = (tensor or board.fp32_flops_per_s) * held * np.exp(efficiency_of(values, part.kind, part.direction))
    half = half_size(values, "linear" if part.kind in ("linear", "product") else part.direction, board)
    return kernel_s(arithmetic_s(part.work, part.direction, half, np.exp(values["long"]), rate), memory, call_s)


def efficiency_of(values: Mapping[str, float], kind: str, direction: str) -> float:
    """Its logarithm."""
    turned = 0.0 if direction == "forward" else values[direction]
    again = values["strided_input"] if (kind, direction) == ("strided", "backward_input") else 0.0
    return values[f"efficiency.{kind}"] + turned + again


def half_size(values: Mapping[str, float], size: str, board: Board) -> tuple[float, float, float, float]:
    """Rows and fill grow with the device; not the fill of weight gradients, whose few long sums are split up."""
    rows, columns, reduction, fill = (float(np.exp(values[f"{size}.{i}"])) for i in range(4))
    width = float(np.exp(values["width"]))
    wide = 1.0 if size == "backward_weight" else width * board.fp32_flops_per_s / FILL_FLOPS
    return rows * width, columns, reduction, fill * wide


def by_rule(group: str, board: Board, known: Iterable[Record]) -> Record:
    """Each value as the devices of near generations have it, among those that the same source timed; what it did not
    time, as others did.
    """
    device, dtype, source = group.rsplit("/", 2)
    generation = standing(device, board.fp32_flops_per_s).generation
    on_matrix_units = dtype in MATRIX
    known = list(known)
    timed = [record for record in known if record.source == source] or known
    alike = [record for record in timed if record.on_matrix_units == on_matrix_units] or timed
    values, spread = {}, {}
    for name in {name for record in known for name in record.values}:
        having = [record for record in alike if name in record.values] or known
        values[name] = nearest(generation, [(record, record.values) for record in having], name)
    for name in {name for record in alike for name in record.spread}:
        spread[name] = nearest(generation, [(record, record.spread) for record in alike], name)
    return Record(group=group, generation=generation, values=values, spread=spread)


def nearest(generation: str, tables: Sequence[tuple[Record, Mapping[str, float]]], name: str) -> float:
    """The mean over devices, weighed by their generations."""
    having = [(record.generation, table[name]) for record, table in tables if name in table]
    generations, values = zip(*having, strict=True)
    return float(np.average(values, weights=weights(generation, generations)))


def completed(record: Record, board: Board, known: Iterable[Record]) -> Record:
    """What its own timings do not tell, by rule."""
    ruled = by_rule(record.group, board, known)
    return Record(
        group=record.group,
        generation=record.generation,
        values={**ruled.values, **record.values},
        spread={**ruled.spread, **record.spread},
    )
