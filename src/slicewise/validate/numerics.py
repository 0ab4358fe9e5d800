"""Is the sliced network the original network? Loss and every gradient against one device, in float64."""

import copy
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode

from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans import Plan
from slicewise.runtime.batches import Batch, loss_scale, mean_loss, rank_loss
from slicewise.runtime.parallel import parallelize

TOLERANCE = 1e-9
SAMPLES_PER_RANK = 2


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


def check_numerics(model: nn.Module, graph: LayerGraph, plan: Plan, seed: int = 0) -> Check:
    """One step under the plan and one on a single device, same weights, same samples, dropout off."""
    batch = plan.batch
    if batch % plan.devices == 0:
        batch = min(batch, SAMPLES_PER_RANK * plan.devices)
    device = next(model.parameters()).device
    double = copy.deepcopy(model).double().train()
    samples = Batch.synthetic(graph.with_batch(batch), torch.float64, device, seed)
    # a network that starts at one value per class has gradients near zero: compare on a moved one
    generator = torch.Generator().manual_seed(seed)
    for parameter in double.parameters():
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(device)
    reference = copy.deepcopy(double)
    net = parallelize(double, plan, graph=_without_dropout(graph))
    loss = rank_loss(net, samples)
    loss.backward()
    total = loss.detach() * loss_scale(net)
    dist.all_reduce(total)
    gradients = {name: _whole(parameter.grad) for name, parameter in net.named_parameters()}
    result: list[Any] = [None]
    if dist.get_rank() == 0:
        with _NoDropout():
            expected = mean_loss(reference(samples.inputs), samples.targets)
        expected.backward()
        errors = {"loss": _difference(total, expected.detach()) / abs(expected.item())}
        wanted = {name: parameter.grad for name, parameter in reference.named_parameters()}
        largest = max(float(gradient.abs().max()) for gradient in wanted.values() if gradient is not None)
        for name, gradient in wanted.items():
            errors[name] = _difference(gradients[name], gradient) / largest
        worst = max(errors, key=lambda name: errors[name])
        result[0] = Check(
            passed=errors[worst] <= TOLERANCE,
            tolerance=TOLERANCE,
            max_relative_error=errors[worst],
            worst=worst,
            loss=expected.item(),
            gradients=sum(gradient is not None for gradient in wanted.values()),
            batch=batch,
            note="float64, dropout off" + (f", batch {batch} of {plan.batch}" if batch != plan.batch else ""),
        )
    dist.broadcast_object_list(result, src=0)
    check: Check = result[0]
    return check


def _difference(given: torch.Tensor | None, wanted: torch.Tensor | None) -> float:
    """Frozen and unused weights have no gradient on either side."""
    if given is None or wanted is None:
        return 0.0 if given is wanted else inf
    worst = float((given - wanted).abs().max())
    return worst if isfinite(worst) else inf


def _whole(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def _without_dropout(graph: LayerGraph) -> LayerGraph:
    def quiet(layer: Layer) -> Layer:
        if not any(name in layer.options.get("op", "") for name in ("dropout", "drop_path")):
            return layer
        return replace(layer, options={**layer.options, "arguments": {**layer.options["arguments"], "p": 0.0}})

    return LayerGraph(name=graph.name, layers=tuple(quiet(layer) for layer in graph))


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
