"""Run contenders for a few steps and report what really happened."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from slicewise.running.contenders import Contender
from slicewise.runtime.batches import Batch
from slicewise.runtime.clock import Clock, running
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.devices import rank_device, synchronize
from slicewise.runtime.memory import peak_bytes
from slicewise.runtime.whereabouts import at_step, mark
from slicewise.terms import MOVING


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
class Measurement:
    steps: dict[str, list[StepTime]]  # by contender
    data: list[tuple[float, float]]  # from when to when this rank waited for each batch

    @property
    def data_s(self) -> list[float]:
        return [stop_s - start_s for start_s, stop_s in self.data]


def timed_step(contender: Contender, batch: Batch, *, layers: bool = False) -> StepTime:
    """One step, from a common start; the clock sees where its communication goes."""
    synchronize()
    mark("barrier")
    dist.barrier()
    clock = Clock(layers=layers)
    start_s = time.perf_counter()
    contender.optimizer.zero_grad()
    with running(clock):
        loss = contender.forward_backward(batch)
    synchronize()
    backward_stop_s = time.perf_counter()
    mark("update")
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
    first: int = 0,
    after: Callable[[int], None] = lambda steps: None,
) -> Measurement:
    """Contenders take turns, step by step, so that a drifting machine treats them alike.

    `first`: the number of the first step; `after(steps)` is called when so many are done.
    """
    at_step(first)
    mark("data")
    for batch in (next(batches) for _ in range(warm_up)):
        for contender in contenders:
            timed_step(contender, batch, layers=layers)
    measured = Measurement(steps={contender.name: [] for contender in contenders}, data=[])
    for step in range(first, iterations):
        at_step(step)
        mark("data")
        start_s = time.perf_counter()
        batch = next(batches)
        measured.data.append((start_s, time.perf_counter()))
        for contender in contenders:
            measured.steps[contender.name].append(timed_step(contender, batch, layers=layers))
        after(step + 1)
    return measured


def whole_steps(contender: Contender, steps: list[StepTime]) -> dict[str, Any]:
    """Medians of one contender; the rank that takes longest sets the pace."""
    totals = slowest([step.total_s for step in steps])
    losses = [contender.loss_scale * loss for loss in _sum_over_ranks([step.loss for step in steps])]
    return {
        "iteration_s": {
            "median": statistics.median(totals),
            "p10": float(np.percentile(totals, 10)),
            "p90": float(np.percentile(totals, 90)),
        },
        "update_s": statistics.median(slowest([step.update_s for step in steps])),
        "losses": losses,
        "first_nan_step": first_nan_step(losses),
    }


def first_nan_step(losses: Sequence[float]) -> int | None:
    """The first, counted from 0, whose loss is NaN or infinite."""
    return next((step for step, loss in enumerate(losses) if not isfinite(loss)), None)


def summary(contender: Contender, steps: list[StepTime], data_s: list[float]) -> dict[str, Any]:
    """The steps, and where their time goes: what is not communication or update is compute."""
    result = whole_steps(contender, steps)
    steps_s = [_by_rank(step, waited_s) for step, waited_s in zip(steps, data_s, strict=True)]
    terms = {term: statistics.median(step[term][0] for step in steps_s) for term in MOVING}
    communication_s = sum(terms.values())
    return {
        **result,
        "compute_s": result["iteration_s"]["median"] - communication_s - result["update_s"],
        "communication_s": communication_s,
        **{f"{term}_s": seconds for term, seconds in terms.items()},
        "steps_s": {term: [step[term] for step in steps_s] for term in steps_s[0]},
    }


def _by_rank(step: StepTime, data_s: float) -> dict[str, list[float]]:
    """Seconds of one step, for each rank; compute, wait, communication and update make up the step.

    A collective takes as long as for the rank that came last; what the others spend in it beyond that, they wait.
    Every rank has the same spans, in the same order.
    """
    lengths_s = [span.stop_s - span.start_s for span in step.clock.spans]
    mine = torch.tensor([data_s, step.total_s, step.update_s, *lengths_s], dtype=torch.float64, device=rank_device())
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    table = torch.stack(every, dim=1).tolist()  # what x rank
    waited, whole, update, collectives = *table[:3], table[3:]
    moved = dict.fromkeys(MOVING, 0.0)
    for span, lengths in zip(step.clock.spans, collectives, strict=True):
        moved[span.term] += min(lengths)
    inside = [sum(lengths) for lengths in zip(*collectives, strict=True)] or [0.0] * len(every)
    moving_s = sum(moved.values())
    return {
        "data": waited,
        "step": whole,
        "compute": [a - b - c for a, b, c in zip(whole, inside, update, strict=True)],
        "wait": [seconds - moving_s for seconds in inside],
        **{term: [seconds] * len(every) for term, seconds in moved.items()},
        "update": update,
    }


def by_layer(spent: Mapping[tuple[str, str], float], steps: int) -> dict[str, list[float]]:
    """Seconds of forward in each layer, without its messages: the mean of all steps, for each rank."""
    mine = {layer: total_s / steps for (doing, layer), total_s in spent.items() if doing == "compute"}
    every: list[dict[str, float]] = [{}] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    names = dict.fromkeys(layer for told in every for layer in told)
    return {layer: [told.get(layer, 0.0) for told in every] for layer in names}


def count_step(contender: Contender, batch: Batch, tier_of: Callable[[Sequence[int]], str]) -> dict[str, Any]:
    """One more step, every collective counted; bytes are what all ranks send, counts the most of any rank."""
    contender.optimizer.zero_grad()
    with CountCollectives() as counted:
        contender.forward_backward(batch)
    every: list[tuple[dict[str, float], dict[str, int]]] = [({}, {})] * dist.get_world_size()
    mine: dict[str, float] = {}
    for ranks, sent_bytes in counted.sent_within.items():
        tier = tier_of(ranks) if len(ranks) > 1 else ""
        mine[tier] = mine.get(tier, 0.0) + sent_bytes
    dist.all_gather_object(every, (mine, dict(counted.collectives)))
    totals: dict[str, float] = {}
    collectives: dict[str, int] = {}
    for sent, counts in every:
        for name, count in counts.items():
            collectives[name] = max(count, collectives.get(name, 0))
        for tier, sent_bytes in sent.items():
            totals[tier] = totals.get(tier, 0.0) + sent_bytes
    return {
        "bytes_moved": round(sum(totals.values())),
        "bytes_by_tier": {tier: round(sent) for tier, sent in totals.items() if tier},
        "collectives": dict(sorted(collectives.items())),
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
