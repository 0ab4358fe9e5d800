"""A cluster file to begin with: what another cluster says, and comments on what else can be said."""

import re
from dataclasses import asdict
from pathlib import Path

from slicewise.cluster.cluster import description, parse_cluster
from slicewise.cluster.device import Device
from slicewise.cluster.writing import said, toml
from slicewise.dtype import REDUCED

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
#   [tiers.collectives.all_reduce]    # or all_gather, all_to_all, bucket, gradient: a pace of its own
#   latency_s = 4e-6
#   bytes_per_s = 30e9
# A table [tuning] says what a framework does to the strategies of `slicewise oracle` (docs/calibration.md).

"""
_INSTEAD = "or, in place of the line above, with figures of your own; what is left out stays as it is:"
_COMMENTS = {
    "peak_flops_per_s": "fp32",
    "kernel_s": "what calling any layer costs",
    "half_size": "rows, columns, reduction: a matrix product of that size reaches half the efficiency",
    "[device.reduced_flops_per_s]": f"peaks of {', '.join(REDUCED)}",
    "[device.efficiency]": "the share of the peak that large layers reach; with this and without kernels: a roofline",
    "[device.kernels.simt]": "what kernels reach, by kind and direction (docs/cost.md)",
}


def starter(file: Path, base: str) -> str:
    """The text of cluster `base`, named after `file`, with comments."""
    text, origin = description(base)
    cluster = parse_cluster(text, origin)
    text = re.sub(r"^name = .*$", lambda _: toml({"name": file.stem}).rstrip(), text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^device = .*$", lambda line: line[0] + _spelled_out(cluster.device), text, flags=re.MULTILINE)
    return _HEAD.format(base=base, file=file) + text


def _spelled_out(device: Device) -> str:
    own = {"like": device.name, **{name: value for name, value in said(asdict(device)).items() if name != "name"}}
    lines = [_commented(line) for line in toml({"device": own}, digits=6).splitlines() if line]
    return "".join(f"\n# {line}" for line in (_INSTEAD, *lines))


def _commented(line: str) -> str:
    comment = _COMMENTS.get(line.split(" = ")[0])
    return f"{line}  # {comment}" if comment else line
