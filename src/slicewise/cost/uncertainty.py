"""The range of a prediction, made of what is uncertain in it.

    sigma^2 = whole^2 + (compute share * compute)^2 + (communication share * communication)^2
    low, high = iteration / e^(1.645 sigma), iteration * e^(1.645 sigma)         90 % of what is measured lies between

The deviations are those of ln(measured / predicted), fitted to published runs (cluster/ranges.toml):

    compute^2      network^2 + unseen^2 + (unlike share * unlike + tokens' share * tokens)^2, and device^2 where
                   nobody timed the device; measured^2 alone where one device was timed with this network
    communication  of all links and strategies
    whole          of a machine that was fitted as a whole: what its fit left, or `calibrated`; the two above are then
                   added for networks that were not fitted, and else 0

Where nobody said which software trains, the range reaches from the faster level's low end to the slower one's high end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, prod, sqrt
from typing import Any

from slicewise.cluster.cluster import SOFTWARE, Cluster
from slicewise.cluster.device import device_names, load_device
from slicewise.cluster.ranges import QUANTILE, fitted_ranges
from slicewise.cost.utilisation import family
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph

_FACTORS = {
    "network": "compute {} (this network)",
    "kinds of layers": "compute {} (these kinds of layers)",
    "device": "compute {} (this device)",
    "measured on one device": "compute {} (measured on one device)",
    "timed layers": "compute {} (timed layers)",
    "communication": "communication {}",
    "calibrated machine": "step {} (calibrated machine)",
    "what the fit left": "step {} (what the fit left)",
}  # by the name of a part
# what transformers consist of: published runs have none of it, published steps in fp32 on one GPU do
_TOKENS = ("attention layers", "layer norms", "linear layers on several positions", "products of computed tensors")
_WIDE_WINDOW = 5  # depth-wise: wider ones no published run has
NOTABLE = 0.05  # of compute: less of an unlike kind is not told


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
        """Where layers with this share of compute were timed one by one."""
        known = fitted_ranges().measured
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


def doubt_of(
    graph: LayerGraph, cluster: Cluster, compute_s: Sequence[float], other_s: Callable[[Cluster], float]
) -> Doubt:
    """`compute_s` per layer of `graph`; `other_s` prices all of them under other software."""
    known, margin = fitted_ranges(), cluster.tuning.margin
    if cluster.measured is not None:
        parts = {"measured on one device": known.measured, "communication": known.communication}
        return Doubt(compute=known.measured, communication=known.communication, parts=tuple(parts.items()))
    if margin is not None:
        return _after_fit(cluster, graph.name, log(1 + margin) / QUANTILE)
    if cluster.origin == "fitted":
        return Doubt(whole=known.calibrated, parts=(("calibrated machine", known.calibrated),))
    unlike = _unlike(graph.layers, compute_s)
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


def _after_fit(cluster: Cluster, model: str, left: float) -> Doubt:
    """`left` by the fit; all that is uncertain of a network beside it, where the fit has seen others only."""
    fitted, known = cluster.tuning.networks, fitted_ranges()
    if not fitted or model in fitted:
        return Doubt(whole=left, parts=(("what the fit left", left),))
    paces = [log(factor) for factor in cluster.tuning.compute.values()]
    apart = sqrt(sum(pace**2 for pace in paces) / len(paces)) if paces else 0.0  # how far fitted networks differ
    network = max(hypot(known.network, known.unseen), apart)
    parts = {"what the fit left": left, "network": network, "communication": known.communication}
    return Doubt(
        whole=left,
        compute=network,
        communication=known.communication,
        parts=tuple(parts.items()),
        unlike=(f"{model} was not fitted, only {', '.join(fitted)}",),
    )


def _other_software(cluster: Cluster, own_s: float, other_s: Callable[[Cluster], float]) -> float:
    if not cluster.software_assumed or cluster.device.kernels is None:
        return 1.0
    (other,) = (level for level in SOFTWARE if level != cluster.software)
    return other_s(replace(cluster, software=other, software_assumed=False)) / (own_s or 1.0)


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
    if layer.kind is Kind.CONV and max(window.kernel for window in layer.windows.values()) > _WIDE_WINDOW:
        depthwise = family(layer, narrow=True) == "depthwise"
        return f"depth-wise windows wider than {_WIDE_WINDOW}" if depthwise else None
    if layer.kind is Kind.NORM and str(layer.options.get("op", "")).startswith(("aten.layer_norm", "aten.rms_norm")):
        return "layer norms"
    if layer.kind is Kind.MATMUL or (layer.kind is Kind.LINEAR and family(layer, narrow=True) == "product"):
        return "products of computed tensors"
    if layer.kind is Kind.LINEAR and prod(s for d, s in zip(layer.dims, layer.shape, strict=True) if d not in "NF") > 1:
        return "linear layers on several positions"
    return None if layer.kind.has(Trait.PUBLISHED) else f"{layer.kind.value} layers"


def _timed(cluster: Cluster) -> bool:
    """A device of the catalogue whose kernels were fitted, or one that a preset describes for its runs."""
    name = cluster.device.name
    kernels = load_device(name).kernels if name in device_names() else None
    return kernels is not None and not kernels.by_rule
