"""What a step is made of, as series of one number per step.

iteration = data + common work + what a rank needs beyond it + communication
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.diagnosis.expectation import Expectation
from slicewise.diagnosis.record import Floats, Record
from slicewise.diagnosis.verdict import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the series that a step is made of."""

    fault: Fault
    bursts: Fault  # what it is where it comes and goes
    term: str
    ranks: tuple[int, ...]
    seconds: Floats
    beside: Floats | None = None  # what an excess is told as a factor of; without it what there was before
    should_be: float | None = None  # None: only the run itself, or the projection, can tell


def parts(record: Record, projected: Expectation) -> Iterator[Part]:
    seconds, everyone = record.seconds, record.ranks or ()
    if "data" in seconds:
        yield Part(
            fault=Fault.STAGING,
            bursts=Fault.STAGING,
            term="data",
            ranks=_worst(seconds["data"], everyone),
            seconds=seconds["data"].max(axis=1),
            beside=seconds["step"].max(axis=1),
            should_be=0.0,
        )
    whole, term = _even_work(record, projected), "step" if record.work is None else "compute"
    common = lower_median(whole)
    if len(everyone) > 1:
        for position, rank in enumerate(everyone):
            others = whole[:, 1 - position] if len(everyone) == 2 else np.median(whole, axis=1)
            yield Part(
                fault=Fault.SLOW_RANK,
                bursts=Fault.SLOW_RANK,
                term=term,
                ranks=(rank,),
                seconds=whole[:, position] - others,
                beside=others,
                should_be=0.0,
            )
    moving = record.communication
    if moving is None:
        yield Part(fault=Fault.SLOWDOWN, bursts=Fault.CONGESTION, term="step", ranks=(), seconds=common)
        return
    yield Part(fault=Fault.SLOW_RANK, bursts=Fault.SLOW_RANK, term="compute", ranks=everyone, seconds=common)
    yield Part(fault=Fault.SLOW_LINK, bursts=Fault.CONGESTION, term="communication", ranks=everyone, seconds=moving)


def _worst(seconds: Floats, ranks: Sequence[int]) -> tuple[int, ...]:
    """Ranks that spend at least half of what the worst one does."""
    means = seconds.mean(axis=0)
    return tuple(rank for rank, mean in zip(ranks, means, strict=False) if mean >= means.max() / 2)


def _even_work(record: Record, projected: Expectation) -> Floats:
    """Each rank's own work, or its step where that is all there is, as if all had as much to do."""
    work = record.seconds["step"] if record.work is None else record.work
    return work if record.ranks is None else work / projected.shares[list(record.ranks)]


def lower_median(values: Floats) -> Floats:
    """Over ranks; of two ranks the faster one."""
    middle: Floats = np.sort(values, axis=1)[:, (values.shape[1] - 1) // 2]
    return middle


def beyond_common(record: Record, projected: Expectation) -> Floats:
    """What the slowest rank adds to each step."""
    work = record.seconds["step"] if record.work is None else record.work
    beyond: Floats = np.maximum(work.max(axis=1) - lower_median(_even_work(record, projected)), 0.0)
    return beyond
