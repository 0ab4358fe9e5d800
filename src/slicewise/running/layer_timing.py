"""The layers of a plan, each timed by itself with the runtime's own kernel, on all ranks at once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from slicewise.cluster.times import LayerTime
from slicewise.cost.measured import MeasuredModel
from slicewise.dtype import DTYPES
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import Layout, Slicing, layouts
from slicewise.partition.parts import box
from slicewise.running.contenders import OPTIMIZERS
from slicewise.running.probes import held
from slicewise.running.reference import drift
from slicewise.running.stopwatch import empty_backward_s, passes_s, timed_s
from slicewise.runtime.devices import torch_dtype
from slicewise.runtime.groups import Groups
from slicewise.runtime.kernels import Context, compile_kernel

_ROUNDS, _REPEATS = 3, 3
_LOOK_EVERY_S = 3  # at whether the machine has become slower
_COPIES = 4  # of a layer's weights, for the optimizer's step: what a step costs by itself is shared by many


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Times layers of `model` on this rank's device."""

    model: MeasuredModel
    device: torch.device

    def times(self, layers: Sequence[tuple[str, str, Slicing]], budget_s: float) -> Iterator[tuple[str, LayerTime]]:
        """Of (key, layer, slicing), until the budget is used up. Layers that cannot run alone are left out.

        round 1:   every layer once        told as they come
        round 2:   every layer once more   so that a bad second spoils no layer; the median is told anew

        As the machine was when it was calibrated, for its links are as they were then.
        """
        began_s, looked_s = time.monotonic(), float("-inf")
        paces: list[float] = []
        taken: dict[str, list[LayerTime]] = {}
        left = list(layers)
        with self.device:
            empty_s = empty_backward_s(_Start.apply)
            for _ in range(_ROUNDS):
                unable = set()
                for key, name, slicing in left:
                    elapsed_s = _longest_s(time.monotonic() - began_s, self.device)
                    if elapsed_s > budget_s:
                        break
                    if elapsed_s > looked_s + _LOOK_EVERY_S:
                        looked_s = elapsed_s
                        paces.append(drift(self.model.cluster) or 1.0)
                    found = self._time(self.model.graph[name], slicing, empty_s)
                    if found is None:
                        unable.add(key)
                        continue
                    taken.setdefault(key, []).append(found)
                    yield key, _median(taken[key]).over(median(paces))
                left = [item for item in left if item[0] not in unable]
        for key, times in taken.items():  # by now more is known of the machine
            yield key, _median(times).over(median(paces))

    def _time(self, layer: Layer, slicing: Slicing, empty_s: float) -> LayerTime | None:
        groups = Groups(self.model.cluster.mesh, dist.get_rank())
        try:
            tensors, leaves = self._tensors(layer, slicing, groups)
            given = [self._part(shape, layout, groups) for shape, layout in _inputs(layer, slicing)]
            wanted = [self.model.returns_gradient(layer, slot) for slot in range(len(given))]
            inputs = [x.requires_grad_(wants) for x, wants in zip(given, wanted, strict=True)]
            context = Context(groups=groups, tensors=tensors, device=self.device, batch=self.model.graph.batch)
            kernel = compile_kernel(layer, slicing, context)

            def run(started: list[Tensor]) -> Tensor:
                with self._autocast():
                    return kernel(started)

            forward_s, backward_s = passes_s(
                run,
                [*inputs, *leaves],
                _REPEATS,
                prepare=lambda: [_Start.apply(x) for x in inputs],
                summed=inputs[0] if len(inputs) > 1 and wanted[0] else None,
                empty_s=empty_s,
            )
        except (RuntimeError, TypeError, KeyError, ValueError, NotImplementedError):
            return None  # it takes more than random numbers, such as indices
        update_s = self._update_s(leaves, groups) if leaves and any(w.updated for w in layer.weights) else 0.0
        return LayerTime(forward_s=forward_s, backward_s=backward_s, update_s=update_s)

    def _part(self, shape: tuple[int, ...], layout: Layout, groups: Groups) -> Tensor:
        sizes = [stop - start for start, stop in box(shape, layout, groups.mesh, groups.rank)]
        return torch.randn(sizes, dtype=torch_dtype(self.model.training.dtype))

    def _tensors(self, layer: Layer, slicing: Slicing, groups: Groups) -> tuple[dict[str, Tensor], list[Tensor]]:
        """What the layer holds: weights in parts, constants whole, running statistics of its channels."""
        placed = layouts(layer, slicing)
        weights: dict[str, Tensor] = {}
        for weight, layout in zip(layer.weights, placed.weights, strict=True):
            sizes = [stop - start for start, stop in box(weight.shape, layout, groups.mesh, groups.rank)]
            weights[weight.name] = torch.randn(sizes, requires_grad=weight.trained)
        tensors = {buffer.name: torch.ones(buffer.shape) for buffer in layer.buffers} | weights
        if Dim.F in layer.dims:
            start, stop = box(layer.shape, placed.output, groups.mesh, groups.rank)[layer.dims.index(Dim.F)]
            for value in layer.options.get("arguments", {}).values():
                if isinstance(value, Mapping) and "buffer" in value:
                    tensors.setdefault(value["buffer"], torch.ones(stop - start))
        return tensors, [weight for weight in weights.values() if weight.requires_grad]

    def _update_s(self, leaves: Sequence[Tensor], groups: Groups) -> float:
        mesh = groups.device_mesh(self.device.type)
        weights = [nn.Parameter(held(leaf.detach(), mesh)) for leaf in leaves for _ in range(_COPIES)]
        for weight, leaf in zip(weights, (leaf for leaf in leaves for _ in range(_COPIES)), strict=True):
            weight.grad = held(torch.randn_like(leaf), mesh)
        optimizer = OPTIMIZERS[self.model.training.optimizer]([{"params": weights}])
        return timed_s(optimizer.step, _REPEATS) / _COPIES

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = self.model.training.dtype
        if DTYPES[dtype].autocast:
            return torch.autocast(self.device.type, dtype=torch_dtype(dtype))
        return nullcontext()


def _median(times: Sequence[LayerTime]) -> LayerTime:
    return LayerTime(
        forward_s=median(time.forward_s for time in times),
        backward_s=median(time.backward_s for time in times),
        update_s=median(time.update_s or 0.0 for time in times),
    )


def _inputs(layer: Layer, slicing: Slicing) -> Iterator[tuple[tuple[int, ...], Layout]]:
    return zip(layer.input_shapes, layouts(layer, slicing).inputs, strict=True)


def _longest_s(elapsed_s: float, device: torch.device) -> float:
    """By every rank's clock, so that all stop at the same layer."""
    value = torch.tensor(elapsed_s, dtype=torch.float64, device=device)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return float(value)


class _Start(torch.autograd.Function):
    """An input that a layer may overwrite, and whose gradient goes on as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient
