"""How far predictions are off, by what is uncertain in them: the fitted numbers (ranges.toml)."""

from functools import cache
from importlib import resources

from slicewise.errors import ClusterError
from slicewise.formats.checking import checked
from slicewise.formats.files import parse_toml
from slicewise.formats.schema import NonNegative, Table

QUANTILE = 1.645  # 90 % of a normal distribution lie within so many standard deviations


class Ranges(Table):
    """Standard deviations of ln(measured / predicted), by `python -m benchmarks.runs.fit`."""

    network: NonNegative  # compute of a published network on a device of the catalogue, its software known
    unseen: NonNegative  # beside it: those networks were in view when kernels were fitted
    unlike: NonNegative  # of compute in kinds of layers that no published run has
    tokens: NonNegative  # of compute in what transformers consist of
    device: NonNegative  # compute of a device without timings or runs
    communication: NonNegative  # of what a step waits for links
    measured: NonNegative  # compute, where one device was timed with the network
    repeated: NonNegative  # a step on one device, where that very step was timed: what a second run differs by
    calibrated: NonNegative  # a step on a machine that `slicewise calibrate` measured


@cache
def fitted_ranges() -> Ranges:
    text = resources.files("slicewise.cluster").joinpath("ranges.toml").read_text(encoding="utf-8")
    return checked(Ranges, parse_toml(text, "ranges.toml", ClusterError), "ranges.toml", ClusterError)
