"""A network in few boxes: layers that follow each other alike are one, repeated blocks are drawn once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing


@dataclass(slots=True)
class Node:
    """A layer with those that only follow it: conv, batch norm, ReLU."""

    layers: list[Layer]
    slicing: Slicing
    inputs: list[int]  # nodes

    @property
    def head(self) -> Layer:
        """The one that matters: the first matrix product, else the first."""
        return next((layer for layer in self.layers if layer.kind.has(Trait.PRODUCT)), self.layers[0])


@dataclass(slots=True)
class Fold:
    """Nodes that stand for `times` blocks alike."""

    title: str
    times: int
    nodes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Folded:
    nodes: list[Node]
    folds: list[Fold]


def folded(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> Folded:
    nodes = _joined(graph, slicings)
    kept, stands_for, folds = _fold(nodes, list(range(len(nodes))), 1)
    number = {node: position for position, node in enumerate(kept)}

    def place(node: int) -> int:
        while node in stands_for:
            node = stands_for[node]
        return number[node]

    shown = []
    for position, node in enumerate(kept):
        sources = dict.fromkeys(place(source) for source in nodes[node].inputs)
        shown.append(Node(nodes[node].layers, nodes[node].slicing, [source for source in sources if source < position]))
    # what reads a folded block's later copies reads the one that is drawn
    for node, target in stands_for.items():
        for source in nodes[node].inputs:
            at, to = place(source), place(target)
            if at < to and at not in shown[to].inputs:
                shown[to].inputs.append(at)
    return Folded(shown, [Fold(fold.title, fold.times, [place(node) for node in fold.nodes]) for fold in folds])


def _joined(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> list[Node]:
    """Forks are left out: their readers read what they read. What only follows, sliced alike, joins its producer."""
    nodes: list[Node] = []
    home: dict[str, int] = {}
    for layer in graph:
        sources = list(dict.fromkeys(home[source] for source in layer.inputs))
        if layer.kind is Kind.FORK and sources:
            home[layer.name] = sources[0]
            continue
        alone = len(layer.inputs) == 1 and graph[layer.inputs[0]].kind is not Kind.FORK
        follows = alone and layer.kind.has(Trait.FOLLOWS)
        if follows and nodes[sources[0]].slicing == slicings[layer.name] and _is_last(nodes[sources[0]], layer):
            nodes[sources[0]].layers.append(layer)
            home[layer.name] = sources[0]
            continue
        home[layer.name] = len(nodes)
        nodes.append(Node([layer], slicings[layer.name], sources))
    return nodes


def _is_last(node: Node, layer: Layer) -> bool:
    return node.layers[-1].name == layer.inputs[0] and node.layers[0].kind is not Kind.INPUT


def _fold(nodes: Sequence[Node], members: list[int], depth: int) -> tuple[list[int], dict[int, int], list[Fold]]:
    """By blocks whose module path has `depth` names: what is drawn, what the others are drawn as, the folds."""
    groups: list[tuple[str, list[int]]] = []
    for member in members:
        path = nodes[member].head.name.split(".")
        prefix = ".".join(path[:depth]) if len(path) > depth else ""
        if prefix and groups and groups[-1][0] == prefix:
            groups[-1][1].append(member)
        else:
            groups.append((prefix, [member]))
    kept: list[int] = []
    stands_for: dict[int, int] = {}
    folds: list[Fold] = []
    at = 0
    while at < len(groups):
        prefix, own = groups[at]
        if not prefix:
            kept += own
            at += 1
            continue
        same = at + 1
        while same < len(groups) and _alike(nodes, groups[at], groups[same]):
            stands_for |= dict(zip(groups[same][1], own, strict=True))
            same += 1
        inner_kept, inner_stands, inner_folds = _fold(nodes, own, depth + 1)
        kept, stands_for, folds = kept + inner_kept, stands_for | inner_stands, folds + inner_folds
        if same - at > 1:
            last = groups[same - 1][0].rsplit(".", 1)[-1]
            folds.append(Fold(f"{prefix} … {last}", same - at, inner_kept))
        at = same
    return kept, stands_for, folds


def _alike(nodes: Sequence[Node], one: tuple[str, list[int]], other: tuple[str, list[int]]) -> bool:
    return _stem(one[0]) == _stem(other[0]) and _signature(nodes, *one) == _signature(nodes, *other)


def plain_name(name: str) -> str:
    """Without the number that tells calls of one function apart: `layer1.0.add__5` is `layer1.0.add`."""
    return re.sub(r"(?<=[a-z])_+\d+$", "", name)


def _stem(prefix: str) -> str:
    return re.sub(r"\d+$", "", prefix)


def _signature(nodes: Sequence[Node], prefix: str, members: list[int]) -> object:
    """Names inside the block, kinds, slicings and shapes of products, and who reads whom."""
    first = members[0]
    return tuple(
        (
            tuple((plain_name(layer.name.removeprefix(prefix)), layer.kind) for layer in nodes[member].layers),
            nodes[member].slicing,
            nodes[member].head.shape if nodes[member].head.kind.has(Trait.PRODUCT) else (),
            tuple(source - first for source in nodes[member].inputs if source >= first),
        )
        for member in members
    )
