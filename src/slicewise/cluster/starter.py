"""A cluster file to begin with: what another cluster says, and comments on what else can be said."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from slicewise.cluster.cluster import description, parse_cluster
from slicewise.cluster.device import Device

_HEAD = """\
# A cluster for slicewise, begun from {base}. Edit it, see how it is understood, and plan for it:
#   slicewise cluster show {file}
#   slicewise plan MODEL --cluster {file}
# Names carry their units: bytes, bytes per second, FLOPs per second, seconds.
#
# At the top there may also be
#   overlap = 0.9    # the share of a gradient all-reduce that can hide behind backward; without it 1
#   cores = 64       # where ranks share cores: more ranks than cores slow each other down
# [[tiers]] stand from the outermost link inwards; devices are the product of their sizes. Each may also have
#   ports = 2        # links of each member, shared by the devices below it; without it 1
#   [tiers.collectives.all_reduce]    # or all_gather, all_to_all, gradient: where a collective has a pace of its own
#   latency_s = 4e-6
#   bytes_per_s = 30e9
# A table [tuning] says what a framework does to the strategies of `slicewise oracle` (docs/calibration.md).

"""


def starter(file: Path, base: str) -> str:
    """The text of cluster `base`, named after `file`, with comments."""
    text, origin = description(base)
    cluster = parse_cluster(text, origin)
    text = re.sub(r"^name = .*$", lambda _: f"name = {json.dumps(file.stem)}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r'^device = ".*$', lambda line: line[0] + _spelled_out(cluster.device), text, flags=re.MULTILINE)
    return _HEAD.format(base=base, file=file) + text


def _spelled_out(device: Device) -> str:
    lines = [
        "or, in place of the line above, with figures of your own; what is left out stays as it is:",
        "[device]",
        f'like = "{device.name}"',
        f"peak_flops_per_s = {_number(device.peak_flops_per_s)}  # fp32",
        f"memory_bytes_per_s = {_number(device.memory_bytes_per_s)}",
        f"memory_bytes = {device.memory_bytes}",
        f"kernel_s = {_number(device.kernel_s)}  # what calling any layer costs",
        "# rows, columns, reduction: a matrix product of that size reaches half the efficiency",
        f"half_size = [{', '.join(map(_number, device.half_size))}]",
        *_table("reduced_flops_per_s", "peaks of tf32, bf16, fp16", device.reduced_flops_per_s),
        *_table("efficiency", "the share of the peak that large layers reach", device.efficiency),
    ]
    return "".join(f"\n# {line}" for line in lines)


def _table(name: str, comment: str, values: Mapping[str, float]) -> list[str]:
    return [f"[device.{name}]  # {comment}", *(f"{key} = {_number(value)}" for key, value in values.items())]


def _number(value: float) -> str:
    return f"{value / 1e9:g}e9" if value >= 1e9 else f"{value:g}"
