"""The range of a prediction, made of what is uncertain in it.

    sigma^2 = whole^2 + (compute share * compute)^2 + (communication share * communication)^2
    low, high = iteration / e^(1.645 sigma), iteration * e^(1.645 sigma)         90 % of what is measured lies between

The deviations are those of ln(measured / predicted), fitted to published runs (cluster/ranges.toml):

    compute^2      network^2 + unseen^2 + (unlike share * unlike + tokens' share * tokens)^2, and device^2 where
                   nobody timed the device; measured^2 alone where one device was timed with this network
    communication  of all links and strategies
    whole          of a machine that was fitted as a whole: what its fit left, or `calibrated`; the two above are then
                   0, but for what the fit has not seen (`_after_fit`). `repeated` alone, where this very step on one
                   device was measured

Where nobody said which software trains, the range reaches from the faster level's low end to the slower one's high end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, prod, sqrt
from typing import Any

from slicewise.cluster.cluster import SOFTWARE, Cluster, Measured
from slicewise.cluster.device import device_names, load_device
from slicewise.cluster.ranges import QUANTILE, fitted_ranges
from slicewise.cluster.tuning import Tuning
from slicewise.cost.utilisation import family
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer

_FACTORS = {
    "network": "compute {} (this network)",
    "dtype": "compute {} (this dtype)",
    "kinds of layers": "compute {} (these kinds of layers)",
    "device": "compute {} (this device)",
    "measured on one device": "compute {} (measured on one device)",
    "repeated": "step {} (measured, as a run is that is done twice)",
    "timed layers": "compute {} (timed layers)",
    "communication": "communication {}",
    "calibrated machine": "step {} (calibrated machine)",
    "what the fit left": "step {} (what the fit left)",
}  # by the name of a part
# what transformers consist of: published runs have none of it, published steps in fp32 on one GPU do
_TOKENS = ("attention layers", "layer norms", "linear layers on several positions", "products of computed tensors")
_WIDEST = {"depth-wise": 5, "dense": 11}  # windows: wider ones no published run has
NOTABLE = 0.05  # of compute: less of an unlike kind is not told
_SAME = 0.005  # of compute: two software levels that differ by less read as 1.00x
FURTHEST = 16  # times the most devices that were fitted: so far the fit speaks of links


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a prediction is of, as far as a fit may not have seen it."""

    model: str
    strategy: str | None  # None: a plan of the slicewise runtime
    dtype: str
    optimizer: str
    devices: int
    batch: int

    def is_that_step(self, measured: Measured) -> bool:
        """On one device, as it was measured."""
        trained_so = measured.optimizer in (None, self.optimizer)
        return trained_so and (self.model, self.devices, self.batch) == (measured.model, 1, measured.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Standard deviations of ln(measured / predicted), and what they are made of."""

    whole: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    other_software: float = 1.0  # compute under the software level that was not assumed, over that which was
    parts: tuple[tuple[str, float], ...] = ()  # of compute, largest first: in words
    unlike: tuple[str, ...] = ()  # kinds of layers that no published run has, and a device that nobody timed

    def sigma(self, compute_s: float, communication_s: float) -> float:
        total_s = (compute_s + communication_s) or 1.0
        return hypot(self.whole, self.compute * compute_s / total_s, self.communication * communication_s / total_s)

    def range_of(self, compute_s: float, communication_s: float) -> dict[str, float]:
        """Under the names of the JSON."""
        total_s = compute_s + communication_s
        wide = exp(QUANTILE * self.sigma(compute_s, communication_s))
        other_s = compute_s * self.other_software + communication_s
        return {"low_s": min(total_s, other_s) / wide, "high_s": max(total_s, other_s) * wide}

    def after_timing(self, share: float) -> "Doubt":
        """Where layers with this share of compute were timed one by one; never more than before."""
        known = min(fitted_ranges().measured, self.compute)
        parts = {**dict(self.parts), "timed layers": share * known}
        if "network" in parts:
            parts["network"] *= 1 - share
        compute = hypot(share * known, (1 - share) * self.compute)
        return replace(self, compute=compute, parts=tuple((name, sigma) for name, sigma in parts.items() if sigma))

    @property
    def told(self) -> str:
        """`compute 1.48x (this network), communication 2.48x`: each part alone, as a factor of what it is of."""
        parts = [_FACTORS[name].format(f"{exp(QUANTILE * sigma):.2f}x") for name, sigma in self.parts]
        if self.other_software != 1:
            parts.append(f"compute {max(self.other_software, 1 / self.other_software):.2f}x (software not said)")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "parts": {name: exp(QUANTILE * sigma) for name, sigma in self.parts},
            "software": self.other_software,
            "unlike": list(self.unlike),
        }


def doubt_of(case: Case, cluster: Cluster, of_network: Callable[[], Doubt]) -> Doubt:
    """`of_network`: where nothing was measured or fitted."""
    known, measured = fitted_ranges(), cluster.measured
    if measured is not None and measured.dtype not in (None, case.dtype):  # it says little of another dtype
        measured, cluster = None, replace(cluster, measured=None)
    if measured is not None and case.is_that_step(measured):
        return Doubt(whole=known.repeated, parts=(("repeated", known.repeated),))
    if cluster.tuning.margin is not None:
        return _after_fit(case, cluster)
    if measured is not None:
        parts = {"measured on one device": known.measured, "communication": known.communication}
        return Doubt(compute=known.measured, communication=known.communication, parts=tuple(parts.items()))
    if cluster.origin == "fitted":
        return Doubt(whole=known.calibrated, parts=(("calibrated machine", known.calibrated),))
    return of_network()


def doubt_of_network(
    layers: Sequence[Layer], cluster: Cluster, compute_s: Sequence[float], other_s: Callable[[Cluster], float]
) -> Doubt:
    """`compute_s` per layer; `other_s` prices all of them under other software."""
    known, unlike = fitted_ranges(), _unlike(layers, compute_s)
    strange = sum(share * (known.tokens if name in _TOKENS else known.unlike) for name, share in unlike.items())
    parts = {"network": hypot(known.network, known.unseen), "kinds of layers": strange if strange > 0.01 else 0.0}
    parts["device"] = 0.0 if _timed(cluster) else known.device
    told = [f"{share:.0%} of compute is in {name}" for name, share in unlike.items() if share >= NOTABLE]
    if parts["device"]:
        told.append(f"nobody timed {cluster.device.name}")
    return Doubt(
        compute=hypot(*parts.values()),
        communication=known.communication,
        other_software=_other_software(cluster, sum(compute_s), other_s),
        parts=tuple((name, sigma) for name, sigma in [*parts.items(), ("communication", known.communication)] if sigma),
        unlike=tuple(told),
    )


def _after_fit(case: Case, cluster: Cluster) -> Doubt:
    """What the fit left, and beside it all that is uncertain of what the fit has not seen."""
    tuning, known = cluster.tuning, fitted_ranges()
    assert tuning.margin is not None
    left = log(1 + tuning.margin) / QUANTILE
    of_compute, of_links = _new_to_compute(case, tuning), _new_to_links(case, tuning)
    parts = {"what the fit left": left}
    if of_compute and cluster.measured is not None:
        parts["measured on one device"] = known.measured
    elif of_compute:
        apart = _apart(tuning) if "network" in of_compute else 0.0
        parts[next(iter(of_compute))] = max(hypot(known.network, known.unseen), apart)
    if of_links or "network" in of_compute:
        parts["communication"] = known.communication
    return Doubt(
        whole=left,
        compute=hypot(*(sigma for name, sigma in parts.items() if name not in ("what the fit left", "communication"))),
        communication=parts.get("communication", 0.0),
        parts=tuple(parts.items()),
        unlike=(*of_compute.values(), *of_links),
    )


def _new_to_compute(case: Case, tuning: Tuning) -> dict[str, str]:
    """In words, by the name of the part; a file that does not say what was fitted is taken to have seen it."""
    found = {}
    if tuning.networks and case.model not in tuning.networks:
        found["network"] = f"{case.model} was not fitted, only {', '.join(tuning.networks)}"
    if tuning.dtypes and case.dtype not in tuning.dtypes:
        found["dtype"] = f"{case.dtype} was not fitted, only {', '.join(tuning.dtypes)}"
    return found


def _new_to_links(case: Case, tuning: Tuning) -> list[str]:
    """In words."""
    if case.devices == 1:
        return []
    found, most = [], tuning.most_devices
    if tuning.strategies and case.strategy not in tuning.strategies:
        what = f"{case.strategy} was" if case.strategy else "plans were"
        found.append(f"{what} not fitted, only {', '.join(tuning.strategies)}")
    if most == 1:
        found.append("nothing was fitted on more than one device")
    elif most is not None and case.devices > FURTHEST * most:
        found.append(f"{case.devices:,} devices are more than {FURTHEST} times the {most:,} that were fitted")
    return found


def _apart(tuning: Tuning) -> float:
    """How far fitted networks differ."""
    paces = [log(factor) for factor in tuning.compute.values()]
    return sqrt(sum(pace**2 for pace in paces) / len(paces)) if paces else 0.0


def _other_software(cluster: Cluster, own_s: float, other_s: Callable[[Cluster], float]) -> float:
    if not cluster.software_assumed or cluster.device.kernels is None:
        return 1.0
    (other,) = (level for level in SOFTWARE if level != cluster.software)
    factor = other_s(replace(cluster, software=other, software_assumed=False)) / own_s if own_s else 1.0
    return factor if abs(factor - 1) > _SAME else 1.0


def _unlike(layers: Sequence[Layer], compute_s: Iterable[float]) -> dict[str, float]:
    """The share of compute in each kind that no published run has."""
    found: dict[str, float] = {}
    total_s = 0.0
    for layer, seconds in zip(layers, compute_s, strict=True):
        total_s += seconds
        if seconds and not layer.kind.has(Trait.FREE) and (name := _strange(layer)):
            found[name] = found.get(name, 0.0) + seconds
    return {name: seconds / total_s for name, seconds in found.items()}


def _strange(layer: Layer) -> str | None:
    """Published convolutions have windows of two or three dims, and published products a weight."""
    if layer.kind is Kind.CONV and len(layer.windows) == 1:
        return "1-D convolutions"
    if layer.kind is Kind.CONV:
        return _strange_window(layer)
    if layer.kind is Kind.NORM and str(layer.options.get("op", "")).startswith(("aten.layer_norm", "aten.rms_norm")):
        return "layer norms"
    if layer.kind is Kind.MATMUL or (layer.kind is Kind.LINEAR and family(layer, narrow=True) == "product"):
        return "products of computed tensors"
    if layer.kind is Kind.LINEAR and prod(s for d, s in zip(layer.dims, layer.shape, strict=True) if d not in "NF") > 1:
        return "linear layers on several positions"
    return None if layer.kind.has(Trait.PUBLISHED) else f"{layer.kind.value} layers"


def _strange_window(layer: Layer) -> str | None:
    how = "depth-wise" if family(layer, narrow=True) == "depthwise" else "dense"
    # patches that do not overlap are a matrix product, however wide
    overlapping = [window.kernel for window in layer.windows.values() if window.kernel > window.stride]
    if max(overlapping, default=1) > _WIDEST[how]:
        return f"{how} windows wider than {_WIDEST[how]}"
    dilated = any(window.kernel > 1 < window.dilation for window in layer.windows.values())
    return "dilated windows" if dilated else None


def _timed(cluster: Cluster) -> bool:
    """A device of the catalogue, as it stands there, whose kernels were fitted, or one that a preset describes so."""
    device = cluster.device
    if device.name not in device_names():
        return False
    known = load_device(device.name)
    alike = (known.peaks, known.memory_bytes_per_s) == (device.peaks, device.memory_bytes_per_s)
    return alike and known.kernels is not None and not known.kernels.by_rule
