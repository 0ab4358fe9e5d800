"""Parameters and buffers among the values of a traced program."""

from dataclasses import dataclass
from typing import Any

from slicewise.graph.dims import WHOLE
from slicewise.graph.operators import Source


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter or buffer, maybe under more dims of size 1 than it has."""

    name: str
    source: Source
    shape: tuple[int, ...]
    own_shape: tuple[int, ...]

    def own_dims(self, dims: str) -> str:
        """The letters of the tensor itself, from those of its view."""
        if self.shape == self.own_shape:
            return dims
        named = iter(letter for letter, size in zip(dims, self.shape, strict=True) if size != 1)
        return "".join(WHOLE if size == 1 else next(named) for size in self.own_shape)

    @property
    def reference(self) -> dict[str, Any]:
        view = {} if self.shape == self.own_shape else {"shape": list(self.shape)}
        return {self.source.value: self.name, **view}
