"""A model running under a plan: an nn.Module that stands where DistributedDataParallel(model) stood."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Shard as TorchShard

from slicewise.cluster.mesh import Mesh
from slicewise.cost.training import PLAIN
from slicewise.errors import PlanError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import buckets
from slicewise.partition.following import followed
from slicewise.partition.layout import REPLICATE, Layout, Shard, Slicing, layouts
from slicewise.partition.legal import check_ties
from slicewise.partition.parts import box
from slicewise.runtime.agreement import UNABLE, Counting, SampleCounts
from slicewise.runtime.blueprint import Blueprint, Modules, State, with_trained
from slicewise.runtime.collectives import all_gather
from slicewise.runtime.compiling import run_uncompiled
from slicewise.runtime.devices import rank_device
from slicewise.runtime.gradient_sync import NO_PASS, GradientSync
from slicewise.runtime.groups import Groups
from slicewise.runtime.initial import Initialize
from slicewise.runtime.kernels import Context, Pass
from slicewise.runtime.optimizers import watch
from slicewise.runtime.program import Program
from slicewise.runtime.skeleton import skeleton
from slicewise.runtime.sliced_tensor import SlicedTensor, sliced_tensor
from slicewise.runtime.uneven import DIFFERENT, Evening, apart, refusal
from slicewise.runtime.weights import Weights, placements
from slicewise.runtime.whereabouts import OUTSIDE, at_pass, mark

_OF_ANY_MODULE = {*dir(nn.Module), *vars(nn.Module())}
Given = tuple[tuple[tuple[int, ...], Layout | None], ...]  # shape and layout of each input; None: as the plan has it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """The network for inputs of some shapes, with its modules in some state."""

    program: Program
    apart: bool  # ranks compute their own samples alone, without a message in forward


class SlicedModule(nn.Module):
    """Every layer in its own slicing, with the original network's numbers.

    Where the batch divides over the devices, each rank feeds its own samples and gets their output, and losses are
    means over the rank's samples, exactly as under DDP. Any other batch is passed whole on every rank, and the output
    is a DTensor that lies as the plan has it.

    Its modules are the model's own, under their own names; what is executed follows their modes and numbers.
    """

    local_samples: bool  # each rank feeds its own samples, not the whole batch
    # all of its own attributes: a model's may not be called the same
    _graph: LayerGraph
    _slicings: dict[str, Slicing]
    _mesh: Mesh
    _groups: Groups
    _weights: Weights
    _visible: Modules
    _context: Context
    _sync: GradientSync
    _blueprint: Blueprint
    _counting: SampleCounts | None
    _compiled: dict[tuple[Given, State, int | None], _Compiled]
    _known_counts: dict[tuple[Given, State, tuple[int, ...]], tuple[bool, str | None]]
    _recompute: bool
    _bucket_items: int
    _passes: int  # in training mode so far
    _first: State  # of the modules when the network was made
    _state: State  # at the last pass
    _known: State  # that `_graph` was captured in

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        slicings: Mapping[str, Slicing],
        mesh: Mesh,
        *,
        seed: int = 0,
        recompute: bool = False,
        bucket_items: int = PLAIN.bucket_items,
        initialize: Initialize | None = None,
        adapt: Callable[[LayerGraph], LayerGraph] = lambda graph: graph,
        all_training: bool | None = None,
    ) -> None:
        """`graph`: the model captured in the modes its modules are in, or with all of them in training mode.

        `adapt`: what the plan makes of the network when it is captured again.
        """
        super().__init__()
        device = next((parameter.device for parameter in model.parameters() if not parameter.is_meta), rank_device())
        check_ties(graph, slicings)
        self._graph, self._slicings, self._mesh = graph, dict(slicings), mesh
        self._groups = Groups(mesh, dist.get_rank())
        self._weights = Weights(model, graph, slicings, self._groups, device, initialize=initialize, seed=seed)
        self._take_modules(model)
        self._context = Context(
            groups=self._groups,
            tensors={**self._weights.leaves, **self._weights.local_buffers},
            device=device,
            seed=seed,
            in_place=not recompute,  # what is computed again needs its input as it was
        )
        watch(self, self._weights.parameters.values(), model)
        self._bucket_items = bucket_items
        self._sync = self._synchronized(graph)
        self._blueprint = Blueprint(model, graph, self._visible, adapt)
        self._counting = SampleCounts(device) if dist.get_backend() != "fake" else None
        self._compiled, self._known_counts = {}, {}
        self._recompute, self._passes = recompute, 0
        samples: Slicing = (Dim.N,) * len(mesh.axes)
        self.local_samples = all(slicings[layer.name] == samples for layer in graph.inputs if Dim.N in layer.dims)
        modes = None
        if all_training if all_training is not None else not model.training:
            self._visible.train()  # as the capture did
            modes = self._visible.state().modes
        for name, module in model.named_modules():
            self._visible[name].training = module.training
        self._first = state = self._visible.state()
        self._state = self._known = replace(state, modes=modes or state.modes)

    def _take_modules(self, model: nn.Module) -> None:
        """The model's own modules, around this network's tensors."""
        held: dict[str, Tensor] = {**self._weights.parameters, **self._weights.buffers}
        held |= {name: held[first] for name, first in self._weights.other_names.items()}
        own = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        visible = skeleton(model, {id(tensor): held[name] for name, tensor in own})
        of_root = {name: value for name, value in vars(visible).items() if name not in _OF_ANY_MODULE}
        needed = {*dir(self), *SlicedModule.__annotations__}
        for name in (*visible._modules, *visible._parameters, *visible._buffers, *of_root):
            if name in needed:
                raise PlanError(
                    f"a part of the model is called {name!r}, which a sliced network needs itself; rename it"
                )
        self._modules.update(visible._modules)
        self._parameters.update(visible._parameters)
        self._buffers.update(visible._buffers)
        self._non_persistent_buffers_set.update(visible._non_persistent_buffers_set)
        self._visible = Modules(self, visible, of_root)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the model returns, for this rank's samples; where the whole batch was passed, tensors are DTensors.

        Inputs come in the order of the model's, or by name.
        """
        if torch.compiler.is_compiling():
            return run_uncompiled(self._pass, inputs, named)
        return self._pass(*inputs, **named)

    def _pass(self, *inputs: Any, **named: Any) -> Any:
        at_pass(self._passes + 1)
        given, state = self._taken(inputs, named)
        key = _described(given)
        compiled = self._compiled.get((key, state, None))
        if compiled is None and not torch.is_grad_enabled():
            compiled = self._compile(key, state)  # one that computes alone may evaluate alone
        counting = self._ask(given, state, compiled)
        evening = None
        if counting is not None and not (compiled and compiled.apart):  # before ranks wait for each other in new groups
            evening, counting = self._settle(counting, given, state), None
        if evening is not None:
            given = [evening.taken(x) if Dim.N in y.dims else x for x, y in zip(given, self._graph.inputs, strict=True)]
        compiled = self._compile(_described(given), state, sum(evening.counts) if evening else None)
        again = torch._C._current_graph_task_id() != NO_PASS  # checkpoint(net, x) runs forward inside backward
        self._passes += int(any(state.modes) and not again)
        self._weights.disagree |= any(state.modes) and self._weights.local_statistics
        self._context.now = Pass(number=self._passes, again=again)
        program = compiled.program
        parts = program.run([x.to_local() if isinstance(x, DTensor) else x for x in given])
        if counting is not None:
            self._settle(counting, given, state)
        mark(OUTSIDE)
        for part in parts:
            if part.requires_grad:
                part.register_hook(self._begin_backward)
        outputs = [self._hand_over(layer, x, evening) for layer, x in zip(program.graph.outputs, parts, strict=True)]
        if program.graph.returns is None:
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        return program.graph.returns.build(outputs)

    def _follow(self, state: State) -> None:
        """Modules have changed since the last pass."""
        self._weights.agree_on_buffers()  # a norm that rests now uses what ranks have kept for themselves
        if state.trained != self._state.trained:
            self._sync.close()
            self._weights.follow_frozen()
            self._sync = self._synchronized(with_trained(self._graph, self._weights.trained))
        self._state = state

    def _synchronized(self, graph: LayerGraph) -> GradientSync:
        """Of the weights that `graph` trains."""
        filled = buckets(graph, self._slicings, self._mesh, self._bucket_items)
        return GradientSync(self._weights, filled, self._groups, alone=apart(graph, self._slicings))

    def _taken(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Tensor], State]:
        """This rank's inputs, and its modules as they are now. A rank that cannot go on tells the others."""
        try:
            state = self._visible.state()
            given = self._in_order(inputs, named)
            if torch.is_grad_enabled() and any(x.requires_grad for x in given):
                raise PlanError(f"{self._graph.name}: gradients of the input are not computed; pass it detached")
            self._batch(_described(given))
        except PlanError as error:
            if self._counting is not None and torch.is_grad_enabled():
                self._counting.ask(0, UNABLE).counts()
                self._counting.explained(f"says {error}")
            raise
        if state != self._state:
            self._follow(state)
        return given, state

    def _ask(self, given: Sequence[Tensor], state: State, compiled: _Compiled | None) -> Counting | None:
        """Ranks tell each other what they pass. One that computes alone, without gradients, needs nobody."""
        if self._counting is None or (compiled and compiled.apart and not torch.is_grad_enabled()):
            return None
        same = [(x.dtype, tuple(x.shape[1:]), _layout(x) if isinstance(x, DTensor) else None) for x in given]
        code = zlib.crc32(repr((same, state.since(self._first))).encode())
        return self._counting.ask(self._samples(given), code)

    def _settle(self, counting: Counting, given: Sequence[Tensor], state: State) -> Evening | None:
        """Nothing to do where ranks pass alike; all ranks raise together where they cannot go on."""
        counts, alike = counting.counts()
        if alike and min(counts) == max(counts):
            return None
        assert self._counting is not None
        alone, why = self._uneven(_described(given), state, tuple(counts)) if alike else (False, DIFFERENT)
        if why is not None:
            said = self._counting.explained(f"passes {', '.join(map(_spelled, given))}")
            told = "; ".join(f"rank {rank} {what}" for rank, what in enumerate(said))
            raise PlanError(f"{self._graph.name}: {why}: {told}")
        return None if alone else Evening(counts, self._groups)

    def _uneven(self, given: Given, state: State, counts: tuple[int, ...]) -> tuple[bool, str | None]:
        """Whether each rank computes its own samples alone, where ranks pass so many; and why they cannot go on."""
        key = (given, state, counts)
        if key not in self._known_counts:
            graph = self._sized(given, state, sum(counts))
            alone = self.local_samples and apart(graph, followed(self._slicings, graph, self._mesh))
            self._known_counts[key] = alone, refusal(graph, counts, apart=alone, shares=self.local_samples)
        return self._known_counts[key]

    def _samples(self, given: Sequence[Tensor]) -> int:
        return next(len(x) for x, layer in zip(given, self._graph.inputs, strict=True) if Dim.N in layer.dims)

    def no_sync(self) -> AbstractContextManager[None]:
        """Backward passes inside leave gradients unsummed; the first one outside sums them all, as under DDP."""
        return self._sync.paused()

    def train(self, mode: bool = True) -> "SlicedModule":
        """In eval mode, running statistics that ranks kept for themselves are those of the first, as under DDP."""
        if self.training and not mode:
            self._weights.agree_on_buffers()
        self._visible.train(mode)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise PlanError(
            "a sliced network cannot be copied; parallelize a copy of the model, and load the state_dict() of this one"
        )

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
    def randomness(self) -> tuple[int, int]:
        """What dropout masks follow from: the seed, and the passes in training mode so far. Checkpoints keep it."""
        return self._context.seed, self._passes

    @randomness.setter
    def randomness(self, value: tuple[int, int]) -> None:
        self._context.seed, self._passes = value

    @property
    def output_copies(self) -> int:
        """How many ranks hold each part of the output."""
        layer = self._graph.outputs[0]
        return self._mesh.devices // self._mesh.group_size(
            tuple(axis for axis, dim in enumerate(self._slicings[layer.name]) if dim is not None)
        )

    @property
    def rank(self) -> int:
        return self._groups.rank

    @property
    def ranks(self) -> int:
        return self._mesh.devices

    def shard(self, whole: Tensor, output: int = 0) -> SlicedTensor:
        """A target of the same batch and space as an output, cut as that output is; the same on every rank before."""
        slices, layout = self._target(tuple(whole.shape), output, self.rank)
        return sliced_tensor(
            whole[slices].contiguous(), self._weights.device_mesh, placements(layout), tuple(whole.shape)
        )

    def gather(self, output: Tensor) -> Tensor:
        """The output for the whole batch, on every rank."""
        if isinstance(output, DTensor):
            return output.full_tensor()
        return all_gather(output.detach(), self.ranks, None)

    def local_input(self, rank: int | None = None, input: int = 0) -> tuple[slice, ...]:
        """Where in the whole input the part lies that a rank's first layer needs: what `slab` takes."""
        layer = self._graph.inputs[input]
        part = box(layer.shape, self._first_layout(layer), self._mesh, self.rank if rank is None else rank)
        return tuple(slice(start, stop) for start, stop in part)

    def local_target(self, rank: int | None = None, output: int = 0) -> tuple[slice, ...]:
        """Where in a whole target of class numbers, one per position, a rank's part lies."""
        shape = self._graph.outputs[output].shape
        return self._target((shape[0], *shape[2:]), output, self.rank if rank is None else rank)[0]

    def slab(self, part: Tensor, input: int = 0) -> DTensor:
        """An input of which this rank has read only `local_input()`."""
        layer = self._graph.inputs[input]
        layout = self._first_layout(layer)
        wanted = tuple(stop - start for start, stop in box(layer.shape, layout, self._mesh, self.rank))
        if tuple(part.shape) != wanted:
            raise PlanError(f"{layer.name}: rank {self.rank} needs a slab of shape {wanted} (got {tuple(part.shape)})")
        return sliced_tensor(part, self._weights.device_mesh, placements(layout), layer.shape)

    def _target(self, shape: tuple[int, ...], output: int, rank: int) -> tuple[tuple[slice, ...], Layout]:
        layer = self._graph.outputs[output]
        # a target of class numbers has no channel dim
        letters = layer.dims if len(shape) == len(layer.dims) else layer.dims[0] + layer.dims[2:]
        layout: Layout = tuple(
            Shard(letters.index(dim)) if dim is not None and dim in letters else REPLICATE
            for dim in self._slicings[layer.name]
        )
        return tuple(slice(start, stop) for start, stop in box(shape, layout, self._mesh, rank)), layout

    def _first_layout(self, layer: Layer) -> Layout:
        """How the first layer that reads an input wants it."""
        reader = next(other for other in self._graph if layer.name in other.inputs)
        return layouts(reader, self._slicings[reader.name]).inputs[reader.inputs.index(layer.name)]

    def _in_order(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Tensor]:
        rest = [layer.name for layer in self._graph.inputs[len(inputs) :]]
        if len(inputs) > len(self._graph.inputs) or set(named) != set(rest):
            wanted = ", ".join(layer.name for layer in self._graph.inputs)
            raise PlanError(f"{self._graph.name} takes {wanted} (got {len(inputs)} inputs and {sorted(named)})")
        given = [*inputs, *(named[name] for name in rest)]
        for layer, x in zip(self._graph.inputs, given, strict=True):
            if not isinstance(x, Tensor):
                raise PlanError(f"{self._graph.name}: {layer.name} must be a tensor (got {type(x).__name__})")
            if x.dim() == 0 and layer.shape:
                raise PlanError(f"{self._graph.name}: {layer.name} must be a batch of samples (got one number)")
        return given

    def _compile(self, given: Given, state: State, batch: int | None = None) -> _Compiled:
        """When inputs of these shapes and layouts are first seen, with modules in this state.

        `batch`: all samples of it, where ranks have different numbers of them.
        """
        key = (given, state, batch)
        if key not in self._compiled:
            lie = {
                layer.name: layout
                for layer, (_, layout) in zip(self._graph.inputs, given, strict=True)
                if layout is not None
            }
            graph = self._sized(given, state, batch)
            slicings = followed(self._slicings, graph, self._mesh)
            self._compiled[key] = _Compiled(
                program=Program(graph, slicings, self._context, given=lie, recompute=self._recompute),
                apart=self.local_samples and apart(graph, slicings),
            )
        return self._compiled[key]

    def _sized(self, given: Given, state: State, batch: int | None) -> LayerGraph:
        """The graph for inputs as ranks pass them."""
        graph, shapes = self._graph, tuple(shape for shape, _ in given)
        resized = any(s[1:] != layer.shape[1:] for s, layer in zip(shapes, graph.inputs, strict=True))
        if resized or (state.modes, state.constants) != (self._known.modes, self._known.constants):
            graph = self._blueprint.graph(shapes, state)
        if state.trained != self._known.trained:
            graph = with_trained(graph, self._weights.trained)
        return graph.with_batch(batch or self._batch(given))

    def _batch(self, given: Given) -> int:
        """All samples of the batch, if every rank passes as many as this one."""
        sizes = {
            shape[0] * (self.ranks if self.local_samples and layout is None else 1)
            for (shape, layout), layer in zip(given, self._graph.inputs, strict=True)
            if Dim.N in layer.dims
        }
        if len(sizes) != 1:
            raise PlanError(f"{self._graph.name}: inputs of different numbers of samples ({sorted(sizes)})")
        return sizes.pop()

    def _hand_over(self, layer: Layer, local: Tensor, evening: Evening | None) -> Any:
        if self.local_samples:
            if Dim.N not in layer.dims:  # a number for the whole batch, such as a loss: complete on every rank
                return local
            local = evening.returned(local, layer.name) if evening else local
            averaged: Tensor = _Averaged.apply(local, self._mesh.devices)
            return averaged
        layout = layouts(layer, self._slicings[layer.name]).output
        return sliced_tensor(local, self._weights.device_mesh, placements(layout), layer.shape)

    def _begin_backward(self, gradient: Tensor) -> None:
        self._sync.begin()

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Asked by Accelerate's own Accelerator, which would wrap the network, and save parts of it as the whole."""
        if vars(self).get("_prepared", False):
            return True
        raise PlanError(
            "a sliced network needs `from slicewise.accelerate import Accelerator` in place of Accelerate's own"
        )

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, prepared: bool) -> None:
        vars(self)["_prepared"] = prepared

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """`to`, `cuda`, `half`: fine where nothing would change, which is how frameworks call them."""
        held = (*self._weights.leaves.values(), *self._weights.local_buffers.values())
        for dtype, device in {(tensor.dtype, tensor.device) for tensor in held}:
            probe = torch.empty(0, dtype=dtype, device=device)
            moved = fn(probe)
            if (moved.dtype, moved.device) != (probe.dtype, probe.device):
                raise PlanError("a sliced network cannot be moved or cast; do that to the model before parallelize")
        return self


class _Averaged(torch.autograd.Function):
    """Each rank's loss is a mean over its own samples; the network's is the mean of those."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, ranks: int) -> Tensor:
        ctx.ranks = ranks
        return local.clone()  # a view could not be changed in place

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient / ctx.ranks, None


def _described(inputs: Sequence[Tensor]) -> Given:
    return tuple((tuple(x.shape), _layout(x) if isinstance(x, DTensor) else None) for x in inputs)


def _spelled(x: Tensor) -> str:
    return f"{tuple(x.shape)}" + ("" if x.dtype == torch.float32 else f" of {x.dtype}")


def _layout(tensor: DTensor) -> Layout:
    if any(placement.is_partial() for placement in tensor.placements):
        raise PlanError(f"inputs must be sharded or replicated (got {tensor.placements})")
    return tuple(Shard(p.dim) if isinstance(p, TorchShard) else REPLICATE for p in tensor.placements)
