"""The same network in other modes or sizes: which of its layers are which.

Names that come from the tracer are numbered through the whole network (`layer1.0.add__7`), and a norm that rests
counts one operator less. So layers are matched in order, by their names without those numbers.
"""

import re
from dataclasses import replace
from difflib import SequenceMatcher

from slicewise.graph.layer_graph import LayerGraph

_NUMBER = re.compile(r"_+\d*(?=\.fork$|\.part\d+$|#\d+$|$)")


def renamed(graph: LayerGraph, like: LayerGraph) -> LayerGraph:
    """`graph` with the names that `like` has for the same layers; a layer of its own keeps a name of its own."""
    own, known = [_key(name) for name in graph.index], [_key(name) for name in like.index]
    if list(graph.index) == list(like.index):
        return graph
    theirs = list(like.index)
    names: dict[str, str] = {}
    for block in SequenceMatcher(None, own, known, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            names[graph.layers[block.a + step].name] = theirs[block.b + step]
    taken = set(theirs)
    for name in (name for name in graph.index if name not in names):
        new = name
        while new in taken:
            new += "'"
        names[name] = new
        taken.add(new)
    layers = tuple(
        replace(layer, name=names[layer.name], inputs=tuple(names[source] for source in layer.inputs))
        for layer in graph
    )
    return replace(graph, layers=layers)


def _key(name: str) -> str:
    return _NUMBER.sub("", name)
