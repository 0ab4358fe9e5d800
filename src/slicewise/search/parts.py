"""Where two plans differ: layers that go together because edges or shared weights join them."""

from collections.abc import Mapping, Sequence

from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing


def joined(graph: LayerGraph, one: Mapping[str, Slicing], other: Mapping[str, Slicing]) -> list[list[int]]:
    """The positions of layers that differ, in sets that no edge and no shared weight joins."""
    return connected(graph, [n for n, layer in enumerate(graph) if one[layer.name] != other[layer.name]])


def connected(graph: LayerGraph, nodes: Sequence[int]) -> list[list[int]]:
    """These layers in sets that no edge and no shared weight joins."""
    parent = {node: node for node in nodes}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    ties = ((tie[0], tied) for tie in graph.ties for tied in tie[1:])
    for before, after in (*((i, j) for i, j, _ in graph.edges), *ties):
        if before in parent and after in parent:
            parent[root(after)] = root(before)
    groups: dict[int, list[int]] = {}
    for node in parent:
        groups.setdefault(root(node), []).append(node)
    return list(groups.values())
