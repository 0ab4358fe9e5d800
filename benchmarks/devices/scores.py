"""Predictions for a folder of timings, and how right they are: by operator and by device, known or not."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.devices.record import Record, by_rule, completed, seconds
from benchmarks.devices.samples import Board, Sample, batches, column

Scores = dict[str, Any]


def predict(
    rows: Sequence[Sample], records: Mapping[str, Record], boards: Mapping[tuple[str, str], Board]
) -> NDArray[np.float64]:
    """Seconds of every sample: by its group's record, and by rule where there is none."""
    found = np.zeros(len(rows))
    groups = column(rows, "group")
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        device, _, source = group.rsplit("/", 2)
        board = boards[device, source]
        known = records.get(str(group))
        record = completed(known, board, records.values()) if known else by_rule(group, board, records.values())
        found[places] = seconds(batches([rows[int(place)] for place in places]), record, board)
    return found


def scores(rows: Sequence[Sample], predicted: NDArray[np.float64], fitted: set[str]) -> dict[str, Scores]:
    """`fitted` names the devices that the fit has data of."""
    measured = column(rows, "seconds")
    accuracy = np.maximum(0.0, 1 - np.abs(predicted - measured) / measured)
    log_error = np.abs(np.log(predicted / measured))
    known = np.array([row.device in fitted for row in rows], dtype=bool)
    return {name: _told(rows, values, known) for name, values in (("accuracy", accuracy), ("log_error", log_error))}


def _told(rows: Sequence[Sample], values: NDArray[np.float64], known: NDArray[np.bool_]) -> Scores:
    ops, devices = column(rows, "op"), column(rows, "device")
    return {
        "all": float(values.mean()) if len(rows) else None,
        "by_op": _means(values, ops),
        "by_device": _means(values, devices),
        "known": {"by_op": _means(values[known], ops[known])},
        "unknown": {"by_op": _means(values[~known], ops[~known])},
    }


def _means(values: NDArray[np.float64], labels: NDArray[Any]) -> dict[str, float]:
    return {str(label): float(values[labels == label].mean()) for label in np.unique(labels)}
