"""Plans that slice every layer along the same few dims, as far as it has them."""

from collections.abc import Iterable, Sequence
from itertools import product

from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import contract, refusal, sliceable_dims

SAMPLES, HEADS, TOKENS, KEYS = (Dim.N,), (Dim.A, Dim.F), (Dim.Q, *SPACE), (Dim.K, *SPACE)
_CUTS: dict[int, Sequence[tuple[tuple[Dim, ...], ...]]] = {  # by the number of axes
    1: [(SAMPLES,), (HEADS,), (TOKENS,), (KEYS,)],
    2: [(SAMPLES, TOKENS), (TOKENS, HEADS), (SAMPLES, HEADS), (TOKENS, KEYS)],
}


def cut_plans(graph: LayerGraph, mesh: Mesh) -> dict[str, dict[str, Slicing]]:
    """By sample, head, token and key; on two axes by pairs of them."""
    return {
        "/".join("".join(dims) for dims in wanted): cut_slicings(graph, mesh, wanted)
        for wanted in _CUTS[len(mesh.axes)]
    }


def cut_slicings(graph: LayerGraph, mesh: Mesh, wanted: Sequence[Iterable[Dim]]) -> dict[str, Slicing]:
    """Along each axis the first of the wanted dims that a layer has; along some axes nothing, where it must be."""

    def choice(layer: Layer) -> Slicing:
        has = sliceable_dims(layer)
        options = [[*(dim for dim in dims if dim in has), None] for dims in wanted]
        if layer.kind.has(Trait.EDGE):
            return contract(layer, mesh) or (None,) * len(mesh.axes)
        return next(slicing for slicing in product(*options) if refusal(layer, slicing, mesh) is None)

    return {layer.name: choice(layer) for layer in graph}
