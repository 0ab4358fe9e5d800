"""Graph and cluster in, plan out: the planner as one call."""

from collections.abc import Mapping

from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.errors import UnknownName
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.plans import Plan
from slicewise.search.baselines import BASELINES
from slicewise.search.planner import baseline_slicings, best_slicings
from slicewise.simulate.events import simulate


def plan(
    graph: LayerGraph,
    cluster: str | Cluster,
    *,
    batch: int | None = None,
    devices: int | None = None,
    space: Space = Space(),  # noqa: B008 (frozen)
    search: str = "elimination",
) -> Plan:
    """The slicing of every layer that makes one training step cheapest, with proof and baselines.

    >>> plan(load_graph("alexnet"), "p100-4x4", batch=512).predicted["samples_per_s"]
    """
    machine = load_cluster(cluster) if isinstance(cluster, str) else cluster
    machine = machine.with_devices(devices) if devices is not None else machine
    sized = graph.with_batch(batch) if batch is not None else graph
    model = CostModel(sized, machine)
    found, reasons = baseline_slicings(model)
    slicings, certificate = best_slicings(model, space, search, found)
    baselines: dict[str, dict[str, object]] = {
        name: {**predicted(model, chosen), "feasible": True, "reason": None} for name, chosen in found.items()
    }
    baselines |= {name: {"feasible": False, "reason": reason} for name, reason in reasons.items()}
    return describe(model, slicings, certificate=certificate.to_dict(), baselines=baselines)


def baseline_plan(graph: LayerGraph, cluster: Cluster, strategy: str, *, batch: int) -> Plan:
    """The plan of a strategy that needs no search: data, filter, spatial or owt."""
    if strategy not in BASELINES:
        raise UnknownName("strategy", strategy, [*BASELINES, "layerwise"])
    model = CostModel(graph.with_batch(batch), cluster)
    return describe(model, BASELINES[strategy](model))


def describe(
    model: CostModel,
    slicings: Mapping[str, Slicing],
    *,
    certificate: Mapping[str, object] | None = None,
    baselines: Mapping[str, Mapping[str, object]] | None = None,
) -> Plan:
    """A plan file's content for given slicings."""
    mesh = model.cluster.mesh
    return Plan(
        model=model.graph.name,
        cluster=model.cluster.name,
        devices=model.cluster.devices,
        batch=model.graph.batch,
        dtype="fp32",
        input_shape=model.graph.inputs[0].shape[1:],
        axes={axis.name: axis.size for axis in mesh.axes},
        slicings={layer.name: slicings[layer.name] for layer in model.graph},
        kinds={layer.name: layer.kind.value for layer in model.graph},
        costs={name: cost.to_dict() for name, cost in model.plan_costs(slicings).items()},
        predicted=predicted(model, slicings),
        baselines=baselines or {},
        certificate=certificate or {},
    )


def predicted(model: CostModel, slicings: Mapping[str, Slicing]) -> dict[str, object]:
    """The predicted step, under the names of the JSON."""
    total = sum(model.plan_costs(slicings).values(), Cost())
    timeline = simulate(model, slicings)
    simulated_s = timeline.seconds
    return {
        "iteration_s": simulated_s,
        "additive_s": total.total_s,
        "simulated_s": simulated_s,
        "compute_s": total.compute_s,
        "transfer_s": total.transfer_s,
        "halo_s": total.halo_s,
        "reduce_s": total.reduce_s,
        "sync_s": total.sync_s,
        "exposed_sync_s": timeline.exposed_sync_s,
        "update_s": total.update_s,
        "samples_per_s": model.graph.batch / simulated_s,
        "bytes_moved": total.bytes_moved,
        "peak_memory_bytes": total.memory_bytes,
        "origin": model.cluster.origin,
    }
