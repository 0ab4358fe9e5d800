"""What holds a strategy back: each limit of the method, with its price at one configuration.

Every price is a difference of two projections, or a term of one:

    gradient exchange, layer-wise collectives, peer-to-peer exchange, weight update      terms of the projection
    congestion              less if every flow had a port of its own: the same cluster with ports for all
    computation redundancy  compute above an even share of the serial one (filter, channel, spatial and their hybrids)
    workload balance        the same of a pipeline: stages of unequal length, and waiting to fill and drain
    memory redundancy       bytes above an even share of the serial ones
    staging of input        the batch from one device to the others of a group; beside the iteration, not part of it
    number of devices       the last count that the network's own sizes allow
"""

from dataclasses import dataclass
from math import prod

from slicewise.partition.steps import Op
from slicewise.strategies.links import Links
from slicewise.strategies.projecting import Oracle
from slicewise.strategies.projection import Projection
from slicewise.strategy import LAYERWISE, PLANNED, SERIAL, STRATEGIES, Form
from slicewise.units import amount, counted, seconds

BINDS = 0.05  # of the iteration, or of the memory limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    strategy: str
    devices: int
    name: str
    cost_s: float | None = None
    cost_bytes: float | None = None
    binds: bool = False
    told: str = ""

    def to_dict(self) -> dict[str, object]:
        return {
            "strategy": self.strategy,
            "devices": self.devices,
            "limit": self.name,
            "cost_s": self.cost_s,
            "cost_bytes": self.cost_bytes,
            "binds": self.binds,
            "told": self.told,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The last device count up to which doubling pays, and why not further."""

    strategy: str
    devices: int
    reason: str | None  # None: still paying where we stopped looking

    @property
    def told(self) -> str:
        if self.reason is None:
            return f"{self.strategy} still gains at {counted(self.devices)}."
        return f"{self.strategy} stops paying at {counted(self.devices)}: {self.reason}."

    def to_dict(self) -> dict[str, object]:
        return {"strategy": self.strategy, "devices": self.devices, "reason": self.reason}


def limits_of(oracle: Oracle, row: Projection) -> list[Limit]:
    """Of one projection; dearest first, what costs nothing left out."""
    terms = row.terms
    if terms is None:
        return []
    serial = oracle.engine.terms(SERIAL.name, 1, row.batch, None)
    share_s = (serial.compute_s - serial.update_s) / row.devices
    redundant_s = max(0.0, terms.compute_s - terms.update_s - share_s)
    facts = STRATEGIES.get(row.strategy)  # none of a searched plan
    seconds_by_name = {
        "gradient exchange": terms.gradient_s,
        "layer-wise collectives": terms.layerwise_s,
        "peer-to-peer exchange": terms.halo_s + terms.p2p_s,
        "network congestion": _congestion_s(oracle, row),
        "staging of input": _staging_s(oracle, row),
        "weight update": terms.update_s,
        "workload balance": redundant_s if facts and facts.form is Form.STAGES else 0.0,
        "computation redundancy": redundant_s if facts and facts.thinned else 0.0,
    }
    found = [
        _timed(row, name, cost_s)
        for name, cost_s in sorted(seconds_by_name.items(), key=lambda pair: -pair[1])
        if cost_s
    ]
    further = oracle.project(row.strategy, 2 * row.devices) if row.strategy in PLANNED else row
    if further.terms is None:
        found.append(
            Limit(
                strategy=row.strategy,
                devices=row.devices,
                name="number of devices",
                binds=True,
                told=f"not on {further.devices}: {further.reason}",
            )
        )
    spare = max(0.0, terms.memory_bytes - serial.memory_bytes / row.devices)
    if spare:
        found.append(
            Limit(
                strategy=row.strategy,
                devices=row.devices,
                name="memory redundancy",
                cost_bytes=spare,
                binds=terms.memory_bytes > oracle.memory_limit_bytes,
                told=f"{amount(spare, 'B')} above an even share, of {amount(terms.memory_bytes, 'B')}",
            )
        )
    return found


def last_paying(oracle: Oracle, strategy: str) -> Stop | None:
    """Doubling the devices from one on, until throughput no longer rises or the network is too small.

    Counts that only lack memory are passed over at the start, where more devices help.
    """
    if strategy not in PLANNED:
        return None
    best: Projection | None = None
    count = 1
    while count <= oracle.engine.furthest_devices:
        if oracle.batch is not None or float((oracle.batch_per_device or 0) * count).is_integer():
            row = oracle.project(strategy, count)
            if row.feasible:
                if best is not None and row.samples_per_s <= best.samples_per_s:
                    fewer, more = (_reached(each) for each in (best, row))
                    return Stop(strategy=strategy, devices=best.devices, reason=f"{fewer} samples/s, {more}")
                best = row
            elif best is not None:
                return Stop(strategy=strategy, devices=best.devices, reason=f"on {count}, {row.reason}")
        count *= 2
    return Stop(strategy=strategy, devices=best.devices, reason=None) if best else None


def _reached(row: Projection) -> str:
    return f"{row.devices} {'does' if row.devices == 1 else 'do'} {row.samples_per_s:,.1f}"


def _timed(row: Projection, name: str, cost_s: float) -> Limit:
    share = cost_s / row.iteration_s
    return Limit(
        strategy=row.strategy,
        devices=row.devices,
        name=name,
        cost_s=cost_s,
        binds=share >= BINDS,
        told=f"{seconds(cost_s)}, {share:.0%} of the iteration",
    )


def _congestion_s(oracle: Oracle, row: Projection) -> float:
    """The iteration less that on the same machine with a port for every device."""
    if row.strategy == LAYERWISE:
        return 0.0
    return max(0.0, row.iteration_s - oracle.uncongested.project(row.strategy, row.devices).iteration_s)


def _staging_s(oracle: Oracle, row: Projection) -> float:
    """One device reads the batch and sends every other its part, or all of it."""
    facts = STRATEGIES.get(row.strategy)
    if facts is None or not facts.staged or row.devices == 1:
        return 0.0
    items = sum(prod(layer.shape[1:]) for layer in oracle.graph.inputs)
    line = Links(oracle.cluster, row.devices).ring(Op.ALL_GATHER, row.devices)
    return line.seconds(row.batch * items * oracle.training.item_bytes)
