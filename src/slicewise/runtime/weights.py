"""Weights as FSDP2 holds them: DTensors outside, plain local leaves inside.

The optimizer, `state_dict()` and checkpoints see one DTensor per weight under the model's own name. Forward uses a
local leaf that shares the DTensor's storage: unwrapping DTensors in the hot path would cost more than many layers do.
"""

from collections.abc import Iterator, Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.placement_types import Placement as TorchPlacement

from slicewise.errors import PlanError
from slicewise.graph.layer import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import weight_layouts
from slicewise.partition.layout import PARTIAL, REPLICATE, Layout, Shard, Slicing, layouts
from slicewise.partition.legal import sliceable_dims
from slicewise.partition.parts import box
from slicewise.runtime.groups import Groups


class Weights:
    """The DTensor facade of a model's parameters and buffers, and the local tensors behind it."""

    def __init__(
        self,
        model: nn.Module,
        graph: LayerGraph,
        slicings: Mapping[str, Slicing],
        groups: Groups,
        device_mesh: DeviceMesh,
    ) -> None:
        self.groups = groups
        self.device_mesh = device_mesh
        self.parameters: dict[str, nn.Parameter] = {}
        self.buffers: dict[str, Tensor] = {}
        self.leaves: dict[str, Tensor] = {}  # what forward uses: local, requiring gradients
        self.local_buffers: dict[str, Tensor] = {}
        self.layouts: dict[str, Layout] = {
            name: layout for name, (_, layout, _) in weight_layouts(graph, slicings).items()
        }
        whole: Layout = (REPLICATE,) * len(groups.mesh.axes)
        for name, parameter in model.named_parameters():
            layout = self.layouts.setdefault(name, whole)
            facade = self._facade(parameter.detach(), layout)
            self.parameters[name] = nn.Parameter(facade, requires_grad=parameter.requires_grad)
            leaf = self.parameters[name]._local_tensor.detach()  # type: ignore[attr-defined]
            self.leaves[name] = leaf.requires_grad_(parameter.requires_grad)
        buffer_layouts = dict(_buffer_layouts(graph, slicings))
        for name, buffer in model.named_buffers():
            facade = self._facade(buffer, buffer_layouts.get(name, whole))
            self.buffers[name], self.local_buffers[name] = facade, facade._local_tensor
        self.other_names = _other_names(model)

    def check_frozen(self) -> None:
        """The leaves are what is trained: freezing a weight here would go unnoticed."""
        for name, parameter in self.parameters.items():
            if parameter.requires_grad != self.leaves[name].requires_grad:
                raise PlanError(f"{name}: requires_grad has changed; freeze weights before parallelize")

    def wrap(self, name: str, local: Tensor) -> DTensor:
        """A gradient that lies as the weight does, made as FSDP2 makes it: `from_local` takes 70 us."""
        return DTensor(local, self.parameters[name]._spec, requires_grad=False)  # type: ignore[attr-defined]

    def _facade(self, whole: Tensor, layout: Layout) -> DTensor:
        whole = whole.contiguous()
        dist.broadcast(whole, src=0)  # as DDP does: every rank starts from rank 0's values
        part = box(tuple(whole.shape), layout, self.groups.mesh, self.groups.rank)
        local = whole[tuple(slice(start, stop) for start, stop in part)].clone(memory_format=torch.contiguous_format)
        return _dtensor(local, self.device_mesh, layout, whole.shape, whole.stride())


def placements(layout: Layout) -> tuple[TorchPlacement, ...]:
    """The layout in PyTorch's own words. Weights and outputs are never Partial."""
    assert PARTIAL not in layout
    return tuple(TorchShard(p.dim) if isinstance(p, Shard) else TorchReplicate() for p in layout)


def _dtensor(
    local: Tensor, device_mesh: DeviceMesh, layout: Layout, shape: torch.Size, stride: tuple[int, ...]
) -> DTensor:
    return DTensor.from_local(
        local,
        device_mesh,
        placements(layout) or (TorchReplicate(),),
        run_check=False,
        shape=shape,
        stride=stride,
    )


def _other_names(model: nn.Module) -> dict[str, str]:
    """Further names of parameters and buffers that a model has under several -> the first."""
    first: dict[int, str] = {}
    names = {}
    for held in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
        for name, tensor in held:
            names[name] = first.setdefault(id(tensor), name)
    return {name: own for name, own in names.items() if name != own}


def _buffer_layouts(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> Iterator[tuple[str, Layout]]:
    """Running statistics lie as the norm's channels do."""
    for layer in graph:
        references = [layer.options.get("arguments", {}).get(name) for name in ("running_mean", "running_var")]
        if layer.kind is Kind.NORM and all(references):
            channel = Shard(layer.dims.index("F")) if "F" in sliceable_dims(layer) else None
            output = layouts(layer, slicings[layer.name]).output
            layout = tuple(Shard(0) if placement == channel else REPLICATE for placement in output)
            for reference in references:
                yield reference["buffer"], layout


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
