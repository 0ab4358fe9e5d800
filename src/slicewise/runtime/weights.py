"""Weights as FSDP2 holds them: DTensors outside, plain local leaves inside.

The optimizer, `state_dict()` and checkpoints see one DTensor per weight under the model's own name. Forward uses a
local leaf that shares the DTensor's storage: unwrapping DTensors in the hot path would cost more than many layers do.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Partial as TorchPartial
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Placement as TorchPlacement

from slicewise.errors import PlanError
from slicewise.graph.capture import first_names
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import weight_layouts
from slicewise.partition.layout import PARTIAL, REPLICATE, Layout, Shard, Slicing, layouts
from slicewise.partition.legal import sliceable_dims
from slicewise.partition.parts import box
from slicewise.runtime.facade import facade_of, refuse_hooks
from slicewise.runtime.groups import Groups
from slicewise.runtime.initial import Initialize, initial_values
from slicewise.runtime.scalars import read_whole_scalars


class Weights:
    """The DTensor facade of a model's parameters and buffers, and the local tensors behind it."""

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        slicings: Mapping[str, Slicing],
        groups: Groups,
        device: torch.device,
        *,
        initialize: Initialize | None = None,
        seed: int = 0,
    ) -> None:
        refuse_hooks(model)
        read_whole_scalars()
        self.groups = groups
        self.device_mesh = groups.device_mesh(device.type)
        self.parameters: dict[str, nn.Parameter] = {}
        self.buffers: dict[str, Tensor] = {}
        self.leaves: dict[str, Tensor] = {}  # what forward uses: local, requiring gradients
        self.local_buffers: dict[str, Tensor] = {}
        # further names of what a model has under several -> the first
        self.other_names = {name: first for name, first in first_names(model).items() if name != first}
        self.disagree = False  # ranks have kept running statistics of their own since they last agreed
        self._local_statistics = dict(_local_statistics(graph, slicings))
        self._layouts = {name: layout for name, (_, layout, _) in weight_layouts(graph, slicings).items()}
        self._layouts |= _buffer_layouts(graph, slicings)
        trained = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        for name, whole in initial_values(model, device, initialize, seed):
            facade = self._facade(name, whole)
            if name in trained:
                self.parameters[name] = facade_of(facade, trained[name])
                self.leaves[name] = _local(self.parameters[name]).detach().requires_grad_(trained[name])
            else:
                self.buffers[name], self.local_buffers[name] = facade, facade._local_tensor

    @property
    def trained(self) -> dict[str, bool]:
        return {name: parameter.requires_grad for name, parameter in self.parameters.items()}

    def follow_frozen(self) -> None:
        """The leaves are what is trained: `requires_grad` of the weights that the user sees goes for them too."""
        for name, trained in self.trained.items():
            self.leaves[name].requires_grad_(trained)

    def wrap(self, name: str, local: Tensor, unsummed: tuple[int, ...] = ()) -> DTensor:
        """A gradient that lies as the weight does, Partial along `unsummed` axes.

        Made as FSDP2 makes it: `from_local` takes 70 us.
        """
        spec = self.parameters[name]._spec  # type: ignore[attr-defined]
        if unsummed:
            placements = (TorchPartial() if axis in unsummed else p for axis, p in enumerate(spec.placements))
            spec = DTensorSpec(spec.mesh, tuple(placements), tensor_meta=spec.tensor_meta)
        return DTensor(local, spec, requires_grad=False)

    def cut(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A state dict whose plain tensors are this rank's parts."""
        return {
            name: self._facade(name, value)
            if isinstance(value, Tensor) and not isinstance(value, DTensor) and self._holds(name, value)
            else value
            for name, value in state.items()
        }

    def agree_on_buffers(self) -> None:
        """Local running statistics become those of the first chunk of samples: DDP's choice."""
        if not self.disagree:
            return
        self.disagree = False
        by_axes: dict[tuple[int, ...], list[Tensor]] = {}
        for name, axes in self._local_statistics.items():
            by_axes.setdefault(axes, []).append(self.local_buffers[name])
        for axes, tensors in by_axes.items():
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            dist.broadcast(flat, group=self.groups.of(axes), group_src=0)
            for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
                tensor.copy_(part.view(tensor.shape))

    @property
    def local_statistics(self) -> bool:
        """Whether ranks keep running statistics of their own."""
        return bool(self._local_statistics)

    def _holds(self, name: str, whole: Tensor) -> bool:
        """Tensors of other shapes are left to `load_state_dict`, which names them all."""
        own = self.other_names.get(name, name)
        held = self.parameters.get(own, self.buffers.get(own))
        return held is not None and held.shape == whole.shape

    def _facade(self, name: str, whole: Tensor) -> DTensor:
        layout = self._layouts.get(self.other_names.get(name, name), (REPLICATE,) * len(self.groups.mesh.axes))
        part = box(tuple(whole.shape), layout, self.groups.mesh, self.groups.rank)
        local = whole[tuple(slice(start, stop) for start, stop in part)].clone(memory_format=torch.contiguous_format)
        return DTensor.from_local(
            local,
            self.device_mesh,
            placements(layout) or (TorchReplicate(),),
            run_check=False,
            shape=whole.shape,
            stride=whole.contiguous().stride(),
        )


def placements(layout: Layout) -> tuple[TorchPlacement, ...]:
    """The layout in PyTorch's own words. Weights and outputs are never Partial."""
    assert PARTIAL not in layout
    return tuple(TorchShard(p.dim) if isinstance(p, Shard) else TorchReplicate() for p in layout)


def _local(facade: Tensor) -> Tensor:
    local: Tensor = facade._local_tensor  # type: ignore[attr-defined]
    return local


def _statistics(graph: LayerGraph) -> Iterator[tuple[Any, tuple[str, str]]]:
    """Norms that keep running statistics, with the names of the buffers."""
    for layer in graph:
        references = [layer.options.get("arguments", {}).get(name) for name in ("running_mean", "running_var")]
        if layer.kind is Kind.NORM and all(references):
            yield layer, (references[0]["buffer"], references[1]["buffer"])


def _buffer_layouts(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> dict[str, Layout]:
    """Running statistics lie as the norm's channels do."""
    found: dict[str, Layout] = {}
    for layer, names in _statistics(graph):
        channel = Shard(layer.dims.index("F")) if "F" in sliceable_dims(layer) else None
        output = layouts(layer, slicings[layer.name]).output
        layout = tuple(Shard(0) if placement == channel else REPLICATE for placement in output)
        found |= dict.fromkeys(names, layout)
    return found


def _local_statistics(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Running statistics that each rank takes from its own first chunk -> the axes along which these differ."""
    for layer, names in _statistics(graph):
        axes = tuple(axis for axis, dim in enumerate(slicings[layer.name]) if dim is Dim.N)
        if axes and "ranks" in layer.options:  # a norm in eval mode may train later
            yield from ((name, axes) for name in names)


class Names(nn.Module):
    """A tree of empty modules that gives tensors their dotted names in `named_parameters` and `state_dict`."""

    def register(self, name: str, tensor: Tensor, persistent: bool = True) -> None:
        head, _, rest = name.partition(".")
        if head not in self._modules and hasattr(self, head):
            raise PlanError(f"a part of the model is called {head!r}, which a sliced network needs itself; rename it")
        if rest:
            if head not in self._modules:
                self.add_module(head, Names())
            child = self._modules[head]
            assert isinstance(child, Names)
            child.register(rest, tensor, persistent)
        elif isinstance(tensor, nn.Parameter):
            self.register_parameter(head, tensor)
        else:
            self.register_buffer(head, tensor, persistent)
