"""One training step as events on two resources: the device, and the link for gradients.

    device:  F1 F2 F3 | B3 B2 B1 | wait | update
    link:                [w3 w2 ] [ w1 ]

Everything that a layer needs before it can compute (layout changes, halos, statistics) runs on the device's line, in
order. Gradient buckets run beside backward, as far as the machine lets communication and compute overlap.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.cost.model import CostModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.partition.buckets import buckets
from slicewise.partition.layout import Slicing


@dataclass(frozen=True, slots=True)
class Event:
    lane: str  # "device" or "link"
    name: str
    term: str
    start_s: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    events: tuple[Event, ...]
    seconds: float
    exposed_sync_s: float  # what the device waits for gradients


def simulate(model: CostModel, slicings: Mapping[str, Slicing]) -> Timeline:
    """Deterministic: the same plan gives the same timeline."""
    costs = model.plan_costs(slicings)
    events: list[Event] = []
    now = 0.0

    def occupy(name: str, term: str, seconds: float) -> None:
        nonlocal now
        if seconds > 0:
            events.append(Event("device", name, term, now, now + seconds))
            now += seconds

    for layer in model.graph:
        cost = costs[layer.name]
        share = 0.5 if layer.name in model.graph.gradients and model.wants_input_gradient(layer) else 1.0
        occupy(layer.name, "transfer", share * cost.transfer_s)
        occupy(layer.name, "halo", share * cost.halo_s)
        occupy(layer.name, "reduce", 0.5 * cost.reduce_s)
        occupy(layer.name, "forward", cost.forward_s)
    pending = deque(buckets(model.graph, slicings, model.cluster.mesh))
    done: set[str] = set()
    link_free = 0.0
    for layer in reversed(model.graph.layers):
        cost = costs[layer.name]
        occupy(layer.name, "reduce", 0.5 * cost.reduce_s)
        occupy(layer.name, "backward", cost.backward_s)
        if layer.name in model.graph.gradients and model.wants_input_gradient(layer):
            occupy(layer.name, "halo", 0.5 * cost.halo_s)
            occupy(layer.name, "transfer", 0.5 * cost.transfer_s)
        done.add(layer.name)
        while pending and done.issuperset(pending[0].layers):  # in order, as every rank starts them
            bucket = pending.popleft()
            start = max(now, link_free)
            link_free = start + model.network.all_reduce(bucket.axes).seconds(bucket.items * WEIGHT_BYTES)
            events.append(Event("link", bucket.weights[0], "sync", start, link_free))
    backward_end = now
    hidden_s = sum(
        max(0.0, min(event.stop_s, backward_end) - event.start_s) for event in events if event.lane == "link"
    )
    # where communication takes cycles from compute, hiding it only moves part of its time
    exposed_s = max(0.0, link_free - backward_end) + (1 - model.cluster.overlap) * hidden_s
    occupy("gradients", "wait", exposed_s)
    occupy("weights", "update", sum(cost.update_s for cost in costs.values()))
    return Timeline(tuple(events), now, exposed_s)
