"""Does a run behave as projected? As one call."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cluster.cluster import Cluster, load_cluster, machine_of
from slicewise.cost.training import Training
from slicewise.diagnosis.diagnosis import Diagnosis, diagnosis_of
from slicewise.diagnosis.expectation import expectation_of, expected_as
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.record import Record
from slicewise.errors import InfeasibleError, PlanError, RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import check_trust, graph_of
from slicewise.planning.asking import PER_DEVICE
from slicewise.planning.asking import plan as plan_of
from slicewise.plans.plan import Plan, loaded
from slicewise.search.solver import Progress
from slicewise.strategies.engines import ParadlEngine, Split, engine_named
from slicewise.strategies.projecting import oracle_of
from slicewise.strategies.projection import Projection
from slicewise.strategies.registry import check_split, check_strategies
from slicewise.strategy import LAYERWISE, PLANNED, SERIAL, STRATEGIES

if TYPE_CHECKING:
    from torch import nn

    from slicewise.graph.capture import Sample


def diagnose(
    plan: "Plan | LayerGraph | nn.Module | str | Path",
    measured: str | Path | Sequence[str | Path],
    *,
    strategy: str | None = None,
    engine: str | None = None,
    split: Split | None = None,
    cluster: str | Path | Cluster | None = None,
    devices: int | None = None,
    batch: int | None = None,
    software: str | None = None,
    dtype: str | None = None,
    optimizer: str | None = None,
    batchnorm: str | None = None,
    segments: int | None = None,
    input: tuple[int, ...] | None = None,
    sample: "Sample | None" = None,
    trust: bool = False,
    progress: Progress = lambda _: None,
) -> Diagnosis:
    """`measured` are files of the plan's run: iteration times as CSV, the JSON or timeline of `slicewise run`, or
    torch.profiler traces.

    With a `strategy`, `plan` is a model that ran so, given as for `plan` with `cluster` and all that follows. It is
    projected by `engine`: "slicewise", a plan; or "paradl", closed forms, as frameworks run it, which is the default
    with a `split=(p1, p2)` or where the cluster's `[tuning]` describes a framework. `batch` is the plan's by default.

    >>> plan = sw.plan("lenet5", "p100-4x4", devices=2, batch=64, strategy="data")
    >>> rows = [f"{step},{plan.predicted['iteration_s']}" for step in range(50)]
    >>> _ = pathlib.Path("steps.csv").write_text("\\n".join(["step,iteration_s", *rows]))
    >>> sw.diagnose(plan, "steps.csv").as_projected
    True
    """
    files = [measured] if isinstance(measured, str | Path) else measured
    ran = Ran(
        what=plan,
        strategy=strategy,
        engine=engine,
        split=split,
        cluster=cluster,
        devices=devices,
        batch=batch,
        software=software,
        dtype=dtype,
        optimizer=optimizer,
        batchnorm=batchnorm,
        segments=segments,
        input=input,
        sample=sample,
        trust=trust,
    )
    return answered(ran, read_files([Path(file) for file in files]), progress)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What is said to have run: a plan, or a model and how."""

    what: "Plan | LayerGraph | nn.Module | str | Path"
    strategy: str | None = None
    engine: str | None = None
    split: Split | None = None
    batch: int | None = None
    cluster: str | Path | Cluster | None = None
    devices: int | None = None
    software: str | None = None
    dtype: str | None = None
    optimizer: str | None = None
    batchnorm: str | None = None
    segments: int | None = None
    input: tuple[int, ...] | None = None
    sample: "Sample | None" = None
    trust: bool = False

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the options that were given."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def answered(ran: Ran, record: Record, progress: Progress = lambda _: None) -> "tuple[Asked, Diagnosis]":
    """By the plan's own prediction, or by a strategy's."""
    ran = _on_one(ran) if ran.strategy == SERIAL.name else ran
    if _as_framework(ran):
        return _by_closed_form(ran, record)
    plan, graph = _made(ran, progress) if ran.strategy else _read(ran)
    return asked_of(plan), judged(plan, record, graph)


