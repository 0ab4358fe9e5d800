"""Our side: what each strategy takes under the paper's cost model, and under our own."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.optcnn.paper import BATCH_PER_GPU, GIB, LINKS, STRATEGIES
from slicewise.cluster.cluster import Cluster, Device, load_cluster
from slicewise.cluster.kernels import CONVOLUTIONS
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.registry import model_named
from slicewise.cost.training import PLAIN, Training
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import SPACES, Space
from slicewise.search.baselines import BASELINES
from slicewise.search.optimum import best_slicings
from slicewise.simulate.predicting import predicted_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A cost model with the space it searches and the machine it sees."""

    cost: Callable[[LayerGraph, Cluster, Training], CostModel]
    space: Space
    cluster: str
    scales_all: bool = False  # whether one GPU's throughput is reached by all layers alike, or by convolutions


PAPERS = Side(cost=model_named("optcnn"), space=SPACES["optcnn"], cluster=LINKS)
OURS = Side(cost=model_named("analytic"), space=SPACES["full"], cluster="p100-4x4")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFigures:
    images_per_s: float
    gib: float
    cost: Cost
    slicings: dict[str, Slicing]


def model_of(side: Side, network: str, gpus: int, scale: float = 1.0) -> CostModel:
    plain = load_cluster(side.cluster).with_devices(gpus)
    cluster = replace(
        plain, device=_all_faster(plain.device, scale) if side.scales_all else _convs_faster(plain.device, scale)
    )
    return side.cost(load_graph(network).with_batch(BATCH_PER_GPU * gpus), cluster, PLAIN)


def _convs_faster(device: Device, scale: float) -> Device:
    """Convolutions reach this much more of the peak.

    Not all layers: a linear layer is one matrix product, which reaches no more than the peak; how many of a
    convolution's multiplications are done at all is up to its algorithm.
    """
    shares = {name: share * (scale if name.startswith("conv") else 1.0) for name, share in device.efficiency.items()}
    return replace(device, efficiency=shares, kernels=device.kernels and device.kernels.scaled(scale, CONVOLUTIONS))


def _all_faster(device: Device, scale: float) -> Device:
    kernels = device.kernels
    calls = {name: call_s / scale for name, call_s in kernels.call_s.items()} if kernels else {}
    return replace(
        device,
        peak_flops_per_s=device.peak_flops_per_s * scale,
        memory_bytes_per_s=device.memory_bytes_per_s * scale,
        kernel_s=device.kernel_s / scale,
        kernels=kernels and replace(kernels, call_s=calls),
    )


def scale_for(side: Side, network: str, images_per_s: float) -> float:
    """The one number fitted per network: that with which one GPU reaches the paper's throughput."""
    scale, target_s = 1.0, BATCH_PER_GPU / images_per_s
    for _ in range(100):
        model = model_of(side, network, 1, scale)
        slicings: dict[str, Slicing] = {layer.name: () for layer in model.graph}
        costs = model.plan_costs(slicings)
        step_s = predicted_step(model, slicings)["iteration_s"]
        scaled_s = sum(
            costs[layer.name].compute_s for layer in model.graph if side.scales_all or layer.kind is Kind.CONV
        )
        if abs(step_s - target_s) < 1e-9 * target_s:
            break
        scale *= scaled_s / (scaled_s + target_s - step_s)
    return scale


def predictions(side: Side, network: str, gpus: int, scale: float = 1.0) -> dict[str, StrategyFigures]:
    """Of every strategy; the layer-wise one is searched in the side's space."""
    model = model_of(side, network, gpus, scale)
    known = {name: BASELINES[name](model) for name in STRATEGIES if name in BASELINES}
    found, _ = best_slicings(model, side.space, known)
    return {name: prediction(model, slicings) for name, slicings in {**known, "layerwise": found}.items()}


def prediction(model: CostModel, slicings: dict[str, Slicing]) -> StrategyFigures:
    return StrategyFigures(
        images_per_s=predicted_step(model, slicings)["samples_per_s"],
        gib=predicted_step(model, slicings)["bytes_moved"] / GIB,
        cost=sum(model.plan_costs(slicings).values(), Cost()),
        slicings=slicings,
    )


def within_bytes(side: Side, network: str, gpus: int, scale: float, gib: float) -> StrategyFigures | None:
    """A fast plan that moves no more than `gib`: that of the least slowed-down links, priced with the true ones.

    Slower links make bytes dearer; `None` where links 16 times slower are not enough.
    """
    model = model_of(side, network, gpus, scale)
    low, high, best = 0.0, 4.0, None
    for _ in range(6):
        middle = (low + high) / 2 if best else high
        slower = tuple(replace(tier, bytes_per_s=tier.bytes_per_s / 2**middle) for tier in model.cluster.tiers)
        found, _ = best_slicings(side.cost(model.graph, replace(model.cluster, tiers=slower), PLAIN), side.space, {})
        priced = prediction(model, found)
        if priced.gib <= gib:
            high, best = middle, priced
        elif best is None:
            return None
        else:
            low = middle
    return best
