"""Numbers that forward() works out from how many samples there are: a captured network keeps those of one batch.

y * (1.0 / len(x))             would stay what it was for the batch that was captured: refused
y * 2 if len(x) > 10 else y    would stay the way that this batch took: refused
y.view(len(x), -1), y / len(x) the number of samples itself, or a multiple: the captured network follows it
y / 211                        a constant, also where it happens to be the number of samples that was captured with
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensor
from torch.overrides import TorchFunctionMode

from slicewise.errors import GraphError
from slicewise.graph.multihead import batch_kept_apart

Call = tuple[str, tuple[Any, ...]]  # a function and the plain values that it is given


class _Calls(TorchFunctionMode):
    """What is called, in order. Reading a tensor's shape and the like is no call."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Call] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name not in ("__get__", "size", "dim", "numel", "__len__"):
            self.made.append((name, tuple(_plain((args, dict(kwargs or {}))))))
        return func(*args, **(kwargs or {}))


def constants(model: nn.Module, name: str, probes: Sequence[tuple[int, Any, Any]]) -> set[int]:
    """Whole numbers that forward() gives to its calls whatever the number of samples. `probes`: samples, and inputs.

    Refuses a model that two numbers of samples lead to different computations.
    """
    (one, *first), (other, *second) = probes
    mine, theirs = _calls(model, *first), _calls(model, *second)
    if mine is not None and theirs is not None and len(mine) != len(theirs):
        mine = _calls(model, *first)  # what forward() remembers of a first pass it works out no more
    found: set[int] = set()
    if mine is None or theirs is None:  # nothing to compare: it takes one of the two sizes alone
        return found
    for here, there in zip_longest(mine, theirs):
        if here is None or there is None or here[0] != there[0]:
            raise GraphError(
                f"{name}: forward() computes something else for {other} samples than for {one}, which a captured "
                "network would not do; let it not depend on the number of samples"
            )
        for a, b in zip_longest(here[1], there[1]):
            if not _follows(a, one, b, other):
                raise GraphError(
                    f"{name}: forward() calls {here[0]} with {a} for {one} samples and with {b} for {other}, which a "
                    "captured network would not do; use means, or len(x) itself where tensors are multiplied or divided"
                )
            if type(a) is int and a == b:
                found.add(a)
    return found


def _calls(model: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> list[Call] | None:
    """In a pass without content. What lies beside the model's own tensors cannot be taken along: a slower way can."""
    for way in (_without_content, _fake):
        try:
            with warnings.catch_warnings(), batch_kept_apart():
                warnings.simplefilter("ignore")
                return way(model, given, named)
        except Exception:
            continue
    return None


def _without_content(model: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> list[Call]:
    held = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    own = {name: tensor.detach().to("meta") for name, tensor in held}
    given, named = torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda x: torch.empty(x.shape, dtype=x.dtype, device="meta"), (given, named)
    )
    calls = _Calls()
    with torch.no_grad(), calls:
        torch.func.functional_call(model, own, given, dict(named))
    return calls.made


def _fake(model: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> list[Call]:
    tensors = [x for x in (*given, *named.values()) if isinstance(x, FakeTensor)]
    calls = _Calls()
    with tensors[0].fake_mode, torch.no_grad(), calls:
        model(*given, **named)
    return calls.made


def _plain(value: Any) -> Iterator[Any]:
    if isinstance(value, (bool, int, float, str)):
        yield value
    elif isinstance(value, slice):
        yield from _plain((value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _plain(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _plain(item)


def _follows(one: Any, samples: int, other: Any, others: int) -> bool:
    """Whether two values are the same, or the same multiple of their numbers of samples."""
    if type(one) is int and type(other) is int:
        return one == other or one * others == other * samples
    return bool(one == other) or (one != one and other != other)
