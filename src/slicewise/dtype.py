"""Every dtype that a network is trained in, and what is known of it: the one list of their names.

Its peak on a device stands in cluster/devices.toml: not every device has every dtype.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    name: str
    item_bytes: int  # of an activation; weights stay in fp32, as under autocast
    torch_name: str = "float32"  # what torch calls an activation's dtype
    autocast: bool = False  # whether `slicewise run` trains in it, under torch.autocast


DTYPES: Mapping[str, Dtype] = {
    dtype.name: dtype
    for dtype in (
        Dtype(name="fp32", item_bytes=4),
        Dtype(name="tf32", item_bytes=4),  # products only; what is stored is fp32
        Dtype(name="bf16", item_bytes=2, torch_name="bfloat16", autocast=True),
        Dtype(name="fp16", item_bytes=2, torch_name="float16"),
    )
}
# Of numbers that no plan's dtype changes: class numbers, masks, complex ones; as torch calls them.
OWN_BYTES: Mapping[str, int] = {
    **{f"torch.{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"torch.complex{bits}": bits // 8 for bits in (32, 64, 128)},
    "torch.bool": 1,
}
PLAIN = "fp32"
REDUCED = tuple(name for name in DTYPES if name != PLAIN)  # peaks of their own, where a device has them
RUN = (PLAIN, *(name for name, dtype in DTYPES.items() if dtype.autocast))
