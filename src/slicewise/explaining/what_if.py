"""`inter.bandwidth=2x`, `batch=64`, `devices=8`, `memory=8GiB`: the plan for another machine or job."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.scaled import with_link
from slicewise.cost.prediction import Prediction
from slicewise.cost.training import Training
from slicewise.errors import PlanError, RequestError, SlicewiseError, UnknownName
from slicewise.explaining.differences import Comparison, compare_models
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning.asking import requested
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, loaded
from slicewise.search.solver import Progress
from slicewise.simulate.predicting import predicted_step
from slicewise.strategy import LAYERWISE
from slicewise.units import parse_amount, parse_count, parse_seconds, seconds

_LINK = ("bandwidth", "latency")
_JOB = ("batch", "devices", "memory", "dtype", "optimizer", "batchnorm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a plan is made for."""

    cluster: Cluster
    batch: int
    training: Training
    memory_limit_bytes: float | None

    def changed(self, text: str) -> "Job":
        """With one `NAME=VALUE`."""
        name, given, value = text.partition("=")
        name, value = name.strip(), value.strip()
        tier, dot, field = name.rpartition(".")
        if not given or not value:
            raise RequestError(f"change {text!r}: write NAME=VALUE, as in inter.bandwidth=2x, batch=64 or memory=8GiB")
        if dot:
            return self._with_link(tier, field, value)
        if name in ("batch", "devices"):
            try:
                count = parse_count(value)
            except ValueError:
                message = f"change {text!r}: {name} must be a positive whole number (got {value!r})"
                raise RequestError(message) from None
            return (
                replace(self, batch=count)
                if name == "batch"
                else replace(self, cluster=self.cluster.with_devices(count))
            )
        if name == "memory":
            try:
                return replace(self, memory_limit_bytes=parse_amount(value))
            except ValueError:
                raise RequestError(f"change {text!r}: memory must look like 8GiB or 16GB (got {value!r})") from None
        if name in _JOB:
            return replace(self, training=Training(**{**asdict(self.training), name: value}))
        raise UnknownName("change", name, [*(f"{t.name}.{f}" for t in self.cluster.tiers for f in _LINK), *_JOB])

    def _with_link(self, tier: str, field: str, value: str) -> "Job":
        tiers = {item.name: item for item in self.cluster.tiers}
        if tier not in tiers:
            raise UnknownName("tier", tier, tiers)
        if field not in _LINK:
            raise UnknownName("property of a tier", field, _LINK)
        now = tiers[tier].bytes_per_s if field == "bandwidth" else tiers[tier].latency_s
        return replace(self, cluster=with_link(self.cluster, tier, **{field: _factor(value, now, field)}))


def _factor(value: str, now: float, field: str) -> float:
    """`2x`, or an amount such as `25GB/s` or `5us`."""
    try:
        if value.endswith("x"):
            factor = float(value[:-1])
        elif field == "bandwidth":
            factor = parse_amount(value.removesuffix("/s")) / now
        else:
            factor = parse_seconds(value) / now
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        example = "2x or 25GB/s" if field == "bandwidth" else "0.5x or 5us"
        raise RequestError(f"{field} must look like {example} (got {value!r})")
    return factor


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The plan as it is, the same slicings under the changed conditions, and the best plan for these."""

    changes: tuple[str, ...]
    before: Prediction
    kept: Prediction | None
    reason: str  # why the slicings cannot be kept, where they cannot
    after: Plan
    comparison: Comparison  # of the slicings kept and the new ones; of old and new where they cannot be kept

    def __repr__(self) -> str:
        """`<WhatIf batch=256: a step takes 12.1 ms, before 20.0 ms>`"""
        return f"<WhatIf {', '.join(self.changes)}: {self._steps}>"

    def __str__(self) -> str:
        """Before and after, what the slicings that there are would do, and where there is more."""
        kept = f"With the slicings kept it takes {seconds(self.kept.iteration_s)}" if self.kept else ""
        return (
            f"{', '.join(self.changes)}: {self._steps}.\n"
            f"{kept or f'The slicings cannot be kept: {self.reason}'}.\n"
            "More: .after is the plan for it, .comparison what differs, .before and .kept by term."
        )

    @property
    def _steps(self) -> str:
        return f"a step takes {seconds(self.after.predicted.iteration_s)}, before {seconds(self.before.iteration_s)}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "changes": list(self.changes),
            "before": self.before.to_dict(),
            "kept": self.kept.to_dict() if self.kept else None,
            "reason": self.reason,
            "after": self.after.predicted.to_dict(),
            "comparison": self.comparison.to_dict(),
            "plan": self.after.to_dict(),
        }


def what_if(
    plan: Plan | str | Path,
    changes: Sequence[str],
    graph: LayerGraph | None = None,
    *,
    progress: Progress = lambda _: None,
) -> WhatIf:
    """The best plan within the bounds of the first one's request, under other conditions.

    >>> plan = sw.plan("alexnet", "p100-4x4", batch=512, fix=["features.0=N"])
    >>> answer = sw.what_if(plan, ["inter.bandwidth=2x", "batch=256"])
    >>> answer.after.batch, answer.after.request.fix
    (256, ('features.0=N',))
    """
    plan = loaded(plan)
    cluster, network = plan.hardware(), graph or plan.network()
    plan.check(plan.sized(network), cluster.mesh)
    model = model_of(plan, network, cluster)
    asked = replace(plan.asked, strategy=LAYERWISE, segments=None)
    job = Job(
        cluster=cluster,
        batch=plan.batch,
        training=asked.training,
        memory_limit_bytes=asked.memory_limit_bytes,
    )
    for change in changes:
        job = job.changed(change)
    again = replace(asked, training=job.training, memory_limit_bytes=job.memory_limit_bytes)
    after = requested(network.with_batch(job.batch), job.cluster, again, progress)
    moved = replace(plan, devices=job.cluster.devices, batch=job.batch, training=job.training)
    other = model_of(moved, network, job.cluster)
    limit = job.memory_limit_bytes or job.cluster.device.memory_bytes
    kept, reason = None, ""
    try:
        moved.check(moved.sized(network), job.cluster.mesh)
        kept = predicted_step(other, plan.slicings)
        if kept.peak_memory_bytes > limit:
            raise PlanError("it would not fit in memory")
    except SlicewiseError as error:
        kept, reason = None, str(error)
    first = (other if kept else model, plan.slicings)
    return WhatIf(
        changes=tuple(changes),
        before=predicted_step(model, plan.slicings),
        kept=kept,
        reason=reason,
        after=after,
        comparison=compare_models(first, (other, after.slicings)),
    )
