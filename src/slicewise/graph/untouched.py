"""What forward() does besides computing: a captured network does it once, the model would do it in every step.

self.steps += 1                a number that layers depend on would stay as it was captured: refused
self.size = x.shape[2]         remembered, and the same layers next time: no harm
random.random() < 0.1          drawn once and for all: refused
register_forward_hook(...)     at the first step, as transformers records hidden states: stays, as after any step
"""

import random
from types import TracebackType
from typing import Any, Self

import numpy as np
from torch import nn

from slicewise.errors import GraphError

_PLAIN = (bool, int, float, complex, str, type(None))
_MODE = "training"  # of a module, which the captured network follows
_NONE = object()
Numbers = dict[str, Any]  # of all modules, by their names


class Untouched:
    """`with Untouched(model, name) as watched`: looks at the model's numbers where its forward() ends.

    Those that it changed are put back at the end, whoever changed them. Not where hooks came: some number may say that
    they are on, and a model that forgets it would put them on twice.
    """

    def __init__(self, model: nn.Module, name: str) -> None:
        self._model, self._name = model, name

    def __enter__(self) -> Self:
        self._before = self._after = self._now()
        self._drawn = _drawn()
        self._hooks = self._hooked()
        self._hook = self._model.register_forward_hook(self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hook.remove()
        if self._hooked() == self._hooks:
            self._set(self._before)
        if error is None and _drawn() != self._drawn:
            raise GraphError(
                f"{self._name}: forward() draws numbers from Python's or numpy's random, which would be drawn once and "
                "for all; draw them with torch"
            )

    def changed(self) -> bool:
        """Whether forward() changed any number; if so, the model is left with those that the next step would find."""
        changed = bool(self._differing(self._after))
        if changed:
            self._set(self._after)
        return changed

    def refusal(self) -> GraphError:
        told = ", ".join(self._differing(self._after))
        return GraphError(
            f"{self._name}: forward() changes {told} and computes something else in the next step, which a captured "
            "network would not do; change it outside of forward()"
        )

    def _note(self, *_: object) -> None:
        if self._after is self._before:  # the first step
            self._after = self._now()

    def _differing(self, numbers: Numbers) -> list[str]:
        paths = dict.fromkeys((*self._before, *numbers))
        return [path for path in paths if not _same(self._before.get(path, _NONE), numbers.get(path, _NONE))]

    def _set(self, numbers: Numbers) -> None:
        now = self._now()
        for path in dict.fromkeys((*now, *numbers)):
            module, _, attribute = path.rpartition(".")
            owner = self._model.get_submodule(module)
            if path not in numbers:
                delattr(owner, attribute)
            elif path not in now or not _same(now[path], numbers[path]):
                setattr(owner, attribute, numbers[path])

    def _hooked(self) -> list[int]:
        """How many hooks of each kind every module has."""
        return [
            len(value)
            for module in self._model.modules()
            for attribute, value in vars(module).items()
            if attribute.endswith("_hooks") and isinstance(value, dict)
        ]

    def _now(self) -> Numbers:
        return {
            f"{name}.{attribute}" if name else attribute: value
            for name, module in self._model.named_modules()
            for attribute, value in vars(module).items()
            if _plain(value) and attribute != _MODE
        }


def _plain(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_plain, value)))


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and (one is other or one == other)


def _drawn() -> tuple[object, ...]:
    """Where the generators of random numbers are."""
    state = np.random.get_state(legacy=False)
    assert isinstance(state, dict)
    return random.getstate(), state["state"]["key"].tobytes(), state["state"]["pos"]
