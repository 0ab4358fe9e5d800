"""Is the sliced network the original network? Loss and every gradient against one device, in float64."""

import os
import re
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode

from slicewise.equality.local_norms import LocalNorms
from slicewise.equality.sizes import check_size
from slicewise.graph.alignment import renamed
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.following import followed
from slicewise.plans.plan import Plan
from slicewise.runtime.batches import Batch, class_loss, loss_scale, rank_loss
from slicewise.runtime.blueprint import bare, samples
from slicewise.runtime.clock import backpropagate
from slicewise.runtime.devices import rank_device
from slicewise.runtime.parallel import sliced
from slicewise.runtime.pipeline import Pipeline
from slicewise.runtime.skeleton import duplicate

TOLERANCE = 1e-9
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The largest difference, relative to the largest value of its kind, and where it was."""

    passed: bool
    tolerance: float
    max_relative_error: float
    worst: str
    loss: float
    gradients: int  # compared; frozen and unused weights have none
    batch: int
    note: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_numerics(
    model: nn.Module, graph: LayerGraph, plan: Plan, seed: int = 0, available_bytes: float | None = None
) -> Check:
    """One step under the plan and one on a single device, same weights, same samples, dropout off.

    Batch norms that the plan makes local take the statistics of the same chunks of samples on the single device.
    """
    free = _free_bytes() if available_bytes is None else available_bytes
    empty = bare(model)

    def resized(shape: tuple[int, ...]) -> LayerGraph:
        return renamed(capture(empty, samples(empty, graph, ((2, *shape),)), name=graph.name), graph)

    size = check_size(graph, plan, free, int(os.environ.get("LOCAL_WORLD_SIZE", plan.devices)), resized)
    graph, plan = size.graph, size.plan
    device = next(model.parameters()).device
    double = duplicate(model).double()
    if not double.training:  # as it was captured: a model in training mode keeps parts that rest
        double.train()
    if plan.pipeline is None:
        graph, plan = _in_double(double, graph, plan)
    batch = Batch.synthetic(graph.with_batch(plan.batch), torch.float64, device, seed)
    # a network that starts at one value per class has gradients near zero: compare on a moved one
    generator = torch.Generator().manual_seed(seed)
    for parameter in double.parameters():
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(device)
    reference = duplicate(double) if dist.get_rank() == 0 else None
    take_step = _pipeline_step if plan.pipeline else _sliced_step
    total, gradients = take_step(double, _without_dropout(graph), plan, batch)
    result: list[Any] = [None]
    if reference is not None:
        norms = LocalNorms(plan.sized(graph)) if _chunks(plan) else nullcontext()
        with _NoDropout(), norms:
            count = plan.pipeline.micro_batches if plan.pipeline else 1
            parts = [batch.part(number, count) for number in range(count)]
            expected = torch.stack([class_loss(reference(part.inputs), part.targets) for part in parts]).mean()
        expected.backward()
        errors = {"loss": _relative(_difference(total, expected.detach()), abs(expected.item()))}
        wanted = {name: parameter.grad for name, parameter in reference.named_parameters()}
        sizes = [float(gradient.abs().max()) for gradient in wanted.values() if gradient is not None]
        largest = max(filter(isfinite, sizes), default=0.0)
        for name, gradient in wanted.items():
            errors[name] = _relative(_difference(gradients[name], gradient), largest)
        worst = max(errors, key=lambda name: errors[name])
        result[0] = Check(
            passed=errors[worst] <= TOLERANCE,
            tolerance=TOLERANCE,
            max_relative_error=errors[worst],
            worst=worst,
            loss=expected.item(),
            gradients=sum(gradient is not None for gradient in wanted.values()),
            batch=plan.batch,
            note=_note(plan) + size.note,
        )
    dist.broadcast_object_list(result, src=0)
    check: Check = result[0]
    return check


def _in_double(double: nn.Module, graph: LayerGraph, plan: Plan) -> tuple[LayerGraph, Plan]:
    """Where operators name dtypes, those that they name in float64: other tensors are cast then."""
    if not any("torch.float" in str(layer.options.get("arguments")) for layer in graph):
        return graph, plan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)  # said when the plan was made
        found = renamed(capture(double, samples(double, graph), name=graph.name), graph)
    return found, replace(plan, slicings=followed(plan.slicings, plan.sized(found), plan.mesh))


def _sliced_step(
    model: nn.Module, graph: LayerGraph, plan: Plan, samples: Batch
) -> tuple[torch.Tensor, dict[str, torch.Tensor | None]]:
    """The network's loss, and every weight's whole gradient."""
    net = sliced(model, plan, graph)
    loss = rank_loss(net, samples.fed(net.local_samples))
    backpropagate(loss)
    total = loss.detach() * loss_scale(net)
    dist.all_reduce(total)
    return total, {name: _whole(parameter.grad) for name, parameter in net.named_parameters()}


def _pipeline_step(
    model: nn.Module, graph: LayerGraph, plan: Plan, samples: Batch
) -> tuple[torch.Tensor, dict[str, torch.Tensor | None]]:
    """The same from the ranks' stages."""
    assert plan.pipeline is not None
    pipe = Pipeline(model, plan.sized(graph), plan.pipeline, class_loss, training=plan.training)
    total = pipe.step(samples.inputs, samples.targets)
    every: list[dict[str, torch.Tensor | None]] = [{}] * dist.get_world_size()
    dist.all_gather_object(every, {name: parameter.grad for name, parameter in pipe.named_parameters()})
    return total, {name: gradient for stage in every for name, gradient in stage.items()}


