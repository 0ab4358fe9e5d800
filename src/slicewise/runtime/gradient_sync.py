"""Weight gradients summed in flat buckets while backward goes on.

    backward:   dL/dw6  dL/dw5  dL/dw4  dL/dw3 ...          end of backward
    buckets:      [ w6 w5 ] ---- all-reduce ----                 wait, hand out .grad
                                  [ w4 w3 ] ---- all-reduce ----

A bucket is one all-reduce over one set of axes (partition/buckets.py). Gradients that are complete as they are, because
the weight is sliced or the work repeated, are handed out without one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from slicewise.partition.buckets import Bucket
from slicewise.runtime.clock import span
from slicewise.runtime.groups import Groups
from slicewise.runtime.weights import Weights


@dataclass
class _Filling:
    """A bucket during one backward pass."""

    bucket: Bucket
    group: dist.ProcessGroup | None
    flat: Tensor | None = None  # reused from step to step while nobody else holds it
    parts: dict[str, Tensor] = field(default_factory=dict)
    work: dist.Work | None = None


class GradientSync:
    def __init__(self, weights: Weights, buckets: Sequence[Bucket], groups: Groups) -> None:
        self._weights = weights
        self._fillings = [_Filling(bucket, groups.of(bucket.axes)) for bucket in buckets]
        self._by_weight = {name: filling for filling in self._fillings for name in filling.bucket.weights}
        self._launched = 0
        self._scheduled = False
        for name, leaf in weights.leaves.items():
            if leaf.requires_grad:
                leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: self._ready(name, leaf))

    def _ready(self, name: str, leaf: Tensor) -> None:
        if not self._scheduled:
            # the engine runs this once, when the whole backward pass is done
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            self._scheduled = True
        gradient, leaf.grad = leaf.grad, None
        assert gradient is not None
        if name not in self._by_weight:
            self._hand_out(name, gradient)
            return
        filling = self._by_weight[name]
        filling.parts[name] = gradient
        if len(filling.parts) == len(filling.bucket.weights):
            self._launch_in_order()

    def _launch_in_order(self) -> None:
        """Every rank starts the same all-reduces in the same order."""
        while self._launched < len(self._fillings):
            filling = self._fillings[self._launched]
            if len(filling.parts) < len(filling.bucket.weights):
                return
            self._launch(filling)
            self._launched += 1

    def _launch(self, filling: _Filling) -> None:
        names = filling.bucket.weights
        if len(names) == 1:
            flat = filling.parts[names[0]].contiguous()
            filling.parts[names[0]] = flat
        else:
            parts = [filling.parts[name] for name in names]
            flat = self._flat(filling, parts)
            offset = 0
            for name, part in zip(names, parts, strict=True):
                view = flat[offset : offset + part.numel()].view(part.shape)
                filling.parts[name] = view.copy_(part)
                offset += part.numel()
        filling.work = dist.all_reduce(flat, group=filling.group, async_op=True)

    def _flat(self, filling: _Filling, parts: list[Tensor]) -> Tensor:
        """The bucket's buffer, unless last step's gradients still live in it."""
        held = any(self._weights.parameters[name].grad is not None for name in filling.bucket.weights)
        if filling.flat is None or held:
            fresh = parts[0].new_empty(sum(part.numel() for part in parts))
            filling.flat = fresh if filling.flat is None else filling.flat
            return fresh
        return filling.flat

    def _finish(self) -> None:
        for filling in self._fillings[: self._launched]:
            assert filling.work is not None
            with span("sync", filling.bucket.layers[0]):
                filling.work.wait()
            for name in filling.bucket.weights:
                self._hand_out(name, filling.parts[name])
        for filling in self._fillings:
            filling.parts, filling.work = {}, None
        self._launched, self._scheduled = 0, False

    def _hand_out(self, name: str, gradient: Tensor) -> None:
        parameter = self._weights.parameters[name]
        if parameter.grad is None:
            parameter.grad = self._weights.wrap(name, gradient)
        else:
            parameter.grad._local_tensor.add_(gradient)  # type: ignore[attr-defined]
