"""Which values of a traced program share memory: who else sees what an operator writes in place."""

import torch
from torch import fx

from slicewise.errors import GraphError


class Aliases:
    """Nodes are identical (the same tensor), or views of the same memory, or neither."""

    def __init__(self, graph: fx.Graph) -> None:
        self._position = {node: position for position, node in enumerate(graph.nodes)}
        self._identical: dict[fx.Node, fx.Node] = {}
        self._memory: dict[fx.Node, fx.Node] = {}
        self._chunk: dict[fx.Node, fx.Node] = {}  # node -> the chunk of a split that it lies in

    def join(self, node: fx.Node, called: fx.Node, *, identical: bool) -> None:
        """`node` is what `called` returns; its schema says whether that is a view of what it was given."""
        base = _viewed(called)
        if base is not None:
            self._memory[node] = self._memory.get(base, base)
            if node is not called:
                self._chunk[node] = node
            elif base in self._chunk:
                self._chunk[node] = self._chunk[base]
            if identical:
                self._identical[node] = self._identical.get(base, base)

    def written(self, node: fx.Node) -> list[fx.Node]:
        """The names under which the tensor that `node` writes to is known; views of it must not be read again."""
        base = node.args[0]
        assert isinstance(base, fx.Node)
        root, memory = self._identical.get(base, base), self._memory.get(base, base)
        self._identical[node], self._memory[node] = root, memory
        identical = [other for other in self._position if self._identical.get(other, other) is root]
        for other in self._position:
            if self._memory.get(other, other) is memory and other not in identical and not self._apart(base, other):
                readers = [user for user in other.users if self._position[user] > self._position[node]]
                if readers:
                    raise GraphError(
                        f"{node.name} writes in place into memory that {readers[0].name} reads under another shape "
                        "later; use the operator that returns a new tensor"
                    )
        return identical

    def _apart(self, one: fx.Node, other: fx.Node) -> bool:
        """Whether they lie in different chunks of the same split."""
        mine, theirs = self._chunk.get(one), self._chunk.get(other)
        return None not in (mine, theirs) and mine is not theirs and mine.args[0] is theirs.args[0]  # type: ignore[union-attr]


def _viewed(called: fx.Node) -> fx.Node | None:
    assert isinstance(called.target, torch._ops.OpOverload)
    schema = called.target._schema
    if not schema.returns or schema.returns[0].alias_info is None:
        return None
    base = called.args[0] if called.args else None
    return base if isinstance(base, fx.Node) else None
