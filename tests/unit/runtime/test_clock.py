import pytest
import torch
from torch import Tensor

from slicewise.runtime.clock import Clock, backpropagate, computed, running, span


class _Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        raise ValueError("boom")


def _network(clock: Clock) -> None:
    x = torch.ones(3, requires_grad=True)
    with running(clock):
        y = computed("double", lambda given: given[0] * 2, [x], in_backward=False)
        with span("transfer", "square"):
            pass
        y = computed("as it is", lambda given: given[0], [y], in_backward=True)
        y = computed("square", lambda given: given[0] ** 2, [y], in_backward=True)
        backpropagate(y.sum())


def test_kernels_are_timed_forward_and_found_again_backward() -> None:
    clock = Clock(layers=True)
    _network(clock)
    assert [(kernel.term, kernel.layer) for kernel in clock.kernels] == [
        ("forward", "double"),
        ("forward", "as it is"),
        ("forward", "square"),
    ]
    assert [layer for _, layer in clock.marks] == ["square", "double"]  # what hands its input on has no backward
    assert [(one.term, one.layer) for one in clock.spans] == [("transfer", "square")]
    assert clock.backward_start_s is not None
    assert clock.kernels[-1].stop_s <= clock.backward_start_s <= clock.marks[0][0]


def test_a_clock_for_whole_steps_sees_communication_only() -> None:
    clock = Clock()
    _network(clock)
    assert not clock.kernels
    assert not clock.marks
    assert len(clock.spans) == 1


def test_what_fails_says_at_which_layer() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(ZeroDivisionError) as forward:
        computed("conv1", lambda given: given[0] / (1 // 0), [x], in_backward=True)
    assert forward.value.__notes__ == ["layer conv1"]
    y = computed("conv2", lambda given: _Fails.apply(given[0]), [x], in_backward=True)
    y = computed("relu", lambda given: given[0].relu(), [y], in_backward=True)
    with pytest.raises(ValueError, match="boom") as backward:
        backpropagate(y.sum())
    assert backward.value.__notes__ == ["layer conv2, backward"]
