"""One device as the truth: the same weights and samples, with and without slicing."""

import copy
import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings
from slicewise.runtime.sliced_module import SlicedModule


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest absolute differences, each relative to the largest value of its kind."""

    output: float
    gradient: float

    def below(self, tolerance: float) -> bool:
        return self.output <= tolerance and self.gradient <= tolerance


def random_slicings(graph: LayerGraph, mesh: Mesh, seed: int) -> dict[str, Slicing]:
    chooser = random.Random(seed)
    return {layer.name: chooser.choice(legal_slicings(layer, mesh)) for layer in graph}


def compare(model: nn.Module, graph: LayerGraph, slicings: dict[str, Slicing], mesh: Mesh, seed: int = 0) -> Difference:
    """One forward and backward pass in float64, sliced and on one device."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(layer.shape, generator=generator, dtype=torch.float64) for layer in graph.inputs]
    reference = copy.deepcopy(model).double().train()
    net = SlicedModule(copy.deepcopy(model).double().train(), graph, slicings, mesh)
    expected = reference(*inputs)
    direction = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    (expected * direction).sum().backward()
    if net.local_samples:
        share = len(inputs[0]) // mesh.devices
        mine = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
        output = net(*(x[mine] for x in inputs))
        # each rank's loss counts as one of `devices` in the mean
        (output * direction[mine]).sum().mul(mesh.devices).backward()
        wanted = expected[mine]
    else:
        result = net(*inputs)
        output = result.to_local()
        (output * net.shard(direction)).sum().backward()
        output, wanted = result.full_tensor(), expected
    gradients = {name: whole(parameter.grad) for name, parameter in net.named_parameters()}
    truth = {name: parameter.grad for name, parameter in reference.named_parameters()}
    scale = max((float(gradient.abs().max()) for gradient in truth.values() if gradient is not None), default=1.0)
    return Difference(
        output=relative(output.detach(), wanted.detach()),
        gradient=float(  # a tensor's max passes NaN on, Python's may not
            torch.stack(
                [
                    (gradients[name] - gradient).abs().max() / scale
                    for name, gradient in truth.items()
                    if gradient is not None
                ]
            ).max()
        ),
    )


def whole(gradient: Tensor | None) -> Tensor:
    assert gradient is not None
    full: Tensor = gradient.full_tensor()  # type: ignore[attr-defined]
    return full


def relative(given: Tensor, wanted: Tensor) -> float:
    return float((given - wanted).abs().max() / wanted.abs().max())
