"""What to ask for: the options between fast and cheap, for a whole training.

    hours        epochs * ceil(samples / batch) * iteration_s / 3600
    node-hours   nodes * hours: whole nodes are what one gets
    cost         devices of those nodes * hours * price

An option is worth telling if no other is both faster and cheaper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from slicewise.cluster.cluster import Cluster
from slicewise.strategies.projecting import ProjectionTable
from slicewise.strategies.projection import Projection
from slicewise.strategies.showing import hours
from slicewise.units import counted

HOUR_S = 3600.0
LARGEST_BATCH = 65_536  # that ImageNet has been trained with, by optimizers made for it
FEWEST_STEPS = 10  # of an epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A number of devices with its best strategy."""

    row: Projection
    epochs: float
    node_devices: int
    price: float | None  # of a device-hour
    sample_bytes: int = 0  # of one sample, as the network reads it
    deadline_h: float | None = None

    def __repr__(self) -> str:
        return f"<Option {self}>"

    def __str__(self) -> str:
        """`16 devices (data) in 7 h 29 min for 299.26 (119.7 device-hours)`."""
        told = f"{counted(self.row.devices)} ({self.row.strategy}) in {hours(self.hours * HOUR_S)} for {self.paid}"
        return told if self.cost is None else f"{told} ({self.held})"

    @property
    def paid(self) -> str:
        """What it costs; without a price, what that would be of."""
        return self.held if self.cost is None else f"{self.cost:,.2f}"

    @property
    def held(self) -> str:
        return f"{self.device_hours:,.1f} device-hours"

    @property
    def nodes(self) -> int:
        return ceil(self.row.devices / self.node_devices)

    @property
    def hours(self) -> float:
        return self._hours(self.row.iteration_s)

    @property
    def low_hours(self) -> float:
        return self._hours(self.row.low_s)

    @property
    def high_hours(self) -> float:
        return self._hours(self.row.high_s)

    @property
    def deadline_chance(self) -> float | None:
        """That the deadline holds."""
        return None if self.deadline_h is None else self.row.chance(self.row.iteration_s * self.deadline_h / self.hours)

    @property
    def good(self) -> bool:
        """Done in time even where the range's high end comes true."""
        return self.deadline_h is None or self.high_hours <= self.deadline_h

    @property
    def input_bytes_per_s(self) -> float:
        """What storage must deliver: samples as the network reads them, uncompressed."""
        return self.row.samples_per_s * self.sample_bytes

    @property
    def warnings(self) -> list[str]:
        """Batches that nobody trains with."""
        assert self.row.samples is not None
        batch, found = self.row.batch, []
        if batch > LARGEST_BATCH:
            found.append(f"a batch of {batch:,}: nobody has shown training with more than {LARGEST_BATCH:,}")
        if batch * FEWEST_STEPS > self.row.samples:
            steps = ceil(self.row.samples / batch)
            found.append(f"a batch of {batch:,}: an epoch is {steps} {'step' if steps == 1 else 'steps'}")
        return found

    @property
    def node_hours(self) -> float:
        return self.nodes * self.hours

    @property
    def device_hours(self) -> float:
        """Of all devices of the nodes, used or not: but a part of one node is asked for as such."""
        held = self.nodes * self.node_devices if self.nodes > 1 else self.row.devices
        return held * self.hours

    @property
    def cost(self) -> float | None:
        return None if self.price is None else self.price * self.device_hours

    def _hours(self, iteration_s: float) -> float:
        assert self.row.samples is not None
        return self.epochs * ceil(self.row.samples / self.row.batch) * iteration_s / HOUR_S

    def to_dict(self) -> dict[str, Any]:
        return {
            "devices": self.row.devices,
            "nodes": self.nodes,
            "strategy": self.row.strategy,
            "split": self.row.terms.split if self.row.terms else None,
            "batch": self.row.batch,
            "hours": self.hours,
            "low_hours": self.low_hours,
            "high_hours": self.high_hours,
            "node_hours": self.node_hours,
            "device_hours": self.device_hours,
            "cost": self.cost,
            "low_cost": None if self.cost is None else self.cost * self.low_hours / self.hours,
            "high_cost": None if self.cost is None else self.cost * self.high_hours / self.hours,
            "efficiency": self.row.efficiency,
            "deadline_chance": self.deadline_chance,
            "good": self.good,
            "input_bytes_per_s": self.input_bytes_per_s,
            "warnings": self.warnings,
        }


def options_of(
    table: ProjectionTable,
    counts: Sequence[int],
    *,
    epochs: float,
    price: float | None = None,
    deadline_h: float | None = None,
) -> list[Option]:
    """One option per device count that has a feasible strategy."""
    found = [table.best(count) for count in counts]
    size = node_devices(table.oracle.cluster)
    items = sum(prod(layer.shape[1:]) for layer in table.oracle.graph.inputs)
    return [
        Option(
            row=row,
            epochs=epochs,
            node_devices=size,
            price=price,
            sample_bytes=items * table.oracle.training.item_bytes,
            deadline_h=deadline_h,
        )
        for row in found
        if row is not None
    ]


def node_devices(cluster: Cluster) -> int:
    """Devices of one node: the innermost tier."""
    return cluster.tiers[-1].size


def frontier(options: Sequence[Option]) -> list[Option]:
    """Those that no other beats in hours and device-hours at once; the cheapest first."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda option: (option.device_hours, option.hours)):
        if not kept or option.hours < kept[-1].hours:
            kept.append(option)
    return kept


def within(options: Sequence[Option], *, deadline_h: float | None, device_hours: float | None) -> list[Option]:
    """Those that keep deadline and budget, as projected."""
    return [
        option
        for option in options
        if (deadline_h is None or option.hours <= deadline_h)
        and (device_hours is None or option.device_hours <= device_hours)
    ]
