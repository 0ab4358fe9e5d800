"""Run a plan for a few steps and report what really happened, beside what was predicted."""

import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans import Plan
from slicewise.runtime.batches import Batch, loss_scale, mean_loss, rank_loss
from slicewise.runtime.clock import Clock, Span, running
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.devices import rank_device, synchronize
from slicewise.runtime.parallel import parallelize

Step = Callable[[], float]
LEARNING_RATE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Something that trains the same network on the same samples."""

    name: str
    forward_backward: Step
    update: Callable[[], None]
    loss_scale: float  # the sum of all ranks' losses times this is the network's


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    total_s: float
    update_s: float
    spans: tuple[Span, ...]
    loss: float


def sliced_contender(model: nn.Module, graph: LayerGraph, plan: Plan, samples: Batch) -> Contender:
    net = parallelize(copy.deepcopy(model), plan, graph=graph)
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)

    def forward_backward() -> float:
        optimizer.zero_grad()
        loss = rank_loss(net, samples)
        loss.backward()
        return loss.item()

    return Contender(
        name="slicewise", forward_backward=forward_backward, update=optimizer.step, loss_scale=loss_scale(net)
    )


def ddp_contender(model: nn.Module, samples: Batch) -> Contender:
    net = DistributedDataParallel(copy.deepcopy(model))
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    mine = samples.part(dist.get_rank(), dist.get_world_size())

    def forward_backward() -> float:
        optimizer.zero_grad()
        loss = mean_loss(net(mine.inputs), mine.targets)
        loss.backward()
        return loss.item()

    return Contender(
        name="ddp",
        forward_backward=forward_backward,
        update=optimizer.step,
        loss_scale=1 / dist.get_world_size(),
    )


def timed_step(contender: Contender) -> StepTime:
    """One step, from a common start; the clock sees where its communication goes."""
    synchronize()
    dist.barrier()
    clock = Clock()
    start_s = time.perf_counter()
    with running(clock):
        loss = contender.forward_backward()
    synchronize()
    update_start_s = time.perf_counter()
    contender.update()
    synchronize()
    stop_s = time.perf_counter()
    return StepTime(total_s=stop_s - start_s, update_s=stop_s - update_start_s, spans=tuple(clock.spans), loss=loss)


def alternate(contenders: list[Contender], iterations: int, warm_up: int) -> dict[str, list[StepTime]]:
    """Contenders take turns, step by step, so that a drifting machine treats them alike."""
    for _ in range(warm_up):
        for contender in contenders:
            timed_step(contender)
    steps: dict[str, list[StepTime]] = {contender.name: [] for contender in contenders}
    for _ in range(iterations):
        for contender in contenders:
            steps[contender.name].append(timed_step(contender))
    return steps


def whole_steps(contender: Contender, steps: list[StepTime]) -> dict[str, Any]:
    """Medians of one contender; the rank that takes longest sets the pace."""
    totals = _slowest([step.total_s for step in steps])
    return {
        "iteration_s": {
            "median": statistics.median(totals),
            "p10": float(np.percentile(totals, 10)),
            "p90": float(np.percentile(totals, 90)),
        },
        "update_s": statistics.median(_slowest([step.update_s for step in steps])),
        "losses": [contender.loss_scale * loss for loss in _sum_over_ranks([step.loss for step in steps])],
    }


def summary(contender: Contender, steps: list[StepTime]) -> dict[str, Any]:
    """The steps, and where their time goes: what is not communication or update is compute."""
    result = whole_steps(contender, steps)
    by_term = [_moving(step.spans) for step in steps]
    terms = {term: statistics.median(step[term] for step in by_term) for term in MOVING}
    communication_s = sum(terms.values())
    return {
        **result,
        "compute_s": result["iteration_s"]["median"] - communication_s - result["update_s"],
        "communication_s": communication_s,
        **{f"{term}_s": seconds for term, seconds in terms.items()},
    }


MOVING = ("transfer", "halo", "reduce", "sync")


def _moving(spans: tuple[Span, ...]) -> dict[str, float]:
    """Seconds of communication by term, without waiting: a collective takes as long as for the rank that came last.

    Every rank has the same spans, in the same order. What the others wait counts as the slower rank's compute.
    """
    shortest = torch.tensor([span.stop_s - span.start_s for span in spans], dtype=torch.float64, device=rank_device())
    dist.all_reduce(shortest, dist.ReduceOp.MIN)
    totals = dict.fromkeys(MOVING, 0.0)
    for span, seconds in zip(spans, shortest.tolist(), strict=True):
        totals[span.term] += seconds
    return totals


def count_step(contender: Contender) -> dict[str, Any]:
    """One more step, every collective counted; bytes are what all ranks send."""
    with CountCollectives() as counted:
        contender.forward_backward()
    total = torch.tensor([counted.sent_bytes], dtype=torch.float64, device=rank_device())
    dist.all_reduce(total)
    return {"bytes_moved": round(total.item()), "collectives": dict(sorted(counted.collectives.items()))}


def paired_ratio(slower: list[StepTime], faster: list[StepTime], draws: int = 2000) -> dict[str, float]:
    """Median of the step-by-step time ratios, with a bootstrap interval of 95 %."""
    ratios = np.array(_slowest([s.total_s for s in slower])) / np.array(_slowest([f.total_s for f in faster]))
    random = np.random.default_rng(0)
    medians = np.median(random.choice(ratios, (draws, len(ratios))), axis=1)
    return {
        "median": float(np.median(ratios)),
        "low": float(np.percentile(medians, 2.5)),
        "high": float(np.percentile(medians, 97.5)),
        "pairs": len(ratios),
    }


def _slowest(seconds: list[float]) -> list[float]:
    tensor = torch.tensor(seconds, dtype=torch.float64, device=rank_device())
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return [float(value) for value in tensor]


def _sum_over_ranks(values: list[float]) -> list[float]:
    tensor = torch.tensor(values, dtype=torch.float64, device=rank_device())
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]