def _note(plan: Plan) -> str:
    instead = "" if plan.training.dtype == "fp32" else f" instead of {plan.training.dtype}"
    local = f", batch norms per chunk of {-(-plan.batch // plan.devices)} samples" if _chunks(plan) else ""
    micro = f", {plan.pipeline.micro_batches} micro-batches on one device too" if plan.pipeline else ""
    return f"float64{instead}, dropout off{local}{micro}"


def _chunks(plan: Plan) -> bool:
    """A pipeline's micro-batches are chunks already."""
    return plan.training.batchnorm == "local" and plan.pipeline is None


def _free_bytes() -> float:
    """The least that any rank finds free."""
    device = rank_device()
    if device.type == "cuda":
        free = float(torch.cuda.mem_get_info(device)[0])
    else:
        found = re.search(r"MemAvailable:\s+(\d+) kB", _MEMINFO.read_text()) if _MEMINFO.exists() else None
        free = float(found[1]) * 1024 if found else inf
    least = torch.tensor([free], dtype=torch.float64, device=device)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return least.item()


def _difference(given: torch.Tensor | None, wanted: torch.Tensor | None) -> float:
    """Frozen and unused weights have no gradient on either side."""
    if given is None or wanted is None:
        return 0.0 if given is wanted else inf
    worst = float((given - wanted).abs().max())
    return worst if isfinite(worst) else inf


def _relative(difference: float, size: float) -> float:
    """NaN is neither above nor below any tolerance: what is not finite counts as infinitely far off."""
    if difference == 0:
        return 0.0
    return difference / size if size > 0 and isfinite(size) else inf


def _whole(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def _without_dropout(graph: LayerGraph) -> LayerGraph:
    def quiet(layer: Layer) -> Layer:
        if not any(name in layer.options.get("op", "") for name in ("dropout", "drop_path")):
            return layer
        return replace(layer, options={**layer.options, "arguments": {**layer.options["arguments"], "p": 0.0}})

    return replace(graph, layers=tuple(quiet(layer) for layer in graph))


class _NoDropout(TorchFunctionMode):
    """Every dropout inside, module or function, passes its input on; masks written out by hand keep everything."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if "dropout" in name and args:
            return args[0]
        if name == "bernoulli_":
            return args[0].fill_(1.0)
        result = func(*args, **(kwargs or {}))
        return result.fill_(0.999) if name == "rand" else result
