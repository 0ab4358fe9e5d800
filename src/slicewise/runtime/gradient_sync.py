"""Weight gradients summed in flat buckets while backward goes on.

    backward:   dL/dw6  dL/dw5  dL/dw4  dL/dw3 ...          end of backward
    buckets:      [ w6 w5 ] ---- all-reduce ----                 wait, hand out .grad
                                  [ w4 w3 ] ---- all-reduce ----

A bucket is one all-reduce over one set of axes (partition/buckets.py). It starts when the gradient that comes last is
there: which one that is, the first backward pass tells, and a hook on that weight alone says when it is. Gradients
that are complete as they are, because the weight is sliced or the work repeated, are handed out without an all-reduce.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.utils.hooks import RemovableHandle

from slicewise.partition.buckets import Bucket
from slicewise.runtime.clock import follow, span
from slicewise.runtime.collectives import finish
from slicewise.runtime.groups import Groups
from slicewise.runtime.weights import Weights
from slicewise.runtime.whereabouts import OUTSIDE, mark

NO_PASS = -1  # what the autograd engine calls "no backward pass is running"


@dataclass
class _Filling:
    """A bucket during one backward pass."""

    names: tuple[str, ...]  # of the weights that are trained
    axes: tuple[int, ...]
    group: dist.ProcessGroup | None
    parts: dict[str, Tensor] = field(default_factory=dict)
    flat: Tensor | None = None  # what is summed
    work: dist.Work | None = None


class GradientSync:
    def __init__(self, weights: Weights, buckets: Sequence[Bucket], groups: Groups, *, alone: bool) -> None:
        """`alone`: no layer has messages of its own."""
        self._weights = weights
        group_of = groups.of if alone else groups.for_gradients
        trained = [tuple(name for name in bucket.weights if weights.leaves[name].requires_grad) for bucket in buckets]
        self._fillings = [
            _Filling(names, bucket.axes, group_of(bucket.axes))
            for bucket, names in zip(buckets, trained, strict=True)
            if names
        ]
        self._axes = {name: filling.axes for filling in self._fillings for name in filling.names}
        self._launched = 0
        self._pass = NO_PASS
        self._paused = False
        self._arrived: list[str] = []
        self._hooks: dict[str, RemovableHandle] = {
            name: weights.leaves[name].register_post_accumulate_grad_hook(lambda _, name=name: self._ready(name))
            for name in self._axes
        }

    def close(self) -> None:
        """Other weights are trained from now on: let go of these."""
        for hook in self._hooks.values():
            hook.remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Backward passes inside sum nothing over ranks: `.grad` is Partial, and the next pass outside sums it all."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def begin(self) -> None:
        """To be called by every backward pass before it comes to a weight; once or more often."""
        running = torch._C._current_graph_task_id()
        if running != self._pass:  # what a pass that failed left behind is forgotten
            self._reset()
            for leaf in self._weights.leaves.values():
                leaf.grad = None
            self._pass = running
            mark("backward")
            # the engine runs this once, when the whole backward pass is done
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _ready(self, name: str) -> None:
        self._arrived.append(name)
        if not self._paused:
            self._launch_full_ones()

    def _launch_full_ones(self) -> None:
        """Every rank starts the same all-reduces in the same order."""
        leaves = self._weights.leaves
        while self._launched < len(self._fillings):
            filling = self._fillings[self._launched]
            if any(leaves[name].grad is None for name in filling.names):
                return
            filling.parts = {name: self._taken(name) for name in filling.names}
            self._launch(filling)
            self._launched += 1

    def _taken(self, name: str) -> Tensor:
        """The gradient of this pass, and what passes without a sync have left before."""
        leaf, parameter = self._weights.leaves[name], self._weights.parameters[name]
        gradient, leaf.grad = leaf.grad, None
        if parameter.grad is not None and _unsummed(parameter.grad):
            kept, parameter.grad = _local(parameter.grad), None
            return kept if gradient is None else kept.add_(gradient)
        assert gradient is not None
        return gradient

    def _launch(self, filling: _Filling) -> None:
        parts = list(filling.parts.values())
        if len(parts) == 1:
            flat = parts[0].contiguous()
            filling.parts = dict.fromkeys(filling.parts, flat)
        else:
            flat = _flatten_dense_tensors(parts)
            filling.parts = dict(zip(filling.parts, _unflatten_dense_tensors(flat, parts), strict=True))
        filling.flat = flat
        filling.work = follow(
            "sync", filling.names[0], lambda: dist.all_reduce(flat, group=filling.group, async_op=True)
        )

    def _finish(self) -> None:
        if self._paused:
            for name in self._axes:
                if self._weights.leaves[name].grad is not None:
                    self._keep(name)
        else:
            for filling in self._fillings[self._launched :]:
                self._complete(filling)
        for name, leaf in self._weights.leaves.items():
            if leaf.grad is not None:  # in no bucket: complete as it is
                self._hand_out(name, self._taken(name))
        for filling in self._fillings:
            if filling.flat is not None:
                with span("sync", filling.names[0]):
                    finish(filling.work, filling.flat)
                for name, gradient in filling.parts.items():
                    self._hand_out(name, gradient)
        self._keep_last_hooks()
        self._reset()
        mark(OUTSIDE)

    def _complete(self, filling: _Filling) -> None:
        """A bucket with weights that the loss did not reach: they count as zero, and keep no gradient."""
        leaves, parameters = self._weights.leaves, self._weights.parameters
        reached = [name for name in filling.names if leaves[name].grad is not None or _unsummed(parameters[name].grad)]
        if reached:
            filling.parts = {
                name: self._taken(name) if name in reached else torch.zeros_like(leaves[name]) for name in filling.names
            }
            self._launch(filling)
            filling.parts = {name: filling.parts[name] for name in reached}

    def _keep(self, name: str) -> None:
        """Wait for a pass that sums; what is summed already counts once in the end, so each rank takes its share."""
        axes, parameter = self._axes[name], self._weights.parameters[name]
        summed = None
        if parameter.grad is not None and not _unsummed(parameter.grad):
            summed, parameter.grad = _local(parameter.grad), None
        gradient = self._taken(name)
        if summed is not None:
            gradient = gradient + summed / self._weights.groups.mesh.group_size(axes)
        parameter.grad = self._weights.wrap(name, gradient, axes)

    def _hand_out(self, name: str, gradient: Tensor) -> None:
        parameter = self._weights.parameters[name]
        if parameter.grad is None:
            parameter.grad = self._weights.wrap(name, gradient)
        else:
            _local(parameter.grad).add_(gradient)

    def _keep_last_hooks(self) -> None:
        """After the first pass that reaches all of them: of each bucket, the weight whose gradient came last.

        Python in between kernels finds cold caches: a hook for each weight was seen in a network of many small layers.
        """
        if len(self._hooks) == len(self._fillings) or len(set(self._arrived)) < len(self._hooks):
            return
        order = {name: position for position, name in enumerate(self._arrived)}
        last = {max(filling.names, key=lambda name: order[name]) for filling in self._fillings}
        for name in self._hooks.keys() - last:
            self._hooks.pop(name).remove()

    def _reset(self) -> None:
        for filling in self._fillings:
            filling.parts, filling.flat, filling.work = {}, None, None
        self._launched, self._pass, self._arrived = 0, NO_PASS, []


def _local(gradient: Tensor) -> Tensor:
    local: Tensor = gradient._local_tensor  # type: ignore[attr-defined]
    return local


def _unsummed(gradient: Tensor | None) -> bool:
    return gradient is not None and any(placement.is_partial() for placement in gradient.placements)  # type: ignore[attr-defined]
