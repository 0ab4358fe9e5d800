"""Graph and cluster in, plan out: the planner as one call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.registry import model_named
from slicewise.cost.training import PLAIN, Training
from slicewise.errors import InfeasibleError, MemoryLimitError, RequestError, SlicewiseError, UnknownName
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.plans import Plan
from slicewise.search.baselines import BASELINES
from slicewise.search.candidates import candidates
from slicewise.search.memory import frontier, smallest_peak
from slicewise.search.pins import Pins
from slicewise.search.planner import baseline_slicings, best_slicings
from slicewise.search.problem import ROUNDING
from slicewise.search.registry import search_named
from slicewise.search.solver import Progress, Settings
from slicewise.simulate.events import simulate
from slicewise.units import amount
from slicewise.validate.recost import recost

OBJECTIVES = ("time", "memory")


def plan(
    graph: LayerGraph,
    cluster: str | Cluster,
    *,
    batch: int | None = None,
    devices: int | None = None,
    space: Space = Space(),  # noqa: B008 (frozen)
    search: str = "elimination",
    cost: str = "analytic",
    training: Training = PLAIN,
    objective: str = "time",
    memory_limit_bytes: float | None = None,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    time_limit_s: float = float("inf"),
    gap: float = 0.0,
    progress: Progress = lambda _: None,
) -> Plan:
    """The slicing of every layer that makes one training step cheapest, with proof and baselines.

    The plan fits the device's memory, or `memory_limit_bytes`; `fix=["features.*=N"]` and `forbid=["*=C"]` say what is
    decided already.

    >>> plan(load_graph("alexnet"), "p100-4x4", batch=512).predicted["samples_per_s"]
    """
    search_named(search)
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES)
    if cost == "optcnn" and space.reductions:
        raise RequestError("--cost optcnn has no price for sliced input channels; use it with --space optcnn")
    model = _model(graph, cluster, batch, devices, cost, training)
    pins = Pins.parse(fix, forbid)
    pins.check([layer.name for layer in model.graph])
    found, reasons = baseline_slicings(model)
    limit = model.cluster.device.memory_bytes if memory_limit_bytes is None else memory_limit_bytes
    settings = Settings(search=search, time_limit_s=time_limit_s, gap=gap, progress=progress)
    try:
        slicings, certificate = best_slicings(
            model, space, found, settings=settings, pins=pins, memory_limit_bytes=limit, objective=objective
        )
    except MemoryLimitError as error:
        raise InfeasibleError(f"{error}{_remedies(model, limit, space, pins)}") from error
    baselines: dict[str, dict[str, Any]] = {}
    for name, chosen in found.items():
        expected = predicted(model, chosen)
        peak = expected["peak_memory_bytes"]
        fits = peak <= limit
        reason = None if fits else f"needs {amount(peak, 'B')} per device, the limit is {amount(limit, 'B')}"
        baselines[name] = {**expected, "feasible": fits, "reason": reason}
    baselines |= {name: {"feasible": False, "reason": reason} for name, reason in reasons.items()}
    made = describe(model, slicings, certificate=certificate.to_dict(), baselines=baselines)
    if cost == "analytic":
        _price_again(model, slicings, made.predicted["additive_s"])
    return made


def _price_again(model: CostModel, slicings: Mapping[str, Slicing], additive_s: float) -> None:
    """By an evaluator that shares no code with the tables: where the two differ, a plan is not to be trusted."""
    again_s = recost(model.graph, model.cluster, slicings, model.training)
    if abs(again_s - additive_s) > ROUNDING * additive_s:
        raise SlicewiseError(
            f"the plan costs {additive_s!r} s by the tables and {again_s!r} s by the independent evaluator; please "
            f"report this with the command and the model"
        )


def pareto(
    graph: LayerGraph,
    cluster: str | Cluster,
    *,
    batch: int | None = None,
    devices: int | None = None,
    space: Space = Space(),  # noqa: B008 (frozen)
    training: Training = PLAIN,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> list[Plan]:
    """Plans from the fastest to the one that keeps the fewest bytes."""
    model = _model(graph, cluster, batch, devices, "analytic", training)
    pins = Pins.parse(fix, forbid)
    pins.check([layer.name for layer in model.graph])
    found, _ = baseline_slicings(model)
    pool = candidates(model, space, found, pins)
    plans = [rows for chosen in found.values() if (rows := pool.rows(chosen)) is not None]
    points = frontier(pool, plans, Settings(progress=progress))
    return [describe(model, pool.slicings(point.choice)) for point in points]


def baseline_plan(
    graph: LayerGraph,
    cluster: Cluster,
    strategy: str,
    *,
    batch: int,
    training: Training = PLAIN,
    cost: str = "analytic",
) -> Plan:
    """The plan of a strategy that needs no search: data, filter, spatial or owt."""
    if strategy not in BASELINES:
        raise UnknownName("strategy", strategy, [*BASELINES, "layerwise"])
    model = _model(graph, cluster, batch, None, cost, training)
    return describe(model, BASELINES[strategy](model))


def model_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> CostModel:
    """The cost model that a plan was made with, for costing it again."""
    return model_named(plan.cost_model)(plan.sized(graph), cluster, plan.training)


def _model(
    graph: LayerGraph,
    cluster: str | Cluster,
    batch: int | None,
    devices: int | None,
    cost: str,
    training: Training,
) -> CostModel:
    machine = load_cluster(cluster) if isinstance(cluster, str) else cluster
    machine = machine.with_devices(devices) if devices is not None else machine
    machine.device.flops(training.dtype)  # refuse a dtype that the device does not have
    sized = graph.with_batch(batch) if batch is not None else graph
    if training.batchnorm == "local":
        sized = sized.with_local_statistics()
    return model_named(cost)(sized, machine, training)


def _remedies(model: CostModel, limit: float, space: Space, pins: Pins) -> str:
    """What would fit, each change by itself."""
    graph, cluster, training = model.graph, model.cluster, model.training
    told = []
    changes: dict[str, list[tuple[str, CostModel]]] = {
        "recompute": [("--recompute", CostModel(graph, cluster, replace(training, recompute=True)))],
        "devices": [
            (f"--devices {devices}", CostModel(graph, cluster.with_devices(devices), training))
            for devices in (cluster.devices << power for power in (1, 2, 3, 4))
        ],
        "batch": [
            (f"--batch {batch}", CostModel(graph.with_batch(batch), cluster, training))
            for batch in (graph.batch >> power for power in (1, 2, 3, 4))
            if batch
        ],
    }
    for tried in changes.values():
        for option, changed in tried:
            _, peak = smallest_peak(candidates(changed, space, {}, pins))
            if peak <= limit:
                told.append(f"{option} ({amount(peak, 'B')})")
                break
    return (
        f"; would fit: {', '.join(told)}" if told else "; nor with --recompute, 16 times the devices or 1/16 the batch"
    )


def describe(
    model: CostModel,
    slicings: Mapping[str, Slicing],
    *,
    certificate: Mapping[str, object] | None = None,
    baselines: Mapping[str, Mapping[str, object]] | None = None,
) -> Plan:
    """A plan file's content for given slicings."""
    mesh = model.cluster.mesh
    return Plan(
        model=model.graph.name,
        cluster=model.cluster.name,
        devices=model.cluster.devices,
        batch=model.graph.batch,
        training=model.training,
        cost_model=model.name,
        input_shape=model.graph.inputs[0].shape[1:],
        axes={axis.name: axis.size for axis in mesh.axes},
        slicings={layer.name: slicings[layer.name] for layer in model.graph},
        kinds={layer.name: layer.kind.value for layer in model.graph},
        costs={name: cost.to_dict() for name, cost in model.plan_costs(slicings).items()},
        predicted=predicted(model, slicings),
        baselines=baselines or {},
        certificate=certificate or {},
    )


def predicted(model: CostModel, slicings: Mapping[str, Slicing]) -> dict[str, Any]:
    """The predicted step, under the names of the JSON."""
    total = sum(model.plan_costs(slicings).values(), Cost())
    timeline = simulate(model, slicings)
    # the paper's model knows no overlap
    simulated_s = timeline.seconds if model.name == "analytic" else total.total_s
    return {
        "iteration_s": simulated_s,
        "additive_s": total.total_s,
        "simulated_s": simulated_s,
        "compute_s": total.compute_s,
        "transfer_s": total.transfer_s,
        "halo_s": total.halo_s,
        "reduce_s": total.reduce_s,
        "sync_s": total.sync_s,
        "exposed_sync_s": timeline.exposed_sync_s if model.name == "analytic" else total.sync_s,
        "update_s": total.update_s,
        "samples_per_s": model.graph.batch / simulated_s,
        "bytes_moved": total.bytes_moved,
        "peak_memory_bytes": total.peak_memory_bytes,
        "origin": model.cluster.origin,
    }
