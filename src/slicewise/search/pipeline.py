"""Balanced stages: the cuts that make the slowest stage as fast as can be, exactly; the best number of micro-batches.

    best[s, j] = min over cuts i < j of max(best[s-1, i], seconds of stage s between i and j)

Seconds are forward, backward and what the stage receives: the tensor from before, its gradient from behind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.cost.model import CostModel
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.prediction import Prediction
from slicewise.cost.stage import SCHEDULES
from slicewise.errors import InfeasibleError, RequestError, UnknownName
from slicewise.factors import divisors
from slicewise.partition.choices import Floats
from slicewise.partition.stages import Cuts
from slicewise.simulate.pipeline import predicted_pipeline

_MOST_TURNS = 1 << 20  # stages x micro-batches: every turn is simulated
_CUTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChoice:
    pipeline: PipelineModel
    schedule: str
    positions: tuple[int, ...]  # of the layers that end a stage, but the last
    predicted: Prediction


def best_pipeline(model: CostModel, schedule: str | None = None, micro_batches: int | None = None) -> PipelineChoice:
    """Balanced stages, one per device, in as many micro-batches as given or predicted to be fastest.

    What fits the device's memory comes first. 1F1B, which keeps less, wherever there is a micro-batch per stage.
    """
    batch, devices = model.graph.batch, model.cluster.devices
    if schedule is not None and schedule not in SCHEDULES:
        raise UnknownName("schedule", schedule, SCHEDULES)
    if micro_batches is not None and (micro_batches < 1 or batch % micro_batches):
        raise RequestError(
            f"{batch} samples do not divide into {micro_batches} micro-batches; "
            f"choose from {', '.join(map(str, divisors(batch)))}"
        )
    most = _MOST_TURNS // devices
    if micro_batches is not None and micro_batches > most:
        raise RequestError(
            f"{micro_batches} micro-batches on {devices} stages are too many to simulate; use up to {most}"
        )
    counts = [micro_batches] if micro_batches is not None else [count for count in divisors(batch) if count <= most]
    cuts = Cuts(model.graph)
    cuts.check_stages(devices)
    found = []
    for count in counts:
        name = schedule or ("1f1b" if count >= devices else "gpipe")
        if name == "gpipe" or count >= devices:
            pipeline = PipelineModel(model, cuts, count)
            positions = balanced(pipeline)
            expected = predicted_pipeline(pipeline, positions, name)
            found.append(PipelineChoice(pipeline=pipeline, schedule=name, positions=positions, predicted=expected))
    if not found:
        raise InfeasibleError(
            f"1f1b needs a micro-batch per stage, {devices} or more (got {max(counts)}); use gpipe, or a larger batch"
        )
    memory = model.cluster.device.memory_bytes
    return min(found, key=lambda made: (made.predicted.peak_memory_bytes > memory, made.predicted.iteration_s))


def balanced(pipeline: PipelineModel) -> tuple[int, ...]:
    """The cuts that minimise the slowest stage, one stage per device."""
    stages = pipeline.stages
    cuts = pipeline.cuts.legal
    before = pipeline.cumulative_s[[cut + 1 for cut in cuts]]
    links = np.array([[pipeline.link_s(boundary, cut) for cut in cuts] for boundary in range(stages - 1)])
    returned = links * [pipeline.returns_gradient(cut) for cut in cuts]
    return tuple(cuts[chosen] for chosen in balanced_cuts(before, float(pipeline.cumulative_s[-1]), links, returned))


def balanced_cuts(before: Floats, total_s: float, links: Floats, returned: Floats) -> Sequence[int]:
    """Which cuts to take. `before`: seconds of all layers before each cut; `links[b, cut]`: what the stage behind

    boundary b waits for its input, `returned[b, cut]` the stage before it for the gradient.
    """
    boundaries, count = links.shape
    order = np.arange(count)
    best = before + returned[0]
    came_from = []
    for boundary in range(1, boundaries):
        origin, reached = np.empty(count, dtype=np.int64), np.empty(count)
        for start in range(0, count, _CUTS_AT_ONCE):  # all pairs of cuts of a deep network are too many to hold
            to, by = slice(start, start + _CUTS_AT_ONCE), slice(start + _CUTS_AT_ONCE)
            alone = before[None, to] - before[by, None] + links[boundary - 1][by, None] + returned[boundary][None, to]
            slowest = np.where(order[by, None] < order[None, to], np.maximum(best[by, None], alone), np.inf)
            origin[to] = slowest.argmin(axis=0)
            reached[to] = slowest.min(axis=0)
        came_from.append(origin)
        best = reached
    chosen = [int(np.maximum(best, total_s - before + links[-1]).argmin())]
    for origin in reversed(came_from):
        chosen.append(int(origin[chosen[-1]]))
    return chosen[::-1]
