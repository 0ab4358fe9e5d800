"""One stage of a pipeline: its layers as a module, with its own weights and no others."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.errors import PlanError
from slicewise.graph.capture import first_names
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.stages import Cuts, held_names
from slicewise.runtime.devices import rank_device, torch_dtype
from slicewise.runtime.groups import Groups
from slicewise.runtime.initial import Initialize, initial_values
from slicewise.runtime.kernels import Context, Pass
from slicewise.runtime.program import Program
from slicewise.runtime.weights import Names

_ALONE = Mesh(())  # a stage is one device's: no axis, no process group


class Stage(Names):
    """This rank's layers as a module: the model's own names, operators and numbers, one micro-batch at a time."""

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        positions: Sequence[int],
        *,
        dtype: str,
        recompute: bool,
        seed: int,
        initialize: Initialize | None,
    ) -> None:
        super().__init__()
        self._whole, self._positions, self._number = graph, tuple(positions), dist.get_rank()
        self._recompute, self._passes = recompute, 0
        self._programs: dict[int, Program] = {}
        first = next(model.parameters())
        device = rank_device() if first.is_meta else first.device
        self._hold(model, device, seed, initialize)
        self._dtype = first.dtype
        self.sent_dtype = torch_dtype(dtype) if first.dtype == torch.float32 else first.dtype
        self._context = Context(
            groups=Groups(_ALONE, 0),
            tensors={**dict(self.named_parameters()), **dict(self.named_buffers())},
            device=device,
            seed=seed,
            in_place=not recompute,  # what is computed again needs its input as it was
        )
        self.train(model.training)
        self._parts = dict(self.named_modules())
        self._trained = [(name, weight, weight.requires_grad) for name, weight in self.named_parameters()]

    @property
    def device(self) -> torch.device:
        return self._context.device

    @property
    def randomness(self) -> tuple[int, int]:
        """What dropout masks follow from: the seed, and the micro-batches in training mode so far."""
        return self._context.seed, self._passes

    @randomness.setter
    def randomness(self, value: tuple[int, int]) -> None:
        self._context.seed, self._passes = value

    def forward(self, *inputs: Tensor) -> Any:
        first, last = self._number == 0, self._number == len(self._positions)
        self._check_unchanged()
        self._passes += int(self.training)
        self._context.now = Pass(training=self.training, number=self._passes)
        given = inputs if first else tuple(x.to(self._dtype) for x in inputs)
        outputs = self._program(len(inputs[0])).run(given)
        if not last:
            return outputs[0].to(self.sent_dtype).contiguous()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _check_unchanged(self) -> None:
        """Stages agreed beforehand on who wants a gradient, and know the mode of the whole network only."""
        for name, part in self._parts.items():
            if part.training != self.training:
                raise PlanError(f"{name}: a stage is in one mode as a whole; call eval() on parts before pipeline()")
        for name, weight, trained in self._trained:
            if weight.requires_grad != trained:
                raise PlanError(f"{name}: requires_grad has changed; freeze weights before slicewise.pipeline")

    def boundary(self, number: int, samples: int) -> Tensor:
        """What goes over a cut, as torch wants to know it before: shape, dtype, and whether a gradient comes back."""
        layer = self._sized(samples).layers[self._positions[number]]
        wanted = layer.name in self._whole.gradients
        return torch.empty(layer.shape, dtype=self.sent_dtype, device="meta", requires_grad=wanted)

    def outputs(self, samples: int) -> tuple[Tensor, ...]:
        graph = self._sized(samples)
        return tuple(torch.empty(layer.shape, dtype=self._dtype, device="meta") for layer in graph.outputs)

    def _program(self, samples: int) -> Program:
        if samples not in self._programs:
            graph = Cuts(self._sized(samples)).stage(self._positions, self._number)
            slicings = {layer.name: () for layer in graph}
            self._programs[samples] = Program(graph, slicings, self._context, recompute=self._recompute)
        return self._programs[samples]

    def _sized(self, samples: int) -> LayerGraph:
        return self._whole.with_batch(samples)

    def _hold(self, model: nn.Module, device: torch.device, seed: int, initialize: Initialize | None) -> None:
        """Take this stage's weights and buffers; what no layer reads stays with the first stage."""
        mine = _names_of(self._whole, self._positions, self._number)
        others = set().union(
            *(_names_of(self._whole, self._positions, n) for n in range(len(self._positions) + 1) if n != self._number)
        )
        parameters = dict(model.named_parameters(remove_duplicate=False))
        first = first_names(model)
        kept = set(model.state_dict())
        for name, value in initial_values(model, device, initialize, seed):
            if not (name in mine or (self._number == 0 and name not in others)):
                continue
            held = value.clone()
            tensor = nn.Parameter(held, parameters[name].requires_grad) if name in parameters else held
            for alias in (alias for alias, own in first.items() if own == name):
                self.register(alias, tensor, persistent=alias in kept)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        raise PlanError("a stage cannot be moved or cast; do that to the model before slicewise.pipeline")


def _names_of(graph: LayerGraph, positions: Sequence[int], number: int) -> set[str]:
    start = positions[number - 1] + 1 if number else 0
    stop = positions[number] + 1 if number < len(positions) else len(graph)
    names = {name for layer in graph.layers[start:stop] for name in held_names(layer)}
    return names | {name.replace("running_mean", "num_batches_tracked") for name in names}
