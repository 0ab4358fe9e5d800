"""What was asked of the planner. A plan carries it, so that whoever asks about the plan asks within the same bounds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from slicewise.cost.registry import model_named
from slicewise.cost.training import PLAIN, Training
from slicewise.errors import PlanError
from slicewise.formats.checking import checked
from slicewise.formats.schema import LARGEST_FLOAT
from slicewise.partition.legal import Space
from slicewise.plans.plan_file import RequestFields
from slicewise.strategy import LAYERWISE

SIMPLIFY = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to train, what may be chosen, and what counts.

    `training` and `cost` are as they were asked for; a person may have edited those of the plan since.
    """

    strategy: str = LAYERWISE
    training: Training = PLAIN
    cost: str = "analytic"
    space: Space = Space()  # noqa: RUF009 (frozen)
    objective: str = "time"
    memory_limit_bytes: float | None = None  # per device; None: what the device has
    fix: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    gap: float = 0.0  # a plan proven to be this close to the optimum will do
    simplify: float = SIMPLIFY  # of the step: what a plan with fewer changes of slicing may cost
    bucket: int | None = None  # bytes of gradients that are summed together; None: the fastest of a few sizes
    time_limit_s: float | None = None
    search: str = "elimination"
    segments: int | None = None  # micro-batches of a pipeline; None: the best

    def to_dict(self) -> dict[str, Any]:
        told = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "training"}
        limit = self.memory_limit_bytes
        return {
            **told,
            **self.training.to_dict(),
            "space": asdict(self.space),
            "fix": list(self.fix),
            "forbid": list(self.forbid),
            "memory_limit_bytes": None if limit is None else min(limit, LARGEST_FLOAT),  # JSON has no infinity
        }

    @classmethod
    def from_dict(cls, document: Any, origin: str) -> "Request":
        read = checked(RequestFields, document, origin, PlanError)
        training = {item.name: getattr(read, item.name) for item in fields(Training)}
        own = {item.name: getattr(read, item.name) for item in fields(cls) if item.name not in ("training", "space")}
        return cls(
            **own | {"fix": tuple(read.fix), "forbid": tuple(read.forbid)},
            training=Training(**training),
            space=Space(**{item.name: getattr(read.space, item.name) for item in fields(Space)}),
        )


def remembered(certificate: Mapping[str, Any], training: Training, cost: str) -> Request:
    """What can be told of the request from a plan that does not carry it: its pins and its memory limit."""
    pins = [text.partition(" ")[::2] for text in certificate.get("constraints", ())]
    return Request(
        training=training,
        cost=cost,
        space=model_named(cost).space,
        memory_limit_bytes=certificate.get("memory_limit_bytes"),
        fix=tuple(rest for word, rest in pins if word == "fix"),
        forbid=tuple(rest for word, rest in pins if word == "forbid"),
    )
