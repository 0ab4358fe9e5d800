"""The ways to train a network that `run` measures against each other: sliced, DDP, FSDP, sliced otherwise."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from slicewise.cost.training import Training
from slicewise.dtype import DTYPES
from slicewise.errors import PlanError, UnknownName
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan
from slicewise.runtime.batches import Batch, Loss, loss_scale, rank_loss
from slicewise.runtime.clock import backpropagate
from slicewise.runtime.devices import torch_dtype
from slicewise.runtime.parallel import parallelize
from slicewise.runtime.pipeline import pipeline
from slicewise.runtime.skeleton import duplicate

LEARNING_RATE = 0.01
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=LEARNING_RATE),
    "momentum": partial(torch.optim.SGD, lr=LEARNING_RATE, momentum=0.9),
    "adam": partial(torch.optim.Adam, lr=LEARNING_RATE / 10),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Something that trains the same network on the same samples."""

    name: str
    net: nn.Module
    optimizer: torch.optim.Optimizer
    forward_backward: Callable[[Batch], Tensor]  # of what this rank is fed; returns its loss
    loss_scale: float  # the sum of all ranks' losses times this is the network's

    def held(self) -> Iterator[Tensor]:
        """What outlives a step: weights, buffers and the optimizer's state."""
        yield from self.net.parameters()
        yield from self.net.buffers()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))


def sliced_contender(model: nn.Module, graph: LayerGraph, plan: Plan, loss: Loss) -> Contender:
    net = parallelize(duplicate(model), plan, graph=graph, stall_timeout=0)  # `run` has its own watchdog
    return Contender(
        name="slicewise",
        net=net,
        optimizer=_optimizer(plan.training, net),
        forward_backward=_trained(plan.training, lambda fed: rank_loss(net, fed, loss)),
        loss_scale=loss_scale(net),
    )


def pipeline_contender(model: nn.Module, graph: LayerGraph, plan: Plan, loss: Loss) -> Contender:
    """One stage of the network; autocast, where the plan is narrow, as around any forward."""
    pipe = pipeline(duplicate(model), plan, loss=loss, graph=graph, stall_timeout=0)

    def forward_backward(fed: Batch) -> Tensor:
        with _autocast(plan.training, fed):
            return pipe.step(fed.inputs, fed.targets)

    return Contender(
        name="slicewise",
        net=pipe.module,
        optimizer=_optimizer(plan.training, pipe.module),
        forward_backward=forward_backward,
        loss_scale=1 / dist.get_world_size(),  # every rank knows the whole batch's
    )


def ddp_contender(model: nn.Module, training: Training, loss: Loss) -> Contender:
    return plain_contender("ddp", DistributedDataParallel(duplicate(model)), training, loss)


def fsdp_contender(model: nn.Module, training: Training, loss: Loss) -> Contender:
    """FSDP2: a group of weights per block, the root takes what is left."""
    net = duplicate(model)
    for block in dict.fromkeys(blocks(net)):  # a module may stand in several places
        fully_shard(block)
    fully_shard(net)
    return plain_contender("fsdp", net, training, loss)


OTHER = "other"  # a second plan
OPPONENTS: dict[str, Callable[[nn.Module, Training, Loss], Contender]] = {
    "ddp": ddp_contender,
    "fsdp": fsdp_contender,
}


def planned_contender(model: nn.Module, graph: LayerGraph, plan: Plan, loss: Loss) -> Contender:
    make = pipeline_contender if plan.pipeline else sliced_contender
    return make(model, graph, plan, loss)


def opponent(name: str | Plan, model: nn.Module, graph: LayerGraph, plan: Plan, loss: Loss) -> Contender:
    """`name`: of OPPONENTS, or another plan; what is sliced is fed a rank's own samples."""
    if isinstance(name, Plan):
        check_rival(plan, name)
        other = replace(planned_contender(model, graph, name, loss), name=OTHER)
        return _fed_samples(other) if plan.pipeline and not name.pipeline else other
    if name not in OPPONENTS:
        raise UnknownName("opponent", name, OPPONENTS)
    if plan.batch % plan.devices:
        raise PlanError(
            f"{name} needs a batch that divides over {plan.devices} ranks (got {plan.batch}); leave out --compare"
        )
    made = OPPONENTS[name](model, plan.training, loss)
    return _fed_samples(made) if plan.pipeline else made


def check_rival(plan: Plan, other: Plan) -> None:
    """Two plans of one training."""
    for what, one, two in (
        ("model", plan.model, other.model),
        ("devices", plan.devices, other.devices),
        ("batch", plan.batch, other.batch),
        ("dtype", plan.training.dtype, other.training.dtype),
        ("optimizer", plan.training.optimizer, other.training.optimizer),
    ):
        if one != two:
            raise PlanError(f"--compare takes a plan for the same {what}: {one} (got {two})")
    if other.pipeline and not plan.pipeline:
        raise PlanError("--compare takes no pipeline here: run the pipeline's plan, and compare it with this one")
    if plan.pipeline and not other.pipeline and plan.batch % plan.devices:
        raise PlanError(f"--compare needs a batch that divides over {plan.devices} ranks here (got {plan.batch})")


def _fed_samples(made: Contender) -> Contender:
    """Beside a pipeline, whose ranks are fed the whole batch."""
    return replace(made, forward_backward=lambda fed: made.forward_backward(fed.fed(True)))


def blocks(model: nn.Module) -> list[nn.Module]:
    """The children with weights; of a child that is a list of modules, the modules that have weights."""
    found: list[nn.Module] = []
    for child in model.children():
        if next(child.parameters(), None) is None:
            continue
        nested = blocks(child) if isinstance(child, nn.Sequential | nn.ModuleList) else []
        found += nested or [child]
    return found


def plain_contender(name: str, net: nn.Module, training: Training, loss: Loss) -> Contender:
    """A network that is called with a rank's own samples."""
    return Contender(
        name=name,
        net=net,
        optimizer=_optimizer(training, net),
        forward_backward=_trained(training, lambda fed: loss(net(fed.inputs), fed.targets)),
        loss_scale=1 / dist.get_world_size(),
    )


def _optimizer(training: Training, net: nn.Module) -> torch.optim.Optimizer:
    return OPTIMIZERS[training.optimizer]([{"params": list(net.parameters())}])  # a stage may have none


def _trained(training: Training, loss: Callable[[Batch], Tensor]) -> Callable[[Batch], Tensor]:
    def forward_backward(fed: Batch) -> Tensor:
        with _autocast(training, fed):
            result = loss(fed)
        backpropagate(result)
        return result.detach()

    return forward_backward


def _autocast(training: Training, fed: Batch) -> AbstractContextManager[object]:
    """A narrow dtype: forward and loss under autocast, weights in fp32."""
    if DTYPES[training.dtype].autocast:
        return torch.autocast(fed.inputs.device.type, dtype=torch_dtype(training.dtype))
    return nullcontext()
