"""Models with an operator that fails on rank 1, forward or backward, and one whose numbers overflow."""

import os

import torch
from torch import Tensor, nn


def _fail_on_rank_one(direction: str) -> None:
    if os.environ.get("RANK") == "1":
        raise RuntimeError(f"no luck {direction}")


@torch.library.custom_op("slicewise_tests::forward_fails", mutates_args=())
def forward_fails(x: Tensor) -> Tensor:
    _fail_on_rank_one("forward")
    return x.clone()


@torch.library.custom_op("slicewise_tests::backward_fails", mutates_args=())
def backward_fails(x: Tensor) -> Tensor:
    return x.clone()


@forward_fails.register_fake
@backward_fails.register_fake
def _shape(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _backward(context: object, gradient: Tensor) -> Tensor:
    _fail_on_rank_one("backward")
    return gradient


forward_fails.register_autograd(lambda context, gradient: gradient)
backward_fails.register_autograd(_backward)


class _Failing(nn.Module):
    def __init__(self, operator: object) -> None:
        super().__init__()
        self.first, self.last, self.operator = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), operator

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.operator(self.first(x)))  # type: ignore[operator]
        return y


def fails_forward() -> tuple[nn.Module, Tensor]:
    return _Failing(forward_fails), torch.zeros(1, 3, 8, 8)


def fails_backward() -> tuple[nn.Module, Tensor]:
    return _Failing(backward_fails), torch.zeros(1, 3, 8, 8)


class _Overflowing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.exp(self.only(x) * 1e30)
        return y


def overflows() -> tuple[nn.Module, Tensor]:
    return _Overflowing(), torch.zeros(1, 3, 8, 8)
