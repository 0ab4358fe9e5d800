"""What forward() returns: a tensor, or tuples, lists, dicts and registered classes of tensors and plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Plain = None | bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """How the outputs of a graph are handed over, as the model itself does it.

    Structures are torch's (`torch.utils._pytree`), which knows the built-in ones and what libraries register.
    """

    # an output's number; {"value": None}: returned as it is; {"held": "scale"}: a weight, which a sliced network lacks
    leaves: tuple[int | Mapping[str, Plain], ...]
    tree: str | None  # torch's own text for the structure; None for classes that have no text
    spec: Any = field(default=None, compare=False, repr=False)  # the structure itself, where the model was at hand

    @classmethod
    def of(cls, spec: Any, leaves: Sequence[int | Mapping[str, Plain]]) -> "Returns":
        from torch.utils import _pytree

        try:
            tree = _pytree.treespec_dumps(spec)
        except (NotImplementedError, ValueError):
            tree = None
        return cls(leaves=tuple(leaves), tree=tree, spec=spec)

    def to_dict(self) -> dict[str, Any] | None:
        """None where the structure cannot be told in a file."""
        return None if self.tree is None else {"tree": self.tree, "leaves": list(self.leaves)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Returns":
        return cls(leaves=tuple(fields["leaves"]), tree=fields["tree"])

    @property
    def held(self) -> str | None:
        """A tensor among what is returned that is not computed, by name."""
        return next((str(leaf["held"]) for leaf in self.leaves if isinstance(leaf, Mapping) and "held" in leaf), None)

    def build(self, outputs: Sequence[Any]) -> Any:
        from torch.utils import _pytree

        spec = _pytree.treespec_loads(self.tree) if self.spec is None else self.spec
        values = [outputs[leaf] if isinstance(leaf, int) else leaf["value"] for leaf in self.leaves]
        return _pytree.tree_unflatten(values, spec)
