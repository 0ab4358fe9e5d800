"""The joint fit: shapes are shared by all devices of a source and unit, the rest belongs to a device.

Minimises |predicted / measured - 1|, rounded near 0 so that it has a derivative, over at most ROWS rows of an operator
on a device. A weak pull towards round values decides what the rows leave open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.sparse import lil_matrix

from benchmarks.devices.boards import standing
from benchmarks.devices.record import SIZES, Record, seconds
from benchmarks.devices.samples import PRODUCTS, Board, Sample, batches, column

ROUND = 0.15  # errors below this count as squares
ROWS = 300  # of an operator on a device, taken by a hash of their shapes: more would drown the others
SHAPES = {  # rows, columns, reduction, fill: where the fit starts, and what it is pulled to
    "linear": (30.0, 30.0, 30.0, 1e4),
    "forward": (300.0, 10.0, 10.0, 1e5),
    "backward_input": (300.0, 10.0, 10.0, 1e5),
    "backward_weight": (30.0, 10.0, 10.0, 1e5),
}
EFFICIENCIES = dict(zip(PRODUCTS, (0.85, 0.85, 0.8, 1.6, 0.9, 0.8), strict=True))
# no product beats its peak; Winograd saves up to 4 x the multiplications, Fourier transforms of large windows 2 x
MOST = dict(zip(PRODUCTS, (1.0, 1.1, 1.0, 4.0, 2.0, 1.0), strict=True))
CALLS = {
    "deepbench": {"gemm": 6e-6, "conv_forward": 14e-6, "conv_backward_input": 16e-6, "conv_backward_weight": 18e-6},
    "neusight": {"linear": 60e-6, "bmm": 40e-6, "conv": 140e-6, "elementwise": 30e-6, "layernorm": 45e-6,
                 "softmax": 40e-6},
}  # fmt: skip
MEMORY = {"product": 0.7, "elementwise": 0.9, "norm": 0.65, "softmax": 0.65}


@dataclass(slots=True)
class _Plan:
    """Where each value stands in the vector, from where it starts, how strongly it is pulled there, its upper bound."""

    names: list[tuple[str, str]] = field(default_factory=list)  # owner, value
    start: list[float] = field(default_factory=list)
    pull: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)

    def add(self, owner: str, name: str, start: float, pull: float, most: float = np.inf) -> None:
        self.names.append((owner, name))
        self.start.append(float(np.log(start)))
        self.pull.append(pull)
        self.most.append(float(np.log(most)))


def shape_owner(group: str) -> str:
    _, dtype, source = group.split("/")
    return f"{source}/{'tensor' if dtype == 'fp16_mixed' else 'simt'}"


def fit(rows: Sequence[Sample], boards: Mapping[tuple[str, str], Board], rounds: int = 25) -> list[Record]:
    """A record per group, with the values that its rows tell."""
    groups = sorted({row.group for row in rows})
    by_group = {group: _thinned([row for row in rows if row.group == group]) for group in groups}
    plan = _planned(by_group)
    parts_of = {group: batches(by_group[group]) for group in groups}
    measured = {group: column(by_group[group], "seconds") for group in groups}
    place = {name: i for i, name in enumerate(plan.names)}
    own = {group: _values(group, plan) for group in groups}

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = []
        for group in groups:
            values = {name: x[place[owner, name]] for name, owner in own[group].items()}
            record = Record(group=group, generation="", values=values, spread={})
            device, _, source = group.split("/")
            log = np.log(seconds(parts_of[group], record, boards[device, source]) / measured[group])
            error = np.expm1(np.clip(log, -5, 1.2))
            parts.append(ROUND * np.sqrt(2 * (np.sqrt(1 + (error / ROUND) ** 2) - 1)))
        return np.concatenate([*parts, np.array(plan.pull) * (x - plan.start)])

    start = np.minimum(plan.start, np.array(plan.most) - 1e-3)
    bounds = (np.full(len(start), -20.0), np.where(np.isfinite(plan.most), plan.most, 25.0))
    sparsity = _sparsity(by_group, plan)
    x = least_squares(residuals, start, bounds=bounds, jac_sparsity=sparsity, tr_solver="lsmr", max_nfev=rounds).x
    return [_record(group, by_group[group], {n: float(x[place[o, n]]) for n, o in own[group].items()}, boards)
            for group in groups]  # fmt: skip


def _planned(by_group: dict[str, list[Sample]]) -> _Plan:
    plan = _Plan()
    for owner in sorted({shape_owner(group) for group in by_group}):
        for size in SIZES:
            for i, start in enumerate(SHAPES[size]):
                plan.add(owner, f"{size}.{i}", start, 0.1)
        plan.add(owner, "strided_input", 0.6, 0.1, 1.0)
    for group, rows in by_group.items():
        source = group.split("/")[2]
        kinds, ops = {row.kind for row in rows}, {row.op for row in rows}
        products = kinds & set(PRODUCTS)
        for kind in sorted(products):
            plan.add(group, f"efficiency.{kind}", EFFICIENCIES[kind], 0.2, MOST[kind])
        for direction in sorted({row.direction for row in rows} - {"forward"}):
            plan.add(group, direction, 0.85, 0.3, 1.0)
        for kind in sorted((kinds - products) | ({"product"} if products else set())):
            plan.add(group, f"memory.{kind}", MEMORY[kind], 0.3, 1.0)
        for op in sorted(ops):
            plan.add(group, f"call.{op}", CALLS[source][op], 0.1)
        if products:
            plan.add(group, "long", 3e5, 0.05)
            plan.add(group, "width", 1.0, 0.1)
    return plan


def _values(group: str, plan: _Plan) -> dict[str, str]:
    """Which values a group has, and who owns each: itself, or all that share a shape."""
    return {name: owner for owner, name in plan.names if owner in (group, shape_owner(group))}


def _thinned(rows: Sequence[Sample]) -> list[Sample]:
    by_op: dict[str, list[Sample]] = {}
    for row in rows:
        by_op.setdefault(row.op, []).append(row)
    return [row for alike in by_op.values() for row in sorted(alike, key=lambda row: row.hashed)[:ROWS]]


def _sparsity(by_group: dict[str, list[Sample]], plan: _Plan) -> lil_matrix:
    total = sum(map(len, by_group.values()))
    pattern = lil_matrix((total + len(plan.names), len(plan.names)), dtype=np.int8)
    first = 0
    for group, rows in by_group.items():
        for i, (owner, _) in enumerate(plan.names):
            if owner in (group, shape_owner(group)):
                pattern[first : first + len(rows), i] = 1
        first += len(rows)
    for i in range(len(plan.names)):
        pattern[total + i, i] = 1
    return pattern


def _record(
    group: str, rows: list[Sample], values: dict[str, float], boards: Mapping[tuple[str, str], Board]
) -> Record:
    device, _, source = group.split("/")
    board = boards[device, source]
    bare = Record(group=group, generation="", values=values, spread={})
    error = np.log(column(rows, "seconds") / seconds(batches(rows), bare, board))
    ops = column(rows, "op")
    spread = {str(op): float(np.sqrt(np.mean(np.clip(error[ops == op], -2, 2) ** 2))) for op in np.unique(ops)}
    generation = standing(device, board.fp32_flops_per_s).generation
    return Record(group=group, generation=generation, values=values, spread=spread)
