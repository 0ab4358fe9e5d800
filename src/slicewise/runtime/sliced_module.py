"""A model running under a plan: an nn.Module that stands where DistributedDataParallel(model) stood."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from slicewise.cluster.mesh import Mesh
from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import buckets
from slicewise.partition.layout import REPLICATE, Layout, Shard, Slicing, layouts
from slicewise.partition.legal import check_ties
from slicewise.partition.parts import box
from slicewise.runtime.devices import rank_device
from slicewise.runtime.gradient_sync import GradientSync
from slicewise.runtime.groups import Groups
from slicewise.runtime.initial import Initialize
from slicewise.runtime.kernels import Context, Pass
from slicewise.runtime.program import Program
from slicewise.runtime.weights import Names, Weights, placements

Shapes = tuple[tuple[int, ...], ...]
_NO_BACKWARD = -1  # what the autograd engine calls "no backward pass is running"


class SlicedModule(Names):
    """Every layer in its own slicing, with the original network's numbers.

    Where the batch divides over the devices, each rank feeds its own samples and gets their output, and losses are
    means over the rank's samples, exactly as under DDP. Any other batch is passed whole on every rank, and the output
    is a DTensor that lies as the plan has it.
    """

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        slicings: Mapping[str, Slicing],
        mesh: Mesh,
        *,
        seed: int = 0,
        recompute: bool = False,
        initialize: Initialize | None = None,
        resized: Callable[[Shapes], LayerGraph] | None = None,
    ) -> None:
        """`resized` gives the network's graph for other input shapes; without it those are refused."""
        super().__init__()
        device = next((parameter.device for parameter in model.parameters() if not parameter.is_meta), rank_device())
        check_ties(graph, slicings)
        self._graph, self._slicings, self._mesh, self._resized = graph, dict(slicings), mesh, resized
        self._groups = Groups(mesh, dist.get_rank())
        self._weights = Weights(model, graph, slicings, self._groups, device, initialize=initialize, seed=seed)
        kept = set(model.state_dict())
        held: dict[str, Tensor] = {**self._weights.parameters, **self._weights.buffers}
        held |= {name: held[first] for name, first in self._weights.other_names.items()}
        for name, tensor in held.items():
            self.register(name, tensor, persistent=name in kept)
        self._context = Context(
            groups=self._groups,
            tensors={**self._weights.leaves, **self._weights.local_buffers},
            device=device,
            seed=seed,
            in_place=not recompute,  # what is computed again needs its input as it was
        )
        self._sync = GradientSync(self._weights, buckets(graph, slicings, mesh), self._groups)
        self._programs: dict[Shapes, Program] = {}
        self._recompute, self._passes = recompute, 0
        samples: Slicing = (Dim.N,) * len(mesh.axes)
        self.local_samples = all(slicings[layer.name] == samples for layer in graph.inputs if Dim.N in layer.dims)
        self.train(model.training)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """The output for this rank's samples, or the whole batch's output as a DTensor.

        Inputs come in the order of the model's, or by name; several outputs come as a flat tuple.
        """
        given = self._in_order(inputs, named)
        if torch.is_grad_enabled() and any(x.requires_grad for x in given):
            raise PlanError(f"{self._graph.name}: gradients of the input are not computed; pass it detached")
        self._weights.check_frozen()
        program = self._program(given)
        again = torch._C._current_graph_task_id() != _NO_BACKWARD  # checkpoint(net, x) runs forward inside backward
        self._passes += int(self.training and not again)
        self._weights.disagree |= self.training and self._weights.local_statistics
        self._context.now = Pass(training=self.training, number=self._passes, again=again)
        parts = program.run(given)
        outputs = [self._hand_over(layer, x) for layer, x in zip(program.graph.outputs, parts, strict=True)]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Backward passes inside leave gradients unsummed; the first one outside sums them all, as under DDP."""
        return self._sync.paused()

    def train(self, mode: bool = True) -> "SlicedModule":
        """In eval mode, running statistics that ranks kept for themselves are those of the first, as under DDP."""
        if self.training and not mode:
            self._weights.agree_on_buffers()
        super().train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """DTensors under the model's own names. To be called on every rank."""
        self._weights.agree_on_buffers()
        return super().state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """A sliced network's state, or the plain model's: each rank keeps its parts."""
        if assign:
            raise PlanError("a sliced network keeps its own tensors; load_state_dict with assign=False")
        return super().load_state_dict(self._weights.cut(state_dict), strict=strict)

    @property
    def output_copies(self) -> int:
        """How many ranks hold each part of the output."""
        layer = self._graph.outputs[0]
        return self._mesh.devices // self._mesh.group_size(
            tuple(axis for axis, dim in enumerate(self._slicings[layer.name]) if dim is not None)
        )

    def shard(self, whole: Tensor, output: int = 0) -> Tensor:
        """This rank's part of a tensor that goes with an output: a target of the same batch and space."""
        layer = self._graph.outputs[output]
        # a target of class numbers has no channel dim
        letters = layer.dims if whole.dim() == len(layer.dims) else layer.dims[0] + layer.dims[2:]
        slicing = self._slicings[layer.name]
        layout: Layout = tuple(Shard(letters.index(dim)) if dim is not None else REPLICATE for dim in slicing)
        part = box(tuple(whole.shape), layout, self._mesh, self._groups.rank)
        return whole[tuple(slice(start, stop) for start, stop in part)]

    def _in_order(self, inputs: Sequence[Tensor], named: Mapping[str, Tensor]) -> list[Tensor]:
        rest = [layer.name for layer in self._graph.inputs[len(inputs) :]]
        if len(inputs) > len(self._graph.inputs) or set(named) != set(rest):
            wanted = ", ".join(layer.name for layer in self._graph.inputs)
            raise PlanError(f"{self._graph.name} takes {wanted} (got {len(inputs)} inputs and {sorted(named)})")
        return [*inputs, *(named[name] for name in rest)]

    def _program(self, inputs: Sequence[Tensor]) -> Program:
        """Compiled when inputs of these shapes are first seen."""
        shapes = tuple(tuple(x.shape) for x in inputs)
        if shapes not in self._programs:
            graph = self._sized(shapes)
            self._programs[shapes] = Program(graph, self._slicings, self._context, recompute=self._recompute)
        return self._programs[shapes]

    def _sized(self, shapes: Shapes) -> LayerGraph:
        """The graph for inputs as ranks pass them."""
        inputs = self._graph.inputs
        sizes = {shape[0] for shape, layer in zip(shapes, inputs, strict=True) if Dim.N in layer.dims}
        if len(sizes) != 1:
            raise PlanError(f"{self._graph.name}: inputs of different numbers of samples ({sorted(sizes)})")
        graph = self._graph
        for shape, layer in zip(shapes, inputs, strict=True):
            if shape[1:] != layer.shape[1:]:
                if self._resized is None:
                    raise PlanError(
                        f"the plan is for samples of shape {layer.shape[1:]}, {layer.name} has {shape[1:]}; "
                        "plan again with --input"
                    )
                graph = self._resized(shapes)
        return graph.with_batch(sizes.pop() * (self._mesh.devices if self.local_samples else 1))

    def _hand_over(self, layer: Layer, local: Tensor) -> Any:
        if self.local_samples:
            if Dim.N not in layer.dims:  # a number for the whole batch, such as a loss: complete on every rank
                return local
            averaged: Tensor = _Averaged.apply(local, self._mesh.devices)
            return averaged
        shape = torch.Size(layer.shape)
        return DTensor.from_local(
            local,
            self._weights.device_mesh,
            placements(layouts(layer, self._slicings[layer.name]).output),
            run_check=False,
            shape=shape,
            stride=torch.empty(shape, device="meta").stride(),
        )

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        raise PlanError("a sliced network cannot be moved or cast; do that to the model before parallelize")


class _Averaged(torch.autograd.Function):
    """Each rank's loss is a mean over its own samples; the network's is the mean of those."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, ranks: int) -> Tensor:
        ctx.ranks = ranks
        return local.clone()  # a view could not be changed in place

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient / ctx.ranks, None
