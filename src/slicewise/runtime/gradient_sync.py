"""Weight gradients summed in flat buckets while backward goes on.

    backward:   dL/dw6  dL/dw5  dL/dw4  dL/dw3 ...          end of backward
    buckets:      [ w6 w5 ] ---- all-reduce ----                 wait, hand out .grad
                                  [ w4 w3 ] ---- all-reduce ----

A bucket is one all-reduce over one set of axes (partition/buckets.py). Gradients that are complete as they are, because
the weight is sliced or the work repeated, are handed out without one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.partition.buckets import Bucket
from slicewise.runtime.clock import follow, span
from slicewise.runtime.groups import Groups
from slicewise.runtime.weights import Weights

_NO_TASK = -1  # what the autograd engine calls "no backward pass is running"


@dataclass
class _Filling:
    """A bucket during one backward pass."""

    names: tuple[str, ...]  # of the weights that are trained
    axes: tuple[int, ...]
    group: dist.ProcessGroup | None
    parts: dict[str, Tensor] = field(default_factory=dict)
    work: dist.Work | None = None

    @property
    def full(self) -> bool:
        return len(self.parts) == len(self.names)


class GradientSync:
    def __init__(self, weights: Weights, buckets: Sequence[Bucket], groups: Groups) -> None:
        self._weights = weights
        trained = [tuple(name for name in bucket.weights if weights.leaves[name].requires_grad) for bucket in buckets]
        self._fillings = [
            _Filling(names, bucket.axes, groups.of(bucket.axes))
            for bucket, names in zip(buckets, trained, strict=True)
            if names
        ]
        self._by_weight = {name: filling for filling in self._fillings for name in filling.names}
        self._launched = 0
        self._task = _NO_TASK
        self._paused = False
        for name, leaf in weights.leaves.items():
            if leaf.requires_grad:
                leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: self._ready(name, leaf))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Backward passes inside sum nothing over ranks: `.grad` is Partial, and the next pass outside sums it all."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def _ready(self, name: str, leaf: Tensor) -> None:
        running = torch._C._current_graph_task_id()
        if running != self._task:  # a new backward pass; what one that failed left behind is forgotten
            self._reset()
            self._task = running
            # the engine runs this once, when the whole backward pass is done
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        gradient, leaf.grad = leaf.grad, None
        assert gradient is not None
        if name not in self._by_weight:
            self._hand_out(name, gradient)
        elif self._paused:
            self._keep(name, gradient)
        else:
            self._by_weight[name].parts[name] = self._with_kept(name, gradient)
            self._launch_full_ones()

    def _keep(self, name: str, gradient: Tensor) -> None:
        """Wait for a pass that sums; what is summed already counts once in the end, so each rank takes its share."""
        axes, parameter = self._by_weight[name].axes, self._weights.parameters[name]
        if parameter.grad is not None and not _unsummed(parameter.grad):
            gradient = gradient + _local(parameter.grad) / self._weights.groups.mesh.group_size(axes)
            parameter.grad = None
        parameter.grad = self._weights.wrap(name, self._with_kept(name, gradient), axes)

    def _with_kept(self, name: str, gradient: Tensor | None) -> Tensor:
        """`gradient` and what passes without a sync have left."""
        parameter = self._weights.parameters[name]
        if parameter.grad is None or not _unsummed(parameter.grad):
            assert gradient is not None
            return gradient
        kept, parameter.grad = _local(parameter.grad), None
        return kept if gradient is None else kept.add_(gradient)

    def _launch_full_ones(self) -> None:
        """Every rank starts the same all-reduces in the same order."""
        while self._launched < len(self._fillings) and self._fillings[self._launched].full:
            self._launch(self._fillings[self._launched])
            self._launched += 1

    def _launch(self, filling: _Filling) -> None:
        if len(filling.names) == 1:
            (name,) = filling.names
            filling.parts[name] = flat = filling.parts[name].contiguous()
        else:
            first = filling.parts[filling.names[0]]
            flat = first.new_empty(sum(part.numel() for part in filling.parts.values()))
            views = flat.split([filling.parts[name].numel() for name in filling.names])
            for name, view in zip(filling.names, views, strict=True):
                part = filling.parts[name]
                filling.parts[name] = view.view(part.shape).copy_(part)
        filling.work = follow(
            "sync", filling.names[0], lambda: dist.all_reduce(flat, group=filling.group, async_op=True)
        )

    def _finish(self) -> None:
        for filling in self._fillings[self._launched :]:
            self._complete(filling)
        for filling in self._fillings:
            if filling.work is not None:
                with span("sync", filling.names[0]):
                    filling.work.wait()
                for name, gradient in filling.parts.items():
                    self._hand_out(name, gradient)
        self._reset()

    def _reset(self) -> None:
        for filling in self._fillings:
            filling.parts, filling.work = {}, None
        self._launched, self._task = 0, _NO_TASK

    def _complete(self, filling: _Filling) -> None:
        """A bucket with weights that the loss did not reach: they count as zero, and keep no gradient."""
        if not self._paused:
            for name in set(filling.names) - set(filling.parts):
                if _unsummed(self._weights.parameters[name].grad):
                    filling.parts[name] = self._with_kept(name, None)
        reached = set(filling.parts)
        if not reached:
            return
        for name in filling.names:
            filling.parts.setdefault(name, torch.zeros_like(self._weights.leaves[name]))
        self._launch(filling)
        filling.parts = {name: part for name, part in filling.parts.items() if name in reached}

    def _hand_out(self, name: str, gradient: Tensor) -> None:
        parameter = self._weights.parameters[name]
        if parameter.grad is None:
            parameter.grad = self._weights.wrap(name, gradient)
        else:
            _local(parameter.grad).add_(gradient)


def _local(gradient: Tensor) -> Tensor:
    local: Tensor = gradient._local_tensor  # type: ignore[attr-defined]
    return local


def _unsummed(gradient: Tensor | None) -> bool:
    return gradient is not None and any(placement.is_partial() for placement in gradient.placements)  # type: ignore[attr-defined]
