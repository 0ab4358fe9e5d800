"""The size at which a plan is compared with one device: small where that says as much, smaller where it must be."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.training import PLAIN, WEIGHT_BYTES
from slicewise.errors import PlanError, RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan
from slicewise.units import amount

SAMPLES_PER_RANK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A network and its plan, with fewer samples or smaller ones."""

    graph: LayerGraph
    plan: Plan
    note: str


def check_size(
    graph: LayerGraph,
    plan: Plan,
    available_bytes: float,
    ranks_per_host: int,
    resized: Callable[[tuple[int, ...]], LayerGraph],
) -> Size:
    """The largest that fits: fewer samples first, then smaller ones, as long as every slicing stays legal.

    `resized`: the network for samples of another shape.
    """
    needs = []
    for smaller, changed in _sizes(graph, plan, resized):
        try:
            sized = changed.sized(smaller)
            if changed.pipeline:
                changed.pipeline.check(sized, changed.devices)
            else:
                changed.check(sized, changed.mesh)
        except RequestError:
            continue
        needs.append(needed_bytes(smaller.with_batch(changed.batch), ranks_per_host))
        if needs[-1] <= available_bytes:
            return Size(graph=smaller, plan=changed, note=_note(plan, changed))
    least = f"at least {amount(min(needs), 'B')}" if needs else "another size"
    raise PlanError(
        f"--check trains {plan.model} on one device too, which needs {least}, and {amount(available_bytes, 'B')} are "
        f"free; leave out --check"
    )


def needed_bytes(graph: LayerGraph, ranks_per_host: int) -> int:
    """In float64: a step on one device and the ranks' slices of it, and every rank's copies of the weights."""
    one = load_cluster("p100-4x4").with_devices(1)  # bytes are the same on any machine
    model = AnalyticModel(graph, one, PLAIN)
    step = sum(model.plan_costs({layer.name: () for layer in graph}).values(), Cost())
    weights = sum(weight.size for weight in graph.weights) * WEIGHT_BYTES
    return 2 * (2 * step.peak_memory_bytes + 3 * ranks_per_host * weights)


def _sizes(
    graph: LayerGraph, plan: Plan, resized: Callable[[tuple[int, ...]], LayerGraph]
) -> Iterator[tuple[LayerGraph, Plan]]:
    parts = plan.pipeline.micro_batches if plan.pipeline else plan.devices
    divides = plan.batch % parts == 0
    batch = min(plan.batch, SAMPLES_PER_RANK * parts) if divides else plan.batch
    least = parts if divides else 1
    while batch > least:
        yield graph, replace(plan, batch=batch)
        batch = max(least, batch // 2)
    yield graph, replace(plan, batch=batch)
    shape = graph.inputs[0].shape[1:]
    while len(shape) > 1 and min(shape[1:]) > 1:
        shape = (shape[0], *(extent // 2 for extent in shape[1:]))
        try:
            smaller = resized(shape)
        except RequestError:  # a network for one size
            return
        yield smaller, replace(plan, batch=batch, input_shape=shape)


def _note(plan: Plan, resized: Plan) -> str:
    told = []
    if resized.batch != plan.batch:
        told.append(f", batch {resized.batch} of {plan.batch}")
    if resized.input_shape != plan.input_shape:
        told.append(f", samples of {'x'.join(map(str, resized.input_shape or ()))}: larger ones do not fit one device")
    return "".join(told)
