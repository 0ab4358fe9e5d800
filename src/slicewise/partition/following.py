"""Slicings for layers that a plan does not name.

A dropout that drops nothing is no layer, until it is turned on. A cast is one only in some dtypes.
"""

from collections.abc import Mapping

from slicewise.cluster.mesh import Mesh
from slicewise.errors import PlanError
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings


def followed(slicings: Mapping[str, Slicing], graph: LayerGraph, mesh: Mesh) -> dict[str, Slicing]:
    """The plan's, for the layers of `graph`; one that the plan does not have is sliced as what it reads, or not at all.

    Any legal slicing computes the same. Weights lie as the plan says, so a layer that has some must be in it.
    """
    result = {name: slicings[name] for name in graph.index if name in slicings}
    for layer in (layer for layer in graph if layer.name not in result):
        if layer.weights or layer.kind is Kind.INPUT:
            raise PlanError(
                f"{layer.name}: the plan has no slicing for this layer, which the network has in other modes only; "
                "plan for the modes that are trained"
            )
        like = result[layer.inputs[0]] if layer.inputs else None
        result[layer.name] = like if like in legal_slicings(layer, mesh) else (None,) * len(mesh.axes)
    return result
