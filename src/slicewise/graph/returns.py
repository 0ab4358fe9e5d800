"""What forward() returns: a tensor, or tuples, lists, dicts and registered classes of tensors and plain values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.errors import GraphError

Plain = None | bool | int | float | str

# the structures that a file may name: torch imports what the text of any other one asks for, and a file runs no code
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """How the outputs of a graph are handed over, as the model itself does it.

    Structures are torch's (`torch.utils._pytree`), which knows the built-in ones and what libraries register.
    """

    # an output's number; {"value": None}: returned as it is; {"held": "scale"}: a weight, which a sliced network lacks
    leaves: tuple[int | Mapping[str, Plain], ...]
    tree: str | None  # torch's own text for a structure of plain containers; None for others
    spec: Any = field(default=None, compare=False, repr=False)  # the structure itself, where the model was at hand

    @classmethod
    def of(cls, spec: Any, leaves: Sequence[int | Mapping[str, Plain]]) -> "Returns":
        from torch.utils import _pytree

        try:
            tree = _pytree.treespec_dumps(spec)
        except (NotImplementedError, ValueError):
            tree = None
        return cls(leaves=tuple(leaves), tree=None if tree is None or _size(tree) is None else tree, spec=spec)

    def to_dict(self) -> dict[str, Any] | None:
        """None where the structure cannot be told in a file."""
        return None if self.tree is None else {"tree": self.tree, "leaves": list(self.leaves)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Returns | None":
        """None where the file names a class: the model itself will tell."""
        size = _size(fields["tree"])
        if size is None:
            return None
        if size != len(fields["leaves"]):
            raise GraphError(f"returns.tree holds {size} items, returns.leaves {len(fields['leaves'])}")
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


def _size(tree: str) -> int | None:
    """How many items a structure of plain containers holds; None where there is any other class."""
    try:
        version, root = json.loads(tree)
        return _items(root, _DEEPEST) if version == 1 else None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise GraphError(f"returns.tree is not torch's text for a structure (got {tree[:60]!r})") from error


def _items(node: Mapping[str, Any], deepest: int) -> int | None:
    kind, context, children = node["type"], node["context"], node["children_spec"]
    if deepest == 0:
        raise ValueError
    if kind is None:
        if context is not None or children:
            raise ValueError
        return 1
    if kind not in _CONTAINERS:
        return None
    keys = json.loads(context)
    if keys is not None and (len(keys) != len(children) or not all(isinstance(key, Plain) for key in keys)):
        raise ValueError
    if (keys is None) != (kind in ("builtins.tuple", "builtins.list")):
        raise ValueError
    sizes = [_items(child, deepest - 1) for child in children]
    return None if None in sizes else sum(size for size in sizes if size is not None)
