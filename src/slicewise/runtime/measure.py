"""Run contenders for a few steps and report what really happened."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from slicewise.runtime.batches import Batch
from slicewise.runtime.clock import Clock, Span, running
from slicewise.runtime.contenders import Contender
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.devices import rank_device, synchronize
from slicewise.runtime.memory import peak_bytes

MOVING = ("transfer", "halo", "reduce", "sync")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """When the parts of one step ended, by this rank's clock, and what it did meanwhile."""

    start_s: float
    backward_stop_s: float
    stop_s: float
    clock: Clock
    loss: float

    @property
    def total_s(self) -> float:
        return self.stop_s - self.start_s

    @property
    def update_s(self) -> float:
        return self.stop_s - self.backward_stop_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    steps: dict[str, list[StepTime]]  # by contender
    data_s: list[float]  # waited for each batch


def timed_step(contender: Contender, batch: Batch, *, layers: bool = False) -> StepTime:
    """One step, from a common start; the clock sees where its communication goes."""
    synchronize()
    dist.barrier()
    clock = Clock(layers=layers)
    start_s = time.perf_counter()
    contender.optimizer.zero_grad()
    with running(clock):
        loss = contender.forward_backward(batch)
    synchronize()
    backward_stop_s = time.perf_counter()
    contender.optimizer.step()
    synchronize()
    return StepTime(
        start_s=start_s,
        backward_stop_s=backward_stop_s,
        stop_s=time.perf_counter(),
        clock=clock,
        loss=loss.item(),
    )


def alternate(
    contenders: Sequence[Contender],
    batches: Iterator[Batch],
    iterations: int,
    warm_up: int,
    *,
    layers: bool = False,
) -> Measured:
    """Contenders take turns, step by step, so that a drifting machine treats them alike."""
    for batch in (next(batches) for _ in range(warm_up)):
        for contender in contenders:
            timed_step(contender, batch, layers=layers)
    measured = Measured(steps={contender.name: [] for contender in contenders}, data_s=[])
    for _ in range(iterations):
        start_s = time.perf_counter()
        batch = next(batches)
        measured.data_s.append(time.perf_counter() - start_s)
        for contender in contenders:
            measured.steps[contender.name].append(timed_step(contender, batch, layers=layers))
    return measured


def whole_steps(contender: Contender, steps: list[StepTime]) -> dict[str, Any]:
    """Medians of one contender; the rank that takes longest sets the pace."""
    totals = slowest([step.total_s for step in steps])
    return {
        "iteration_s": {
            "median": statistics.median(totals),
            "p10": float(np.percentile(totals, 10)),
            "p90": float(np.percentile(totals, 90)),
        },
        "update_s": statistics.median(slowest([step.update_s for step in steps])),
        "losses": [contender.loss_scale * loss for loss in _sum_over_ranks([step.loss for step in steps])],
    }


def summary(contender: Contender, steps: list[StepTime]) -> dict[str, Any]:
    """The steps, and where their time goes: what is not communication or update is compute."""
    result = whole_steps(contender, steps)
    by_term = [_moving(step.clock.spans) for step in steps]
    terms = {term: statistics.median(step[term] for step in by_term) for term in MOVING}
    communication_s = sum(terms.values())
    return {
        **result,
        "compute_s": result["iteration_s"]["median"] - communication_s - result["update_s"],
        "communication_s": communication_s,
        **{f"{term}_s": seconds for term, seconds in terms.items()},
    }


def _moving(spans: Sequence[Span]) -> dict[str, float]:
    """Seconds of communication by term, without waiting: a collective takes as long as for the rank that came last.

    Every rank has the same spans, in the same order. What the others wait counts as the slower rank's compute.
    """
    shortest = torch.tensor([span.stop_s - span.start_s for span in spans], dtype=torch.float64, device=rank_device())
    dist.all_reduce(shortest, dist.ReduceOp.MIN)
    totals = dict.fromkeys(MOVING, 0.0)
    for span, seconds in zip(spans, shortest.tolist(), strict=True):
        totals[span.term] += seconds
    return totals


def count_step(contender: Contender, batch: Batch, tier_of: Callable[[Sequence[int]], str]) -> dict[str, Any]:
    """One more step, every collective counted; bytes are what all ranks send."""
    contender.optimizer.zero_grad()
    with CountCollectives() as counted:
        contender.forward_backward(batch)
    every: list[dict[str, float]] = [{}] * dist.get_world_size()
    mine: dict[str, float] = {}
    for ranks, sent_bytes in counted.sent_within.items():
        tier = tier_of(ranks) if len(ranks) > 1 else ""
        mine[tier] = mine.get(tier, 0.0) + sent_bytes
    dist.all_gather_object(every, mine)
    totals: dict[str, float] = {}
    for sent in every:
        for tier, sent_bytes in sent.items():
            totals[tier] = totals.get(tier, 0.0) + sent_bytes
    return {
        "bytes_moved": round(sum(totals.values())),
        "bytes_by_tier": {tier: round(sent) for tier, sent in totals.items() if tier},
        "collectives": dict(sorted(counted.collectives.items())),
    }


def peak_memory(contender: Contender, batch: Batch) -> list[int]:
    """Per rank, the most bytes of live tensors during one more step, update included."""
    contender.optimizer.zero_grad()

    def step() -> None:
        contender.forward_backward(batch)
        contender.optimizer.step()

    mine = peak_bytes(step, [*contender.held(), batch.inputs, batch.targets], rank_device())
    every = [0] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return every


def paired_ratio(slower: list[StepTime], faster: list[StepTime], draws: int = 2000) -> dict[str, float]:
    """Median of the step-by-step time ratios, with a bootstrap interval of 95 %."""
    ratios = np.array(slowest([s.total_s for s in slower])) / np.array(slowest([f.total_s for f in faster]))
    random = np.random.default_rng(0)
    medians = np.median(random.choice(ratios, (draws, len(ratios))), axis=1)
    return {
        "median": float(np.median(ratios)),
        "low": float(np.percentile(medians, 2.5)),
        "high": float(np.percentile(medians, 97.5)),
        "pairs": len(ratios),
    }


def slowest(seconds: list[float]) -> list[float]:
    """Each of these on the rank where it took longest."""
    tensor = torch.tensor(seconds, dtype=torch.float64, device=rank_device())
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return [float(value) for value in tensor]


def _sum_over_ranks(values: list[float]) -> list[float]:
    tensor = torch.tensor(values, dtype=torch.float64, device=rank_device())
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]
