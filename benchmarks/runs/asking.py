"""Published runs, put to the oracle."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log

from benchmarks.runs.networks import network
from benchmarks.runs.rows import PublishedRun
from slicewise.strategies.projecting import oracle
from slicewise.strategies.projection import Projection
from slicewise.strategies.sureness import width


@dataclass(frozen=True, slots=True)
class Answer:
    run: PublishedRun
    row: Projection

    @property
    def error(self) -> float:
        """ln(measured / projected)."""
        return log(self.run.iteration_s / self.row.iteration_s)

    @property
    def accuracy(self) -> float:
        return max(0.0, 1 - abs(self.row.iteration_s - self.run.iteration_s) / self.run.iteration_s)

    @property
    def covered(self) -> bool:
        return self.row.low_s <= self.run.iteration_s <= self.row.high_s

    @property
    def width(self) -> float:
        """Half of the range, as a factor."""
        return width(self.row)

    @property
    def communication_share(self) -> float:
        assert self.row.terms is not None
        return self.row.terms.communication_s / self.row.iteration_s


@cache
def asked(run: PublishedRun, measured: tuple[int, float] | None = None) -> Answer:
    (row,) = oracle(
        network(run.network),
        run.machine,
        devices=[run.devices],
        batch=run.batch,
        strategies=[run.strategy],
        dtype=run.dtype,
        optimizer="momentum",
        split=_split(run),
        measured=measured,
    )
    return Answer(run, row)


def _split(run: PublishedRun) -> tuple[int, int] | None:
    """Hybrids have a group per machine."""
    size = run.machine.tiers[-1].size
    return (run.devices // size, size) if "+" in run.strategy and run.devices > size else None


def measured_on_one(runs: Sequence[PublishedRun]) -> dict[PublishedRun, PublishedRun]:
    """To each run on several GPUs, one by the same people on one GPU: same network, GPU and dtype, nearest in batch."""
    found = {}
    for run in runs:
        alone = [one for one in runs if one.devices == 1 and _kind(one) == _kind(run)]
        if run.devices > 1 and run.strategy == "data" and alone:
            each = run.batch / run.devices
            found[run] = min(alone, key=lambda one: abs(log(one.batch / each)))
    return found


def _kind(run: PublishedRun) -> tuple[str, ...]:
    """Lambda names machines after their maker and number of GPUs."""
    gpu = re.sub(r"^(1cc|Dell|DellTexas|RAIDZ1|SMC|LambdaCloud)_|\d+x", "", run.gpu)
    return run.source, run.framework, run.network, gpu, run.dtype
