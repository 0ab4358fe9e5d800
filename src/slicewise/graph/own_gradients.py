"""Gradients that forward() makes by itself: a captured network has those of its operators alone.

Reversed.apply(x)       a torch.autograd.Function with a backward of its own: refused
x.register_hook(...)    changes or reads a gradient on its way: refused

torch's own functions, such as those of torch.utils.checkpoint, give the operators' gradients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch.autograd import Function


class OwnGradient(Exception):
    """What forward() does to gradients, in words."""


@contextmanager
def no_own_gradients() -> Iterator[None]:
    """While a model is captured: raise where forward() makes gradients by itself."""
    apply, register_hook = Function.__dict__["apply"], torch.Tensor.register_hook

    def checked(function: type[Function], *given: Any, **named: Any) -> Any:
        if function.__module__.partition(".")[0] != "torch":
            raise OwnGradient(
                f"forward() calls {function.__qualname__}.apply(), whose own backward() a captured network would not "
                "run; write it in operators that PyTorch differentiates"
            )
        return apply.__func__(function, *given, **named)

    def refused(*_: object, **__: object) -> NoReturn:
        raise OwnGradient(
            "forward() hooks a tensor (register_hook), which would not run in a captured network; hook the network's "
            "output instead"
        )

    Function.apply = classmethod(checked)  # type: ignore[method-assign, assignment]
    torch.Tensor.register_hook = refused  # type: ignore[method-assign]
    try:
        yield
    finally:
        Function.apply = apply  # type: ignore[method-assign]
        torch.Tensor.register_hook = register_hook  # type: ignore[method-assign]
