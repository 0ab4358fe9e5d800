"""One device as the truth: the same weights and samples, with and without slicing."""

import copy
import random
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.sliced_module import SlicedModule


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest absolute differences, each relative to the largest value of its kind."""

    output: float
    gradient: float
    state: float  # running statistics

    def below(self, tolerance: float) -> bool:
        return self.output <= tolerance and self.gradient <= tolerance and self.state <= tolerance


def random_slicings(graph: LayerGraph, mesh: Mesh, seed: int) -> dict[str, Slicing]:
    """Any legal slicing for each layer; layers that share weights agree."""
    chooser = random.Random(seed)
    chosen = {layer.name: chooser.choice(legal_slicings(layer, mesh)) for layer in graph}
    for tie in graph.ties:
        layers = [graph.layers[position] for position in tie]
        common = set.intersection(*(set(legal_slicings(layer, mesh)) for layer in layers))
        chosen |= dict.fromkeys((layer.name for layer in layers), chooser.choice(sorted(common, key=str)))
    return chosen


def compare(model: nn.Module, graph: LayerGraph, slicings: dict[str, Slicing], mesh: Mesh, seed: int = 0) -> Difference:
    """One forward and backward pass in float64, sliced and on one device."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(layer.shape, generator=generator, dtype=torch.float64) for layer in graph.inputs]
    reference = copy.deepcopy(model).double().train()
    net = SlicedModule(copy.deepcopy(model).double().train(), graph, slicings, mesh)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using padding='same'")
        expected = [x for x in tree_leaves(reference(*inputs)) if isinstance(x, Tensor)]
    directions = [torch.randn(x.shape, generator=generator, dtype=torch.float64) for x in expected]
    weighted(expected, directions).backward()
    if net.local_samples:
        share = len(inputs[0]) // mesh.devices
        mine = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
        outputs = as_tuple(net(*(x[mine] for x in inputs)))
        cut = [mine if "N" in layer.dims else ... for layer in graph.outputs]
        # each rank's samples count as one of `devices` in the mean; what speaks for the whole batch is complete
        terms = [d[c] * (1 if c is ... else mesh.devices) for d, c in zip(directions, cut, strict=True)]
        weighted(outputs, terms).backward()
        wanted = [x[c] for x, c in zip(expected, cut, strict=True)]
    else:
        results = as_tuple(net(*inputs))
        parts = [net.shard(direction, number) for number, direction in enumerate(directions)]
        weighted([result.to_local() for result in results], parts).backward()
        outputs, wanted = tuple(result.full_tensor() for result in results), expected
    truth = {name: x.grad for name, x in reference.named_parameters() if x.grad is not None}
    gradients = {name: whole(x.grad) for name, x in net.named_parameters() if name in truth}
    scale = max((float(gradient.abs().max()) for gradient in truth.values()), default=1.0)
    statistics = {name: x for name, x in reference.named_buffers() if x.is_floating_point()}
    held = dict(net.named_buffers())
    return Difference(
        output=max(relative(one.detach(), other.detach()) for one, other in zip(outputs, wanted, strict=True)),
        gradient=largest((gradients[name] - gradient) / scale for name, gradient in truth.items()),
        state=largest((whole(held[name]) - value) / (1 + value.abs().max()) for name, value in statistics.items()),
    )


def counted_bytes(model: nn.Module, graph: LayerGraph, slicings: dict[str, Slicing], mesh: Mesh) -> int:
    """What all ranks send in one step."""
    net = SlicedModule(copy.deepcopy(model), graph, slicings, mesh)
    share = graph.batch // mesh.devices if net.local_samples else graph.batch
    x = torch.randn(share, *graph.inputs[0].shape[1:])
    net(x)  # groups are made on first use
    with CountCollectives() as counted:
        output = net(x)
        output = output if net.local_samples else output.to_local()
        output.sum().backward()
    total = torch.tensor([counted.sent_bytes], dtype=torch.float64)
    dist.all_reduce(total)
    return round(total.item())


def weighted(outputs: Sequence[Tensor], directions: Sequence[Tensor]) -> Tensor:
    return torch.stack([(x * d).sum() for x, d in zip(outputs, directions, strict=True)]).sum()


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def largest(differences: Iterable[Tensor]) -> float:
    """A tensor's max passes NaN on, Python's may not."""
    sizes = [difference.abs().max() for difference in differences]
    return float(torch.stack(sizes).max()) if sizes else 0.0


def whole(facade: Tensor | None) -> Tensor:
    assert facade is not None
    full: Tensor = facade.full_tensor()  # type: ignore[attr-defined]
    return full


def relative(given: Tensor, wanted: Tensor) -> float:
    return float((given - wanted).abs().max() / wanted.abs().max())
