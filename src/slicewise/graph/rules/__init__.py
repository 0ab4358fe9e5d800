"""What slicewise knows of PyTorch's operators, one family per file."""

from slicewise.graph.operators import RULES
from slicewise.graph.rules import (
    attention,
    contractions,
    framing,
    losses,
    norms,
    pointwise,
    pooling,
    products,
    reductions,
    upsampling,
    views,
)

__all__ = [
    "RULES",
    "attention",
    "contractions",
    "framing",
    "losses",
    "norms",
    "pointwise",
    "pooling",
    "products",
    "reductions",
    "upsampling",
    "views",
]
