"""Batches and losses: synthetic ones, the same on every rank and on one device, or the user's own."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

from slicewise.errors import RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.runtime.kernels.operators import constant
from slicewise.runtime.sliced_module import SlicedModule

Loss = Callable[[Any, Tensor], Tensor]
_EMBEDDING = "aten.embedding.default"


def class_loss(output: Any, targets: Tensor) -> Tensor:
    """Cross-entropy of the one tensor that a network returns, in whatever structure."""
    return F.cross_entropy(_only_tensor(output), targets)


def _only_tensor(output: Any) -> Any:
    (tensor,) = (leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor))
    return tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Inputs and targets; synthetic ones are a class per sample, or per position where the output has space."""

    inputs: Tensor
    targets: Tensor

    @classmethod
    def synthetic(cls, graph: LayerGraph, dtype: torch.dtype, device: torch.device, seed: int) -> "Batch":
        generator = torch.Generator().manual_seed(seed)
        output = graph.outputs[0].shape
        return cls(
            inputs=_made_up(graph, dtype, generator).to(device),
            targets=torch.randint(output[1], (output[0], *output[2:]), generator=generator).to(device),
        )

    def part(self, rank: int, ranks: int) -> "Batch":
        """The samples that one of `ranks` equal shares holds; a copy, so that the rest can go."""
        share = len(self.inputs) // ranks
        chosen = slice(rank * share, (rank + 1) * share)
        return Batch(inputs=self.inputs[chosen].clone(), targets=self.targets[chosen].clone())

    def to(self, dtype: torch.dtype) -> "Batch":
        """With inputs of another precision."""
        inputs = self.inputs.to(dtype) if self.inputs.is_floating_point() else self.inputs
        return Batch(inputs=inputs, targets=self.targets)

    def fed(self, local_samples: bool) -> "Batch":
        """What this rank passes to its network."""
        return self.part(dist.get_rank(), dist.get_world_size()) if local_samples else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What this rank is fed, step by step, without end, and how its loss is made."""

    batches: Iterator[Batch]
    loss: Loss = class_loss

    @classmethod
    def synthetic(cls, batch: Batch) -> "Feed":
        return cls(batches=itertools.repeat(batch))

    @classmethod
    def of_factory(
        cls, name: str, graph: LayerGraph, device: torch.device, dtype: torch.dtype, local_samples: bool
    ) -> "Feed":
        """`factory(batch, shape, rank, ranks)` -> an iterable of (inputs, targets), or (that, loss function).

        Where ranks feed their own samples, `batch` of them, those that are this rank's; otherwise the whole batch, as
        rank 0 of 1.
        """
        from slicewise.graph.factories import load_factory, users_code

        place, _, factory = name.rpartition(":")
        ranks = dist.get_world_size() if local_samples else 1
        rank = dist.get_rank() if local_samples else 0
        shape = graph.inputs[0].shape[1:]
        with users_code(name):
            made = load_factory(place, factory)(graph.batch // ranks, shape, rank, ranks)
        with_loss = isinstance(made, tuple) and len(made) == 2 and callable(made[1])
        given, loss = made if with_loss else (made, class_loss)
        if not isinstance(given, Iterable):
            raise RequestError(
                f"{name} returned {type(made).__name__}; it must return an iterable of (inputs, targets)"
            )
        if loss is not class_loss and not local_samples:
            raise RequestError(
                f"{name}: a loss of your own needs a batch that divides over {dist.get_world_size()} ranks "
                f"(got {graph.batch}); leave it out for cross-entropy"
            )
        wanted = (graph.batch // ranks, *shape)
        batches = _checked(_endless(given, name), wanted, device, name)
        return cls(batches=(batch.to(dtype) for batch in batches), loss=loss)


def _made_up(graph: LayerGraph, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Normal random numbers; where the network reads whole numbers, words that all of its tables have, or 0 and 1."""
    layer = graph.inputs[0]
    tables = [layer.weights[0].shape[0] for layer in graph if layer.inputs and layer.options.get("op") == _EMBEDDING]
    captured = constant(str(layer.options.get("dtype", dtype)))
    if not isinstance(captured, torch.dtype) or captured.is_floating_point:
        return torch.randn(layer.shape, generator=generator, dtype=dtype)
    return torch.randint(min(tables, default=2), layer.shape, generator=generator).to(captured)


def _endless(given: Iterable[Any], name: str) -> Iterator[Any]:
    while True:
        found = False
        for item in given:
            found = True
            yield item
        if not found:
            raise RequestError(
                f"{name} gave no batch (it is started again when it ends: a list or a DataLoader will do)"
            )


def _checked(given: Iterator[Any], wanted: tuple[int, ...], device: torch.device, name: str) -> Iterator[Batch]:
    for item in given:
        if not (isinstance(item, list | tuple) and len(item) == 2 and all(isinstance(x, Tensor) for x in item)):
            raise RequestError(f"{name} gave {type(item).__name__}; each batch must be (inputs, targets), two tensors")
        inputs, targets = item
        if tuple(inputs.shape) != wanted or len(targets) != wanted[0]:
            raise RequestError(
                f"{name} gave inputs of {tuple(inputs.shape)} and {len(targets)} targets; each batch must have inputs "
                f"of {wanted} (drop_last=True leaves out a smaller last one)"
            )
        yield Batch(inputs=inputs.to(device, non_blocking=True), targets=targets.to(device, non_blocking=True))


def rank_loss(net: SlicedModule, fed: Batch, loss: Loss = class_loss) -> Tensor:
    """What one rank backpropagates: the loss of its own samples, or its share of the whole batch's."""
    if net.local_samples:
        return loss(net(fed.inputs), fed.targets)
    output = _only_tensor(net(fed.inputs)).to_local()
    return F.cross_entropy(output, net.shard(fed.targets).to_local(), reduction="sum") / fed.targets.numel()


def loss_scale(net: SlicedModule) -> float:
    """The sum of all ranks' losses times this is the network's loss."""
    return 1 / (dist.get_world_size() if net.local_samples else net.output_copies)
