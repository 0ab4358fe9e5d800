"""The front door: keywords, as the commands have them, become a request, and the request a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cluster.cluster import Cluster, machine_of
from slicewise.cost.measured import MeasuredModel
from slicewise.cost.pace import Step, paced
from slicewise.cost.registry import model_named, usual_model
from slicewise.cost.training import Training
from slicewise.errors import RequestError, UnknownName
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import graph_of
from slicewise.partition.legal import SPACES, Space
from slicewise.planning.fastest import fastest_plan
from slicewise.planning.frontier import pareto_plans
from slicewise.planning.layer_table import read_layer_times
from slicewise.planning.named import baseline_plan, check_strategy
from slicewise.planning.timing import timed_plan
from slicewise.plans.plan import Plan
from slicewise.plans.request import SIMPLIFY, Request
from slicewise.search.registry import EXHAUSTIVE
from slicewise.search.solver import Progress
from slicewise.strategy import LAYERWISE, STRATEGIES, Form
from slicewise.units import bytes_of, seconds_of

if TYPE_CHECKING:
    from torch import nn

    from slicewise.graph.capture import Sample

PER_DEVICE = 32  # samples, where a model is given by name and no batch is
MOST_BUCKET_BYTES = 1 << 40

# what only a search uses, and the value that asks for nothing
SEARCHED: Mapping[str, Any] = {
    "space": "full",
    "dims_per_layer": None,
    "dims_per_tier": None,
    "memory_limit": None,
    "objective": "time",
    "fix": (),
    "forbid": (),
    "time_limit": None,
    "gap": 0.0,
    "simplify": SIMPLIFY,
    "bucket": None,
    "search": "elimination",
}


def plan(
    model: "LayerGraph | nn.Module | str | Path",
    cluster: str | Path | Cluster = "local",
    *,
    batch: int | None = None,
    devices: int | None = None,
    software: str | None = None,
    strategy: str = LAYERWISE,
    dtype: str = "fp32",
    optimizer: str = "sgd",
    recompute: bool = False,
    batchnorm: str = "exact",
    memory_limit: float | str | None = None,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    objective: str = "time",
    gap: float = 0.0,
    simplify: float = SIMPLIFY,
    bucket: float | str | None = None,
    time_limit: float | str | None = None,
    cost: str | None = None,
    space: str | Space = "full",
    dims_per_layer: int | None = None,
    dims_per_tier: int | None = None,
    search: str = "elimination",
    segments: int | None = None,
    input: tuple[int, ...] | None = None,
    sample: "Sample | None" = None,
    measured: Step | None = None,
    layer_times: str | Path | None = None,
    profile_budget: float | str | None = None,
    trust: bool = False,
    progress: Progress = lambda _: None,
) -> Plan:
    """The slicing of every layer that makes one training step fastest, with proof and baselines; or, under another
    `strategy`, the plan of that.

    `model` is a name as `slicewise plan` takes it, a saved or captured graph, or a module with a `sample` of its input.
    `batch` is over all devices: left out, the graph's or the sample's own, or 32 per device for a name. The plan fits
    the device's memory, or `memory_limit` (bytes or "8GiB"). `fix=["features.*=N"]` and `forbid=["*=C"]` say what is
    decided already. Of plans whose steps differ by less than `simplify`, a share, the one with the fewest changes of
    slicing is returned. `bucket` ("4MiB") is how many bytes of gradients are summed together; left out, the fastest of
    1, 2, 4, 10, 25 and 100 MiB. `software` is "plain" or "tuned" (the cluster's by default). `measured=(64, 0.1996)` is
    this network's step on one device: 64 samples, seconds. `cost` is "calibrated" where the cluster's layers were
    measured, else "analytic"; "measured" times the layers of the best plans here, for at most `profile_budget` (seconds
    or "3min"), or takes `layer_times`, a table of your own; "optcnn" is that paper's. After `time_limit` (seconds or
    "5min") you get the best plan so far and its proven gap.

    >>> plan = sw.plan("alexnet", "p100-4x4", batch=512)
    >>> plan.certificate["optimal"]
    True
    """
    given = {
        "space": space,
        "dims_per_layer": dims_per_layer,
        "dims_per_tier": dims_per_tier,
        "memory_limit": memory_limit,
        "objective": objective,
        "fix": tuple(fix),
        "forbid": tuple(forbid),
        "time_limit": time_limit,
        "gap": gap,
        "simplify": simplify,
        "bucket": bucket,
        "search": search,
        "segments": segments,
    }
    asked = [name for name, value in given.items() if value != SEARCHED.get(name)]
    refuse(f'`strategy="{strategy}"`', [f"`{name}`" for name in unused(strategy, asked)])
    if search == EXHAUSTIVE:
        refuse(f'`search="{search}"`', ["`gap`"] if gap else [])  # it looks at every plan
    machine = machine_of(cluster, devices, software)
    request = Request(
        strategy=strategy,
        training=Training(dtype=dtype, optimizer=optimizer, recompute=recompute, batchnorm=batchnorm),
        cost=cost or usual_model(machine).name,
        space=_space(space, dims_per_layer, dims_per_tier),
        objective=objective,
        memory_limit_bytes=bytes_of(memory_limit),
        fix=tuple(fix),
        forbid=tuple(forbid),
        gap=_share("gap", gap),
        simplify=_share("simplify", simplify),
        bucket=_bucket(bucket),
        time_limit_s=seconds_of(time_limit),
        search=search,
        segments=segments,
    )
    graph = _sized(model, machine, batch, input, sample, trust)
    machine = paced(machine, graph, request.training, measured)
    priced_by = model_named(request.cost)
    in_vain = {
        "layer_times": layer_times is not None and not priced_by.timed,
        "profile_budget": profile_budget is not None and not priced_by.measures,
    }
    refuse(f'`cost="{request.cost}"`', [f"`{name}`" for name, idle in in_vain.items() if idle])
    if layer_times is not None:
        untimed = MeasuredModel(request.training.normalised(graph, machine.devices), machine, request.training)
        machine = replace(machine, times=read_layer_times(Path(layer_times), untimed))
    if not priced_by.measures:
        return requested(graph, machine, request, progress)
    return timed_plan(
        lambda timed: requested(graph, timed, request, progress), machine, seconds_of(profile_budget), progress
    )


def pareto(
    model: "LayerGraph | nn.Module | str | Path",
    cluster: str | Path | Cluster = "local",
    *,
    batch: int | None = None,
    devices: int | None = None,
    software: str | None = None,
    dtype: str = "fp32",
    optimizer: str = "sgd",
    recompute: bool = False,
    batchnorm: str = "exact",
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    space: str | Space = "full",
    dims_per_layer: int | None = None,
    dims_per_tier: int | None = None,
    input: tuple[int, ...] | None = None,
    sample: "Sample | None" = None,
    trust: bool = False,
    progress: Progress = lambda _: None,
) -> list[Plan]:
    """Plans from the fastest to the one that keeps the fewest bytes; arguments as for `plan`, whose answer is one of
    those that are compared. No plan of them is beaten in step and memory at once.

    >>> plans = sw.pareto("lenet5", "p100-4x4", batch=64, devices=4)
    >>> plans[0].predicted["peak_memory_bytes"] >= plans[-1].predicted["peak_memory_bytes"]
    True
    """
    machine = machine_of(cluster, devices, software)
    request = Request(
        training=Training(dtype=dtype, optimizer=optimizer, recompute=recompute, batchnorm=batchnorm),
        cost=usual_model(machine).name,
        space=_space(space, dims_per_layer, dims_per_tier),
        fix=tuple(fix),
        forbid=tuple(forbid),
    )
    return pareto_plans(_sized(model, machine, batch, input, sample, trust), machine, request, progress)


def requested(graph: LayerGraph, cluster: Cluster, request: Request, progress: Progress = lambda _: None) -> Plan:
    """The plan that answers `request`, for the batch that `graph` has."""
    if request.strategy == LAYERWISE:
        return fastest_plan(graph, cluster, request, progress)
    return baseline_plan(
        graph,
        cluster,
        request.strategy,
        batch=graph.batch,
        training=request.training,
        cost=request.cost,
        micro_batches=request.segments,
    )


def unused(strategy: str, given: Iterable[str]) -> list[str]:
    """Of the options that were given, those that `strategy` has no use for."""
    check_strategy(strategy)
    if strategy == LAYERWISE:
        vain: tuple[str, ...] = ("segments",)
    else:
        vain = (*SEARCHED, *(() if STRATEGIES[strategy].form is Form.STAGES else ("segments",)))
    return [name for name in given if name in vain]


def refuse(mode: str, names: Sequence[str]) -> None:
    """What would be ignored is refused."""
    if names:
        raise RequestError(
            f"{mode} does not use {' and '.join(names)}; leave {'it' if len(names) == 1 else 'them'} out"
        )


def _sized(
    model: "LayerGraph | nn.Module | str | Path",
    cluster: Cluster,
    batch: int | None,
    input_shape: tuple[int, ...] | None,
    sample: "Sample | None",
    trust: bool,
) -> LayerGraph:
    graph = graph_of(model, input_shape, sample=sample, trust=trust)
    if batch is None and isinstance(model, str | Path):
        batch = PER_DEVICE * cluster.devices
    return graph if batch is None else graph.with_batch(batch)


def _space(space: str | Space, dims_per_layer: int | None, dims_per_tier: int | None) -> Space:
    if isinstance(space, str):
        if space not in SPACES:
            raise UnknownName("space", space, SPACES)
        space = SPACES[space]
    found = replace(
        space,
        dims_per_layer=space.dims_per_layer if dims_per_layer is None else dims_per_layer,
        dims_per_tier=space.dims_per_tier if dims_per_tier is None else dims_per_tier,
    )
    for what, count in (("layer", found.dims_per_layer), ("tier", found.dims_per_tier)):
        if count < 1:
            raise RequestError(f"dims per {what} must be 1 or more (got {count})")
    return found


def _share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise RequestError(f"{name} must be a share such as 0.01 (got {value})")
    return value


def _bucket(given: float | str | None) -> int | None:
    wanted = bytes_of(given, "bucket")
    return None if wanted is None else max(1, int(min(wanted, MOST_BUCKET_BYTES)))
