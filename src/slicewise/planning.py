"""Graph and cluster in, plan out: the planner as one call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewise.cluster.cluster import MOST_DEVICES, Cluster, load_cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.prediction import Prediction
from slicewise.cost.recost import recost
from slicewise.cost.registry import model_named
from slicewise.cost.stage import StageCost
from slicewise.cost.training import PLAIN, Training
from slicewise.errors import InfeasibleError, MemoryLimitError, PlanError, RequestError, SlicewiseError, UnknownName
from slicewise.graph.chunks import with_exact_statistics
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.partition.stages import Cuts
from slicewise.plans.plan import Plan, Stages
from slicewise.search.baselines import BASELINES
from slicewise.search.candidates import candidates
from slicewise.search.memory import frontier, smallest_peak
from slicewise.search.pins import Pins
from slicewise.search.pipeline import best_pipeline
from slicewise.search.planner import baseline_slicings, best_slicings
from slicewise.search.registry import search_named
from slicewise.search.rescoring import rescored
from slicewise.search.solver import Progress, Settings
from slicewise.simulate.pipeline import predicted_pipeline
from slicewise.simulate.predicting import predicted_step
from slicewise.strategy import LAYERWISE, PLANNED, STRATEGIES, Form
from slicewise.units import ROUNDING, amount

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
    """The slicing of every layer that makes one training step fastest, with proof and baselines.

    The search minimises `additive_s`; its optimum is then simulated beside the baselines (search/rescoring.py).
    The plan fits the device's memory, or `memory_limit_bytes`; `fix=["features.*=N"]` and `forbid=["*=C"]` say what is
    decided already.

    >>> plan(load_graph("alexnet"), "p100-4x4", batch=512).predicted["samples_per_s"]
    """
    search_named(search)
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES)
    if space.reductions and not model_named(cost).space.reductions:
        raise RequestError(f"--cost {cost} has no price for sliced input channels; use it with --space {cost}")
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
    proof = certificate.to_dict()
    if objective == "time" and model.overlaps:
        progress("simulating the best plan and the baselines")
        again = rescored(model, slicings, found, lambda plan: _allowed(model, plan, pins, limit))
        slicings = dict(again.slicings)
        proof["rescored"] = {
            "returned": again.origin,
            "candidates": again.candidates,
            "simulated_s": again.simulated_s,
            "optimum_simulated_s": again.optimum_s,
        }
    baselines: dict[str, dict[str, Any]] = {}
    for name, chosen in found.items():
        expected = predicted_step(model, chosen)
        peak = expected.peak_memory_bytes
        fits = peak <= limit
        reason = None if fits else f"needs {amount(peak, 'B')} per device, the limit is {amount(limit, 'B')}"
        baselines[name] = {**expected, "feasible": fits, "reason": reason}
    baselines |= {name: {"feasible": False, "reason": reason} for name, reason in reasons.items()}
    made = describe(model, slicings, certificate=proof, baselines=baselines)
    if model.recosted:
        _price_again(model, slicings, made.predicted.additive_s)
    return made


def _allowed(model: CostModel, slicings: Mapping[str, Slicing], pins: Pins, limit: float) -> bool:
    """Whether every pinned layer is as it must be, and the plan fits."""
    mesh = model.cluster.mesh
    pinned = (pins.allows(layer, Choices.of([slicings[layer.name]], mesh)).all() for layer in model.graph)
    return all(pinned) and sum(model.plan_costs(slicings).values(), Cost()).peak_memory_bytes <= limit


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
    micro_batches: int | None = None,
) -> Plan:
    """The plan of a strategy that needs no search: data, filter, spatial, owt, ... or pipeline."""
    if strategy not in PLANNED:
        raise UnknownName("strategy", strategy, [*PLANNED, LAYERWISE])
    if STRATEGIES[strategy].form is Form.STAGES:
        if not model_named(cost).pipelines:
            raise RequestError(f"--cost {cost} has no price for a pipeline; use analytic")
        return pipeline_plan(graph, cluster, batch=batch, micro_batches=micro_batches, training=training)
    if micro_batches is not None:
        raise RequestError(f"--segments are a pipeline's micro-batches; --strategy {strategy} has none")
    model = _model(graph, cluster, batch, None, cost, training)
    return describe(model, BASELINES[strategy](model))


def pipeline_plan(
    graph: LayerGraph,
    cluster: Cluster,
    *,
    batch: int,
    schedule: str | None = None,
    micro_batches: int | None = None,
    training: Training = PLAIN,
) -> Plan:
    """One stage of the network per device, balanced; micro-batches and schedule as given, or as predicted to be best.

    >>> pipeline_plan(load_graph("vgg16"), load_cluster("p100-4x4"), batch=512).pipeline.schedule
    '1f1b'
    """
    cluster.device.flops(training.dtype)  # refuse a dtype that the device does not have
    model = AnalyticModel(graph.with_batch(batch), cluster, training)
    made = best_pipeline(model, schedule, micro_batches)
    stages = made.pipeline.stage_costs(made.positions)
    layers = model.graph.layers
    starts, stops = (0, *(cut + 1 for cut in made.positions)), (*(cut + 1 for cut in made.positions), len(layers))
    return _plan(
        model,
        slicings={layer.name: (None,) * len(model.cluster.mesh.axes) for layer in layers},
        costs=_layer_costs(made.pipeline, stages, made.positions),
        predicted=made.predicted,
        pipeline=Stages(
            schedule=made.schedule,
            micro_batches=made.pipeline.micro_batches,
            stages=tuple(
                {
                    "first": layers[start].name,
                    "last": layers[stop - 1].name,
                    "layers": stop - start,
                    "forward_s": stage.forward_s,
                    "backward_s": stage.backward_s,
                    "transfer_s": stage.seconds - stage.forward_s - stage.backward_s,
                }
                for start, stop, stage in zip(starts, stops, stages, strict=True)
            ),
        ),
    )


def _layer_costs(
    pipeline: PipelineModel, stages: Sequence[StageCost], positions: Sequence[int]
) -> dict[str, dict[str, float | int]]:
    """Of a whole step; what goes over a cut is the layer's before it."""
    count = pipeline.micro_batches
    costs = {}
    for position, (layer, cost) in enumerate(zip(pipeline.model.graph, pipeline.layers, strict=True)):
        moved = Cost()
        if position in positions:
            number = positions.index(position)
            before, behind = stages[number], stages[number + 1]
            moved = Cost(
                transfer_s=count * (behind.output_s + (before.gradient_s or 0.0)),
                transfer_bytes=count * (before.sent_bytes + before.returned_bytes),
            )
        whole = replace(cost, forward_s=count * cost.forward_s, backward_s=count * cost.backward_s)
        costs[layer.name] = (whole + moved).to_dict()
    return costs


