"""A model running under a plan: an nn.Module that stands where DistributedDataParallel(model) stood."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from slicewise.cluster.mesh import Mesh
from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Kind, Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import buckets
from slicewise.partition.layout import REPLICATE, Layout, Shard, Slicing, layouts
from slicewise.partition.legal import check_legal, check_ties
from slicewise.partition.parts import box
from slicewise.runtime.gradient_sync import GradientSync
from slicewise.runtime.groups import Groups
from slicewise.runtime.kernels import Context, Kernel, compile_kernel
from slicewise.runtime.moves import Move, compile_moves, move
from slicewise.runtime.weights import Names, Weights, placements


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One layer of a compiled program."""

    layer: Layer
    moves: tuple[tuple[list[Move], list[Move]], ...]  # per input: value forward, gradient backward
    kernel: Kernel


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
    ) -> None:
        super().__init__()
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        check_ties(graph, slicings)
        self._graph, self._slicings, self._mesh, self._device = graph, dict(slicings), mesh, device
        self._groups = Groups(mesh, dist.get_rank())
        self._device_mesh = self._groups.device_mesh(device.type)
        self._weights = Weights(model, graph, slicings, self._groups, self._device_mesh)
        kept = set(model.state_dict())
        held: dict[str, Tensor] = {**self._weights.parameters, **self._weights.buffers}
        held |= {name: held[first] for name, first in self._weights.other_names.items()}
        for name, tensor in held.items():
            self.register(name, tensor, persistent=name in kept)
        self._context = Context(
            groups=self._groups,
            tensors={**self._weights.leaves, **self._weights.local_buffers},
            training=lambda: self.training,
            generator=self._generator,
        )
        self._sync = GradientSync(self._weights, buckets(graph, slicings, mesh), self._groups)
        self._programs: dict[int, list[_Step]] = {}
        self._seed, self._steps = seed, 0
        self._samples: Slicing = (Dim.N,) * len(mesh.axes)
        self.local_samples = all(slicings[layer.name] == self._samples for layer in self._batched_inputs)
        self.train(model.training)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """The output for this rank's samples, or the whole batch's output as a DTensor.

        Inputs come in the order of the model's, or by name; several outputs come as a flat tuple.
        """
        rest = [layer.name for layer in self._graph.inputs[len(inputs) :]]
        if len(inputs) > len(self._graph.inputs) or set(named) != set(rest):
            wanted = ", ".join(layer.name for layer in self._graph.inputs)
            raise PlanError(f"{self._graph.name} takes {wanted} (got {len(inputs)} inputs and {sorted(named)})")
        inputs += tuple(named[name] for name in rest)
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            raise PlanError(f"{self._graph.name}: gradients of the input are not computed; pass it detached")
        self._weights.check_frozen()
        for x, layer in zip(inputs, self._graph.inputs, strict=True):
            if x.shape[1:] != layer.shape[1:]:
                raise PlanError(
                    f"the plan is for samples of shape {layer.shape[1:]}, {layer.name} has {tuple(x.shape[1:])}; "
                    "plan again with --input"
                )
        sizes = {len(x) for x, layer in zip(inputs, self._graph.inputs, strict=True) if Dim.N in layer.dims}
        if len(sizes) != 1:
            raise PlanError(f"{self._graph.name}: inputs of different numbers of samples ({sorted(sizes)})")
        batch = sizes.pop() * (self._mesh.devices if self.local_samples else 1)
        if batch not in self._programs:
            self._programs[batch] = self._compile(batch)
        self._steps += int(self.training)
        given = iter(inputs)
        values: dict[str, Tensor] = {}
        outputs: list[Any] = []
        for step in self._programs[batch]:
            layer = step.layer
            if layer.kind is Kind.INPUT:
                values[layer.name] = next(given)
                continue
            arguments = [
                move(values[source], forward, backward, layer.name)
                for source, (forward, backward) in zip(layer.inputs, step.moves, strict=True)
            ]
            for source in layer.inputs:
                if self._graph[source].kind is not Kind.FORK:
                    del values[source]
            try:
                result = step.kernel(arguments)
            except Exception as error:
                error.add_note(f"layer {layer.name}")
                raise
            del arguments
            if layer.kind is Kind.OUTPUT:
                outputs.append(self._hand_over(layer, result))
            else:
                values[layer.name] = result
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def _batched_inputs(self) -> list[Layer]:
        """Inputs that are not the same for all samples."""
        return [layer for layer in self._graph.inputs if Dim.N in layer.dims]

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

    def _compile(self, batch: int) -> list[_Step]:
        graph = self._graph.with_batch(batch)
        steps = []
        for layer in graph:
            slicing = self._slicings[layer.name]
            check_legal(layer, slicing, self._mesh)
            steps.append(
                _Step(
                    layer=layer,
                    moves=tuple(self._edge(graph, layer, slot) for slot in range(len(layer.inputs))),
                    kernel=compile_kernel(layer, slicing, self._context),
                )
            )
        return steps

    def _edge(self, graph: LayerGraph, layer: Layer, slot: int) -> tuple[list[Move], list[Move]]:
        producer = graph[layer.inputs[slot]]
        before = layouts(producer, self._slicings[producer.name])
        after = layouts(layer, self._slicings[layer.name])
        forward = compile_moves(producer.shape, before.output, after.inputs[slot], self._groups)
        if producer.name not in graph.gradients:
            return forward, []
        backward = compile_moves(producer.shape, after.input_gradients[slot], before.output_gradient, self._groups)
        return forward, backward

    def _hand_over(self, layer: Layer, local: Tensor) -> Any:
        if self.local_samples:
            if Dim.N not in layer.dims:  # a number for the whole batch, such as a loss: complete on every rank
                return local
            averaged: Tensor = _Averaged.apply(local, self._mesh.devices)
            return averaged
        shape = torch.Size(layer.shape)
        return DTensor.from_local(
            local,
            self._device_mesh,
            placements(layouts(layer, self._slicings[layer.name]).output),
            run_check=False,
            shape=shape,
            stride=torch.empty(shape, device="meta").stride(),
        )

    def _generator(self, stream: int) -> torch.Generator:
        generator = torch.Generator(device=self._device)
        generator.manual_seed(((self._seed * 1_000_003 + self._steps) * 2_147_483_647 + stream) % 2**63)
        return generator

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
