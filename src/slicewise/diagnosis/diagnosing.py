"""Does a run behave as projected? As one call."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slicewise.diagnosis.diagnosis import Diagnosis, diagnosis_of
from slicewise.diagnosis.expectation import expectation_of, expected_as
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.record import Record
from slicewise.errors import InfeasibleError, PlanError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan, loaded
from slicewise.strategies.projection import Projection


def diagnose(plan: Plan | str | Path, measured: str | Path | Sequence[str | Path]) -> Diagnosis:
    """`measured` are files of the plan's run: iteration times as CSV, the JSON or timeline of `slicewise run`, or
    torch.profiler traces.

    >>> plan = sw.plan("lenet5", "p100-4x4", devices=2, batch=64, strategy="data")
    >>> rows = [f"{step},{plan.predicted['iteration_s']}" for step in range(50)]
    >>> _ = pathlib.Path("steps.csv").write_text("\\n".join(["step,iteration_s", *rows]))
    >>> sw.diagnose(plan, "steps.csv").as_projected
    True
    """
    files = [measured] if isinstance(measured, str | Path) else measured
    plan = loaded(plan)
    return judged(plan, read_files([Path(file) for file in files]), plan.network())


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is said to have run."""

    model: str
    cluster: str
    devices: int
    batch: int


def judged(plan: Plan, record: Record, graph: LayerGraph) -> Diagnosis:
    """By the plan's own prediction."""
    check_record(asked_of(plan), record)
    return diagnosis_of(record, expectation_of(plan, graph, plan.hardware()))


def judged_as(projection: Projection, asked: Asked, record: Record) -> Diagnosis:
    """By a strategy's closed form, with what the cluster's file says of the framework."""
    if projection.terms is None:
        raise InfeasibleError(f"{projection.strategy} on {projection.devices} devices: {projection.reason}")
    check_record(asked, record)
    return diagnosis_of(record, expected_as(projection))


def asked_of(plan: Plan) -> Asked:
    return Asked(model=plan.model, cluster=plan.cluster, devices=plan.devices, batch=plan.batch)


def check_record(asked: Asked, record: Record) -> None:
    """A run of another model, batch or number of ranks would be judged by a wrong measure."""
    files = ", ".join(record.files)
    for name in ("model", "devices", "batch"):
        planned = getattr(asked, name)
        said = record.facts.get(name, planned)
        same_file = name == "model" and os.path.abspath(said) == os.path.abspath(planned)
        if said != planned and not same_file:
            raise PlanError(f"{files}: measured with {name} {said}, the plan has {planned}; give the plan that ran")
    beyond = [rank for rank in record.ranks or () if rank >= asked.devices]
    if beyond:
        raise PlanError(
            f"{files}: has rank {beyond[0]}, the plan is for {asked.devices} devices; give the plan that ran"
        )
