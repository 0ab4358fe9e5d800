"""One device as the truth: the same weights and samples, with and without slicing."""

import copy
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space, legal_slicings
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.sliced_module import SlicedModule

FAINT = 1e-3
LAST_BIT = 4e-16  # relative
CUBES = Space(dims_per_layer=3, dims_per_tier=3)


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest absolute differences, each relative to the largest value of its tensor."""

    output: float
    gradient: float  # a weight with hardly any (a bias before a norm): to FAINT of the network's largest
    state: float  # running statistics

    def __str__(self) -> str:
        return f"outputs {self.output:.0e}, gradients {self.gradient:.0e}, running statistics {self.state:.0e}"

    def below(self, tolerance: float) -> bool:
        return self.output <= tolerance and self.gradient <= tolerance and self.state <= tolerance


def flat_mesh() -> Mesh:
    """All ranks in one tier."""
    return Mesh.of({"local": dist.get_world_size()})


def my_share(x: Tensor) -> Tensor:
    """This rank's samples of a whole batch."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


def random_slicings(graph: LayerGraph, mesh: Mesh, seed: int) -> dict[str, Slicing]:
    """Any legal slicing for each layer; layers that share weights agree."""
    chooser = random.Random(seed)
    chosen = {layer.name: chooser.choice(legal_slicings(layer, mesh)) for layer in graph}
    for tie in graph.ties:
        layers = [graph.layers[position] for position in tie]
        common = set.intersection(*(set(legal_slicings(layer, mesh)) for layer in layers))
        chosen |= dict.fromkeys((layer.name for layer in layers), chooser.choice(sorted(common, key=str)))
    return chosen


