"""Does a run behave as projected? As one call."""

import os
from collections.abc import Sequence
from pathlib import Path

from slicewise.diagnosis.diagnosis import Diagnosis, diagnosis_of
from slicewise.diagnosis.expectation import expectation_of
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.record import Record
from slicewise.errors import PlanError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan, loaded


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


def judged(plan: Plan, record: Record, graph: LayerGraph) -> Diagnosis:
    check_record(plan, record)
    return diagnosis_of(record, expectation_of(plan, graph, plan.hardware()))


def check_record(plan: Plan, record: Record) -> None:
    """A run of another model, batch or number of ranks would be judged by a wrong measure."""
    files = ", ".join(record.files)
    for name in ("model", "devices", "batch"):
        planned = getattr(plan, name)
        said = record.facts.get(name, planned)
        same_file = name == "model" and os.path.abspath(said) == os.path.abspath(planned)
        if said != planned and not same_file:
            raise PlanError(f"{files}: measured with {name} {said}, the plan has {planned}; give the plan that ran")
    beyond = [rank for rank in record.ranks or () if rank >= plan.devices]
    if beyond:
        raise PlanError(
            f"{files}: has rank {beyond[0]}, the plan is for {plan.devices} devices; give the plan that ran"
        )
