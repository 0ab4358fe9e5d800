"""How a network is trained, as far as it costs time and memory."""

from dataclasses import asdict, dataclass
from typing import Any

from slicewise.dtype import DTYPES
from slicewise.errors import UnknownName
from slicewise.graph.chunks import with_local_statistics
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.rings import with_rings
from slicewise.partition.buckets import BUCKET_BYTES

OPTIMIZER_STATE = {"sgd": 0, "momentum": 1, "adam": 2}  # items kept per weight
BATCHNORMS = ("exact", "local")
WEIGHT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """`recompute`: outputs of layers without a matrix product are not kept but computed again in backward."""

    dtype: str = "fp32"
    optimizer: str = "sgd"
    recompute: bool = False
    batchnorm: str = "exact"  # "local": per chunk of batch / ranks samples, as DDP has them
    bucket_bytes: int = BUCKET_BYTES  # of weight gradients that are summed together
    rings: tuple[str, ...] = ()  # attention layers whose keys and values are passed round, not gathered

    def __post_init__(self) -> None:
        for what, name, known in (
            ("dtype", self.dtype, DTYPES),
            ("optimizer", self.optimizer, OPTIMIZER_STATE),
            ("batchnorm", self.batchnorm, BATCHNORMS),
        ):
            if name not in known:
                raise UnknownName(what, name, known)

    def normalised(self, graph: LayerGraph, ranks: int) -> LayerGraph:
        """`graph` as this many devices train it: its batch norms, and its attention's keys."""
        graph = with_rings(graph, self.rings)
        return with_local_statistics(graph, ranks) if self.batchnorm == "local" else graph

    @property
    def item_bytes(self) -> int:
        """Of one activation."""
        return DTYPES[self.dtype].item_bytes

    def to_dict(self) -> dict[str, Any]:
        """As plan files have it."""
        return asdict(self) | {"rings": list(self.rings)}

    def options(self) -> dict[str, Any]:
        """As arguments of `slicewise.plan`, which finds a size of buckets and rings itself."""
        return {name: value for name, value in asdict(self).items() if name not in ("bucket_bytes", "rings")}

    @property
    def bucket_items(self) -> int:
        """Gradients that fill a bucket."""
        return max(1, self.bucket_bytes // WEIGHT_BYTES)

    @property
    def state_items(self) -> int:
        """Items that the optimizer keeps per weight."""
        return OPTIMIZER_STATE[self.optimizer]


PLAIN = Training()
