"""A fingerprint changes whenever forward() computes something else, or there is none."""

import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.graph.fingerprint import fingerprint
from slicewise.graph.zoo import ZOO

GAIN = 1.0


def _set(gain: float) -> None:
    global GAIN
    GAIN = gain
    settings = ModuleType("slicewise_settings")
    settings.SCALE = gain  # type: ignore[attr-defined]
    sys.modules["slicewise_settings"] = settings
    _doubled.gain = gain  # type: ignore[attr-defined]


def _doubled(x: Tensor) -> Tensor:
    return 2 * x


class _Table(dict[str, float]):
    gain = 1.0


class _Numbers(list[float]):
    gain = 1.0


class _Text(str):
    gain = 1.0


class _Meta(type):
    @property
    def gain(cls) -> float:
        return GAIN


class _OfMeta(metaclass=_Meta):
    pass


class _Held(nn.Module):
    """forward() reads an attribute of something that the model holds."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held
        self.held.gain = GAIN

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = x * self.held.gain
        return scaled


class _Imports(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        from slicewise_settings import SCALE  # type: ignore[import-not-found]

        scaled: Tensor = x * SCALE
        return scaled


class _Globals(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = x * globals()["GAIN"]
        return scaled


class _OfFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return _doubled(x) * _doubled.gain  # type: ignore[attr-defined,no-any-return]


class _OfMetaclass(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * _OfMeta.gain


class _Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        called: Tensor = self.function(x)
        return called


class _OnDevice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, device="cpu" if GAIN == 1.0 else "meta")

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y if y.is_cpu else 2 * y


def _wrapped() -> Callable[..., Any]:
    """A function that says it is torch's."""
    if GAIN == 1.0:

        @wraps(F.relu)
        def function(x: Tensor) -> Tensor:
            return F.softplus(x)
    else:

        @wraps(F.relu)
        def function(x: Tensor) -> Tensor:
            return F.softplus(x) * 3

    return function


MODELS: dict[str, Callable[[], nn.Module]] = {
    "imported inside": _Imports,
    "globals()": _Globals,
    "an attribute of a function": _OfFunction,
    "an attribute of a table": lambda: _Held(_Table()),
    "an attribute of a list": lambda: _Held(_Numbers()),
    "an attribute of a text": lambda: _Held(_Text()),
    "an attribute of a weight": lambda: _Held(nn.Parameter(torch.zeros(1))),
    "a property of a metaclass": _OfMetaclass,
    "a function with another's name": lambda: _Calls(_wrapped()),
    "a cached function with another's name": lambda: _Calls(lru_cache(_wrapped())),
    "the device": _OnDevice,
}


@pytest.mark.parametrize("name", MODELS)
def test_whatever_forward_depends_on_changes_the_fingerprint(name: str) -> None:
    found = []
    for gain in (1.0, 3.0):
        _set(gain)
        found.append(fingerprint(MODELS[name](), [((4,), torch.float32)]))
    _set(1.0)
    assert found[0] is None or found[0] != found[1]


def test_hooks_on_all_modules_leave_no_fingerprint() -> None:
    hook = nn.modules.module.register_module_forward_hook(lambda _module, _given, y: y * 2)
    try:
        assert fingerprint(nn.Linear(4, 4), [((4,), torch.float32)]) is None
    finally:
        hook.remove()


@pytest.mark.parametrize("name", ["alexnet", "resnet50", "unet3d", "vit_b_16"])
def test_plain_networks_have_a_fingerprint(name: str) -> None:
    with torch.device("meta"):
        assert fingerprint(ZOO[name].build(), [((4,), torch.float32)]) is not None