def spatial_slicings(graph: LayerGraph, mesh: Mesh, cut: Slicing) -> dict[str, Slicing]:
    """`cut` wherever it is legal, else as much of it as is; what has no space goes by sample, or is repeated."""

    def choice(layer: Layer) -> Slicing:
        legal = legal_slicings(layer, mesh, CUBES)
        parts = [tuple(dim if dim == kept else None for dim in cut) for kept in dict.fromkeys(cut)]
        return next((wish for wish in (cut, *parts, (Dim.N,) * len(cut)) if wish in legal), legal[0])

    return {layer.name: choice(layer) for layer in graph}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One forward and backward pass on one device: what every slicing must come to, bit for rounding."""

    model: nn.Module  # in float64 and training mode, before the pass
    inputs: list[Tensor]
    outputs: list[Tensor]
    directions: list[Tensor]  # the loss is the sum of outputs x directions
    gradients: dict[str, Tensor]
    state: dict[str, Tensor]  # running statistics

    @classmethod
    def of(cls, model: nn.Module, graph: LayerGraph, seed: int = 0, moved: float = 0.0) -> "Truth":
        """`moved`: how far inputs and weights are from their values, each up or down, relative."""
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randn(layer.shape, generator=generator, dtype=torch.float64) for layer in graph.inputs]
        double = copy.deepcopy(model).double().train()
        reference = copy.deepcopy(double)
        if moved:
            with torch.no_grad():
                chance = torch.Generator().manual_seed(seed + 1)
                for x in (*inputs, *reference.parameters()):
                    x += moved * x * torch.randn(x.shape, generator=chance, dtype=torch.float64).sign()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Using padding='same'")
            outputs = [x for x in tree_leaves(reference(*(x.clone() for x in inputs))) if isinstance(x, Tensor)]
        directions = [torch.randn(x.shape, generator=generator, dtype=torch.float64) for x in outputs]
        weighted(outputs, directions).backward()
        return cls(
            model=double,
            inputs=inputs,
            outputs=[x.detach() for x in outputs],
            directions=directions,
            gradients={name: x.grad for name, x in reference.named_parameters() if x.grad is not None},
            state={name: x for name, x in reference.named_buffers() if x.is_floating_point()},
        )


def compare(
    model: nn.Module,
    graph: LayerGraph,
    slicings: Mapping[str, Slicing],
    mesh: Mesh,
    seed: int = 0,
    truth: Truth | None = None,
) -> Difference:
    """One forward and backward pass in float64, sliced and on one device; a `truth` known already is not made again."""
    truth = truth or Truth.of(model, graph, seed)
    net = SlicedModule(copy.deepcopy(truth.model), graph, slicings, mesh)
    if net.local_samples:
        share = len(truth.inputs[0]) // mesh.devices
        mine = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
        outputs = as_tuple(net(*(x[mine] for x in truth.inputs)))
        cut = [mine if "N" in layer.dims else ... for layer in graph.outputs]
        # each rank's samples count as one of `devices` in the mean; what speaks for the whole batch is complete
        terms = [d[c] * (1 if c is ... else mesh.devices) for d, c in zip(truth.directions, cut, strict=True)]
        weighted(outputs, terms).backward()
        wanted = [x[c] for x, c in zip(truth.outputs, cut, strict=True)]
    else:
        results = as_tuple(net(*truth.inputs))
        parts = [net.shard(direction, number).to_local() for number, direction in enumerate(truth.directions)]
        weighted([result.to_local() for result in results], parts).backward()
        outputs, wanted = tuple(result.full_tensor() for result in results), truth.outputs
    gradients = {name: whole(x.grad) for name, x in net.named_parameters() if x.grad is not None}
    assert set(gradients) == set(truth.gradients), "other weights have gradients than on one device"
    net.state_dict()  # where each rank has the running statistics of its own samples, all take the first's
    held = dict(net.named_buffers())
    state = {name: whole(held[name]) for name in truth.state}
    return _difference([x.detach() for x in outputs], wanted, gradients, truth.gradients, state, truth.state)


def last_bit(model: nn.Module, graph: LayerGraph, seed: int) -> Difference:
    """What one device makes of inputs and weights that differ in their last bit: nothing can be closer than this to it.

    Of both: a deep convolution with much padding may not see the input at all.
    """
    one, other = Truth.of(model, graph, seed), Truth.of(model, graph, seed, moved=LAST_BIT)
    return _difference(other.outputs, one.outputs, other.gradients, one.gradients, other.state, one.state)


def _difference(
    outputs: Sequence[Tensor],
    wanted: Sequence[Tensor],
    gradients: Mapping[str, Tensor],
    wanted_gradients: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    wanted_state: Mapping[str, Tensor],
) -> Difference:
    scale = max((float(gradient.abs().max()) for gradient in wanted_gradients.values()), default=1.0) or 1.0
    return Difference(
        output=max(relative(one, other) for one, other in zip(outputs, wanted, strict=True)),
        gradient=largest(
            (gradients[name] - gradient) / gradient.abs().max().clamp(min=FAINT * scale)
            for name, gradient in wanted_gradients.items()
        ),
        state=largest((state[name] - value) / (1 + value.abs().max()) for name, value in wanted_state.items()),
    )


def counted_bytes(model: nn.Module, graph: LayerGraph, slicings: dict[str, Slicing], mesh: Mesh) -> int:
    """What all ranks send in one step."""
    net = SlicedModule(copy.deepcopy(model), graph, slicings, mesh)
    share = graph.batch // mesh.devices if net.local_samples else graph.batch
    x = torch.randn(share, *graph.inputs[0].shape[1:])
    net(x)  # groups are made on first use
    with CountCollectives() as counted:
        outputs = as_tuple(net(x))
        parts = [output if net.local_samples else output.to_local() for output in outputs]
        torch.stack([part.sum() for part in parts]).sum().backward()
    total = torch.tensor([counted.sent_bytes], dtype=torch.float64)
    dist.all_reduce(total)
    return round(total.item())


def weighted(outputs: Sequence[Tensor], directions: Sequence[Tensor]) -> Tensor:
    return torch.stack([(x * d).sum() for x, d in zip(outputs, directions, strict=True)]).sum()


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    """The tensors among what a model returns, whatever holds them."""
    return tuple(x for x in tree_leaves(outputs) if isinstance(x, Tensor))


def largest(differences: Iterable[Tensor]) -> float:
    """A tensor's max passes NaN on, Python's may not."""
    sizes = [difference.abs().max() for difference in differences]
    return float(torch.stack(sizes).max()) if sizes else 0.0


def whole(facade: Tensor | None) -> Tensor:
    assert facade is not None
    full: Tensor = facade.full_tensor()  # type: ignore[attr-defined]
    return full


def relative(given: Tensor, wanted: Tensor) -> float:
    """To the largest value; a tensor that is nothing but rounding (a norm of constants) is measured by FAINT."""
    return float((given - wanted).abs().max() / wanted.abs().max().clamp(min=FAINT))
