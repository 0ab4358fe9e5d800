"""What layers were seen to take on a device: a line per kind and direction, fitted by `slicewise calibrate`.

seconds = call_s + s_per_flop * FLOPs + s_per_item * items in and out + s_per_weight * weights

No term is negative, so a part never takes longer than the whole, nor all parts together less than it. Of layers that
are no matrix product, the FLOPs are the items that windows read. `cost/calibrated.py` uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from msgspec import to_builtins

from slicewise.cluster.cluster_file import LineFields

# kinds whose time is measured: matrix products, then what moves memory
MULTIPLIED = (
    "linear", "product", "attention", "pointwise", "window", "strided", "volume", "plain_volume", "grouped", "depthwise"
)  # fmt: skip
MOVED = ("norm", "shared_norm", "layer_norm", "maxpool", "pool", "global_pool", "elementwise", "smooth", "sum", "copy")
ALSO = {
    "attention": "product",
    "layer_norm": "norm",
    "plain_volume": "volume",
}  # the line of profiles that have none of their own
UPDATE = "update"  # its lines are the optimizers'; a call for every weight
STEP = "step"  # a line "forward": what a step costs beside its layers
PIPELINE = "pipeline"  # a second one, of a pipeline: an item for every turn of a stage
BACKWARD = ("backward_input", "backward_weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    call_s: float = 0.0
    s_per_flop: float = 0.0
    s_per_item: float = 0.0
    s_per_weight: float = 0.0


TERMS = tuple(field.name for field in fields(Line))
Lines = Mapping[str, Mapping[str, Line]]  # by kind and direction


def read_lines(table: Mapping[str, Mapping[str, LineFields]]) -> Lines:
    return {
        kind: {direction: Line(**to_builtins(line)) for direction, line in directions.items()}
        for kind, directions in table.items()
    }
