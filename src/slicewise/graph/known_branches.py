"""Branches on values whose way is known.

`if not torch.isfinite(x).all():` is captured as for finite numbers, which is how a network trains.
`if torch.rand([]) < self.layerdrop:` is not taken where the layer drop is 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_ANSWERS = {"isfinite": True, "isinf": False, "isnan": False}
_KEEP = ("all", "any")


class KnownBranches(TorchFunctionMode):
    """Such tests know their answer where forward() branches on them; as tensors they are as ever."""

    def __init__(self) -> None:
        super().__init__()
        # by id; the tensor is kept, so that the id stays its own
        self._answers: dict[int, tuple[Tensor, bool]] = {}
        self._drawn: dict[int, Tensor] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        first = self._answers.get(id(args[0])) if args and _as_made(args[0]) else None
        if name == "__bool__" and first is not None:
            return first[1]
        result = func(*args, **(kwargs or {}))
        answer = _ANSWERS.get(name) if first is None else self._followed(name, args, first[1])
        if name == "rand":
            self._drawn[id(result)] = result
        if (
            name in ("__lt__", "lt")
            and id(args[0]) in self._drawn
            and _as_made(args[0])
            and isinstance(args[1], (int, float))
            and args[1] <= 0
        ):
            answer = False  # they are 0 at least
        if answer is not None and isinstance(result, Tensor):
            self._answers[id(result)] = (result, answer)
        return result

    def _followed(self, name: str, args: tuple[Any, ...], answer: bool) -> bool | None:
        """What becomes of an answer."""
        if name in _KEEP:
            return answer
        if name in ("__invert__", "logical_not", "bitwise_not"):
            return not answer
        other = self._answers.get(id(args[1])) if len(args) > 1 else None
        if other is None or name not in ("__or__", "__and__", "logical_or", "logical_and"):
            return None
        return answer or other[1] if name.endswith(("or", "or__")) else answer and other[1]


def _as_made(value: Any) -> bool:
    """Whether nothing was written into it since."""
    return not isinstance(value, Tensor) or value._version == 0
