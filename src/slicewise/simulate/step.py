"""One training step as events on the device and on the links.

    device:  F1 F2 F3 | B3 B2 B1 | wait | update
    links:               [w3 w2 ] [ w1 ]

Everything that a layer needs before it can compute (layout changes, halos, statistics) runs on the device's line, in
order. Gradient buckets run beside backward, one after the other, as far as the machine lets communication and compute
overlap. Each tier's links are a resource: a bucket and a layer's own communication that cross the same tier share it,
half each, once the message is through what of the bucket is queued ahead of it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.cluster.cluster import Tier
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.graph.layer import Layer
from slicewise.partition.buckets import Bucket, buckets
from slicewise.partition.halo import halo
from slicewise.partition.layout import Slicing, layouts, ring_axes, statistics_axes


@dataclass(frozen=True, slots=True)
class Activity:
    lane: str  # "device" or "link"
    name: str
    term: str
    start_s: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class StepTimeline:
    events: tuple[Activity, ...]
    seconds: float
    exposed_sync_s: float  # what the device waits for gradients
    forward_s: float  # when backward begins


@dataclass(slots=True)
class _Flight:
    """A bucket under way: its tier, and the seconds it would take alone from now on."""

    bucket: Bucket
    tier: int
    left_s: float
    start_s: float | None = None


@dataclass(slots=True)
class _Machine:
    """The device's line, and the buckets that travel meanwhile in the order in which they became ready."""

    tiers: Sequence[Tier]
    now_s: float = 0.0
    events: list[Activity] = field(default_factory=list)
    flights: deque[_Flight] = field(default_factory=deque)
    hidden_s: float = 0.0  # seconds of communication done while the device did something else

    def occupy(self, name: str, term: str, seconds: float, tier: int | None = None) -> None:
        """The device is busy for `seconds`, or longer where it needs a tier that a bucket is on."""
        start_s, left_s = self.now_s, seconds
        if left_s > 0 and tier is not None:
            self._queue(tier)
        while left_s > 0:
            flight = self.flights[0] if self.flights else None
            if flight is None:
                self.now_s += left_s
                break
            if flight.start_s is None:
                flight.start_s = self.now_s
            shared = flight.tier == tier
            done_s = min(left_s, flight.left_s)
            self.now_s += 2 * done_s if shared else done_s
            self.hidden_s += 0.0 if shared else done_s
            left_s -= done_s
            flight.left_s -= done_s
            if flight.left_s <= 0:
                self._land(flight)
        if self.now_s > start_s:
            self.events.append(Activity("device", name, term, start_s, self.now_s))

    def _queue(self, tier: int) -> None:
        """A message waits behind what a bucket has queued, while the bucket travels alone."""
        if not self.flights or self.flights[0].tier != tier:
            return
        flight = self.flights[0]
        flight.start_s = self.now_s if flight.start_s is None else flight.start_s
        waited_s = min(self.tiers[tier].queue_s or 0.0, flight.left_s)
        self.now_s += waited_s
        flight.left_s -= waited_s
        if flight.left_s <= 0:
            self._land(flight)

    def finish(self) -> float:
        """Let every bucket arrive, with nothing beside; the seconds that took."""
        start_s = stop_s = self.now_s
        while self.flights:
            flight = self.flights[0]
            flight.start_s = stop_s if flight.start_s is None else flight.start_s
            stop_s += flight.left_s
            self._land(flight, stop_s)
        return stop_s - start_s

    def _land(self, flight: _Flight, stop_s: float | None = None) -> None:
        assert flight.start_s is not None
        stop_s = self.now_s if stop_s is None else stop_s
        self.events.append(Activity("link", flight.bucket.weights[0], "sync", flight.start_s, stop_s))
        self.flights.popleft()


def simulate_step(model: CostModel, slicings: Mapping[str, Slicing], bucket_items: int | None = None) -> StepTimeline:
    """Deterministic: the same plan gives the same timeline. `bucket_items`: of buckets of another size."""
    filled = model.training.bucket_items if bucket_items is None else bucket_items
    costs = model.plan_costs(slicings)
    machine = _Machine(model.cluster.tiers)
    tiers = {layer.name: _tiers(model, layer, slicings, costs[layer.name]) for layer in model.graph}
    returning = {
        layer.name for layer in model.graph if layer.name in model.graph.gradients and model.wants_input_gradient(layer)
    }
    for layer in model.graph:
        name, cost, tier = layer.name, costs[layer.name], tiers[layer.name]
        share = 0.5 if name in returning else 1.0
        machine.occupy(name, "transfer", share * cost.transfer_s, tier["transfer"])
        machine.occupy(name, "halo", model.lent_forward(layer) * cost.halo_s, tier["halo"])
        machine.occupy(name, "reduce", 0.5 * cost.reduce_s, tier["reduce"])
        machine.occupy(name, "forward", cost.forward_s)
    forward_s = machine.now_s
    axes = model.cluster.mesh.axes
    pending = deque(buckets(model.graph, slicings, model.cluster.mesh, filled))
    done: set[str] = set()
    for layer in reversed(model.graph.layers):
        name, cost, tier = layer.name, costs[layer.name], tiers[layer.name]
        machine.occupy(name, "reduce", 0.5 * cost.reduce_s, tier["reduce"])
        machine.occupy(name, "backward", cost.backward_s)
        if name in returning:
            machine.occupy(name, "halo", (1 - model.lent_forward(layer)) * cost.halo_s, tier["halo"])
            machine.occupy(name, "transfer", 0.5 * cost.transfer_s, tier["transfer"])
        done.add(name)
        while pending and done.issuperset(pending[0].layers):  # in order, as every rank starts them
            bucket = pending.popleft()
            alone_s = model.network.bucket(bucket.axes).seconds(bucket.items * WEIGHT_BYTES)
            machine.flights.append(_Flight(bucket, axes[bucket.axes[0]].tier, alone_s))
    # where communication takes cycles from compute, hiding it only moves part of its time
    exposed_s = machine.finish() + (1 - model.cluster.overlap) * machine.hidden_s
    machine.occupy("gradients", "wait", exposed_s)
    machine.occupy("weights", "update", sum(cost.update_s for cost in costs.values()))
    return StepTimeline(tuple(machine.events), machine.now_s, exposed_s, forward_s)


def _tiers(model: CostModel, layer: Layer, slicings: Mapping[str, Slicing], cost: Cost) -> dict[str, int | None]:
    """The widest tier that a layer's own communication crosses, by term; axes come from the widest tier inwards."""
    mesh, slicing = model.cluster.mesh, slicings[layer.name]
    crossed: dict[str, set[int]] = {"transfer": set(), "halo": set(), "reduce": set()}
    if cost.transfer_s:
        placed = layouts(layer, slicing)
        for slot, source in enumerate(layer.inputs):
            given = layouts(model.graph[source], slicings[source])
            pairs = [(given.output, placed.inputs[slot]), (placed.input_gradients[slot], given.output_gradient)]
            for before, after in pairs:
                crossed["transfer"] |= {axis for axis in range(len(before)) if before[axis] != after[axis]}
    crossed["halo"] |= set(ring_axes(layer, slicing))
    border = halo(layer, slicing, mesh) if cost.halo_s else None
    if border is not None:
        crossed["halo"] |= set(border.axes)
    if cost.reduce_s:
        crossed["reduce"] |= set(statistics_axes(layer, slicing))
    return {term: mesh.axes[min(axes)].tier if axes else None for term, axes in crossed.items()}