def predicted_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> Prediction:
    """The predicted step of a plan as it is now, edited or not."""
    if plan.pipeline is None:
        return predicted_step(model_of(plan, graph, cluster), plan.slicings)
    sized = plan.sized(graph)
    positions = plan.pipeline.check(sized, plan.devices)
    model = model_named(plan.cost_model)(sized, cluster, plan.training)
    pipeline = PipelineModel(model, Cuts(sized), plan.pipeline.micro_batches)
    return predicted_pipeline(pipeline, positions, plan.pipeline.schedule)


def model_of(plan: Plan, graph: LayerGraph, cluster: Cluster) -> CostModel:
    """The cost model that a plan was made with, for costing its slicings again."""
    if plan.pipeline is not None:
        raise PlanError(
            "a pipeline plan slices no layer, so there are no slicings to explain; its stages are in the file"
        )
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
    return model_named(cost)(training.normalised(sized, machine.devices), machine, training)


def _remedies(model: CostModel, limit: float, space: Space, pins: Pins) -> str:
    """What would fit, each change by itself."""
    graph, cluster, training = model.graph, model.cluster, model.training
    told = []
    changes: dict[str, list[tuple[str, int, int, Training]]] = {
        "recompute": [("--recompute", graph.batch, cluster.devices, replace(training, recompute=True))],
        "devices": [
            (f"--devices {devices}", graph.batch, devices, training)
            for devices in (cluster.devices << power for power in (1, 2, 3, 4))
            if devices <= MOST_DEVICES
        ],
        "batch": [
            (f"--batch {batch}", batch, cluster.devices, training)
            for batch in (graph.batch >> power for power in (1, 2, 3, 4))
        ],
    }
    for tried in changes.values():
        for option, batch, devices, changed in tried:
            try:
                machine, sized = cluster.with_devices(devices), graph.with_batch(batch)
                other = type(model)(changed.normalised(sized, devices), machine, changed)
            except RequestError:  # no samples left, or too few for so many devices
                continue
            _, peak = smallest_peak(candidates(other, space, {}, pins))
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
    return _plan(
        model,
        slicings={layer.name: slicings[layer.name] for layer in model.graph},
        costs={name: cost.to_dict() for name, cost in model.plan_costs(slicings).items()},
        predicted=predicted_step(model, slicings),
        baselines=baselines or {},
        certificate=certificate or {},
    )


def _plan(model: CostModel, **fields: Any) -> Plan:
    """A plan for what the model prices: network, machine, batch and training."""
    graph, cluster = model.graph, model.cluster
    return Plan(
        model=graph.name,
        cluster=cluster.name,
        devices=cluster.devices,
        batch=graph.batch,
        training=model.training,
        cost_model=model.name,
        input_shape=graph.inputs[0].shape[1:],
        axes={axis.name: axis.size for axis in cluster.mesh.axes},
        kinds={layer.name: layer.kind.value for layer in graph},
        graph=with_exact_statistics(graph),
        machine=cluster,
        **fields,
    )
