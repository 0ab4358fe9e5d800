"""Which dim of a layer its tokens are: what sequence parallelism slices."""

from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.legal import sliceable_dims


def token_dim(layer: Layer) -> Dim | None:
    """The outermost dim of space that can be sliced, or queries; None where a layer has neither.

    Tokens that come from an image keep the letter of its rows. Windows are sliced by rows of windows.
    """
    if layer.kind.has(Trait.EDGE):
        return None
    known = sliceable_dims(layer)
    return next((dim for dim in (*SPACE, Dim.Q) if dim in known and dim in layer.dims), None)


def has_tokens(layer: Layer) -> bool:
    """Whether it is attention: fused, or the product of queries with keys."""
    return layer.kind is Kind.ATTENTION or (layer.kind is Kind.MATMUL and {Dim.N, Dim.Q} <= set(layer.dims))
