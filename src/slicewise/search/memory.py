"""What candidates keep in memory: which plans and which slicings fit a limit. Nothing is searched here."""

import numpy as np

from slicewise.errors import MemoryLimitError
from slicewise.partition.choices import Ints
from slicewise.search.candidates import Candidates
from slicewise.units import amount


def check_fits(pool: Candidates, limit_bytes: float) -> None:
    """Refuse a limit that no plan fits."""
    if limit_bytes == float("inf"):
        return
    _, needs = smallest_peak(pool)
    if needs > limit_bytes:
        raise MemoryLimitError(
            f"no plan fits: the smallest needs {amount(needs, 'B')} per device, {amount(needs - limit_bytes, 'B')} "
            f"more than the limit of {amount(limit_bytes, 'B')}"
        )


def affordable(pool: Candidates, limit_bytes: float) -> list[Ints]:
    """Per layer, the choices that fit where all other layers keep their fewest bytes."""
    deciding = decisions(pool)
    fewest = sum(int(memory.min()) for _, memory, _ in deciding)
    kept = [np.empty(0, dtype=np.int64)] * len(pool.choices)
    for layers, memory, transient in deciding:
        for layer in layers:
            kept[layer] = np.flatnonzero(fewest - memory.min() + memory + transient <= limit_bytes)
    return kept


def smallest_peak(pool: Candidates) -> tuple[int, int]:
    """What a layer may need while it runs in the plan with the smallest peak, and that peak."""
    deciding = decisions(pool)
    levels = np.unique(np.concatenate([transient for _, _, transient in deciding]))
    peaks = levels[levels >= max(int(transient.min()) for _, _, transient in deciding)]
    levels = peaks
    for _, memory, transient in deciding:
        by_need = np.argsort(transient, kind="stable")
        fewest = np.minimum.accumulate(memory[by_need])
        peaks = peaks + fewest[np.searchsorted(transient[by_need], levels, side="right") - 1]
    best = int(np.argmin(peaks))
    return int(levels[best]), int(peaks[best])


def decisions(pool: Candidates) -> list[tuple[tuple[int, ...], Ints, Ints]]:
    """Each layer, or the layers that share weights and so decide together: what they keep, and need while they run."""
    tied = {layer: tie for tie in pool.model.graph.ties for layer in tie}
    together = dict.fromkeys(tied.get(layer, (layer,)) for layer in range(len(pool.choices)))
    return [
        (
            layers,
            np.sum([pool.seconds[layer].memory_bytes for layer in layers], axis=0),
            np.max([pool.seconds[layer].transient_bytes for layer in layers], axis=0),
        )
        for layers in together
    ]
