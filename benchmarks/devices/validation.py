"""How right the fit is where it has not looked: shapes kept out of it, and devices kept out of it."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.devices.fitting import fit
from benchmarks.devices.record import Record
from benchmarks.devices.samples import Board, Sample, column
from benchmarks.devices.scores import predict

FOLDS = 5


def across_shapes(rows: Sequence[Sample], boards: Mapping[tuple[str, str], Board]) -> NDArray[np.float64]:
    """Each fifth of the shapes, predicted by a fit to the others."""
    found, folds = np.zeros(len(rows)), column(rows, "fold")
    for fold in range(FOLDS):
        records = fit([row for row in rows if row.fold != fold], boards)
        found[folds == fold] = _predict([row for row in rows if row.fold == fold], records, boards)
    return found


def across_devices(rows: Sequence[Sample], boards: Mapping[tuple[str, str], Board]) -> NDArray[np.float64]:
    """Each device, by rule from a fit to the others."""
    found, devices = np.zeros(len(rows)), column(rows, "device")
    for device in np.unique(devices):
        records = fit([row for row in rows if row.device != device], boards)
        found[devices == device] = _predict([row for row in rows if row.device == device], records, boards)
    return found


def _predict(
    rows: Sequence[Sample], records: Sequence[Record], boards: Mapping[tuple[str, str], Board]
) -> NDArray[np.float64]:
    return predict(rows, {record.group: record for record in records}, boards)
