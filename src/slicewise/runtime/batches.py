"""Synthetic batches and losses, the same on every rank and on one device."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from slicewise.graph.layer_graph import LayerGraph
from slicewise.runtime.sliced_module import SlicedModule


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Inputs and integer targets: one class per sample, or per position where the output has space."""

    inputs: Tensor
    targets: Tensor

    @classmethod
    def synthetic(cls, graph: LayerGraph, dtype: torch.dtype, device: torch.device, seed: int) -> "Batch":
        generator = torch.Generator().manual_seed(seed)
        output = graph.outputs[0].shape
        return cls(
            inputs=torch.randn(graph.inputs[0].shape, generator=generator, dtype=dtype).to(device),
            targets=torch.randint(output[1], (output[0], *output[2:]), generator=generator).to(device),
        )

    def part(self, rank: int, ranks: int) -> "Batch":
        """The samples that one of `ranks` equal shares holds."""
        share = len(self.inputs) // ranks
        chosen = slice(rank * share, (rank + 1) * share)
        return Batch(inputs=self.inputs[chosen], targets=self.targets[chosen])


def mean_loss(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, averaged over what is given."""
    return F.cross_entropy(output, targets)


def rank_loss(net: SlicedModule, samples: Batch) -> Tensor:
    """What one rank backpropagates: the loss of its own samples, or its share of the whole batch's."""
    if net.local_samples:
        mine = samples.part(dist.get_rank(), dist.get_world_size())
        return mean_loss(net(mine.inputs), mine.targets)
    output = net(samples.inputs).to_local()
    return F.cross_entropy(output, net.shard(samples.targets), reduction="sum") / samples.targets.numel()


def loss_scale(net: SlicedModule) -> float:
    """The sum of all ranks' losses times this is the network's loss."""
    return 1 / (dist.get_world_size() if net.local_samples else net.output_copies)