def _on_one(ran: Ran) -> Ran:
    """Everything on one device."""
    if ran.devices not in (None, 1):
        raise RequestError(f'`strategy="{SERIAL.name}"` is one device (got {ran.devices}); leave out `devices`')
    return replace(ran, devices=1)


def _as_framework(ran: Ran) -> bool:
    """Whether the run is judged by closed forms, as a framework runs the strategy; not by a plan."""
    closed = ParadlEngine.name
    if not ran.strategy or ran.strategy == LAYERWISE:
        if given := [f"`{name}`" for name in ran.given("engine", "split")]:
            raise RequestError(f"{' and '.join(given)}: give a model and `strategy`, one of {', '.join(STRATEGIES)}")
        return False
    if ran.engine:
        engine_named(ran.engine)
    if ran.split and ran.engine not in (None, closed):
        raise RequestError(f'`split`: engine {ran.engine} plans its own; give `engine="{closed}"`')
    check_split(ran.split, [ran.strategy])
    if ran.engine:
        return ran.engine == closed
    cluster = ran.cluster if isinstance(ran.cluster, Cluster) else load_cluster(ran.cluster or "local")
    return ran.split is not None or cluster.tuning.describes_framework


def _by_closed_form(ran: Ran, record: Record) -> "tuple[Asked, Diagnosis]":
    assert ran.strategy is not None
    (strategy,) = check_strategies([ran.strategy])
    if ran.segments is not None:
        raise RequestError(f"`segments={ran.segments}`: closed forms choose their own; leave it out")
    cluster, graph = machine_of(ran.cluster or "local", software=ran.software), _network(ran)
    devices = ran.devices or cluster.devices
    batch = _batch(ran, devices) or graph.batch
    training = Training(**{"batchnorm": "local"} | ran.given("dtype", "optimizer", "batchnorm"))
    oracle = oracle_of(graph, cluster, batch=batch, training=training, split=ran.split)
    asked = Asked(model=graph.name, cluster=cluster.name, devices=devices, batch=batch)
    return asked, judged_as(oracle.project(strategy, devices), asked, record)


def _made(ran: Ran, progress: Progress) -> tuple[Plan, LayerGraph]:
    """For the model and the strategy that were given."""
    assert ran.strategy is not None
    cluster, graph = machine_of(ran.cluster or "local", ran.devices, ran.software), _network(ran)
    asked = ran.given("dtype", "optimizer", "batchnorm", "segments")
    batch = _batch(ran, cluster.devices)
    strategy = "data" if ran.strategy == SERIAL.name else ran.strategy  # on one device they are the same plan
    return plan_of(graph, cluster, batch=batch, strategy=strategy, progress=progress, **asked), graph


def _read(ran: Ran) -> tuple[Plan, LayerGraph]:
    """Of the plan that was given, for the batch that was given."""
    names = ("cluster", "devices", "input", "dtype", "optimizer", "batchnorm", "segments", "software", "sample")
    for name in ran.given(*names):
        raise RequestError(f"`{name}` is decided by the plan; give a model and `strategy`, or plan again")
    if not isinstance(ran.what, Plan | str | Path):
        raise RequestError(f'a model ran somehow; say how: `strategy="{LAYERWISE}"`, {PLANNED[0]}, ...')
    if not isinstance(ran.what, Plan):
        check_trust(str(ran.what), ran.trust)
        if not Path(ran.what).exists() and Path(ran.what).suffix != ".json":
            how = f'`strategy="{LAYERWISE}"`, {PLANNED[0]}, ...'
            raise RequestError(f"{ran.what}: no such plan; of a model, say how it ran: {how}")
    plan = loaded(ran.what)
    return replace(plan, batch=ran.batch) if ran.batch else plan, plan.network()


def _network(ran: Ran) -> LayerGraph:
    if isinstance(ran.what, Plan):
        raise RequestError("a plan says how it ran; leave out `strategy`, or give a model")
    return graph_of(ran.what, ran.input, sample=ran.sample, trust=ran.trust)


def _batch(ran: Ran, devices: int) -> int | None:
    """As `plan` has it: None for what a graph or a sample says itself."""
    return ran.batch or (PER_DEVICE * devices if isinstance(ran.what, str | Path) else None)


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
