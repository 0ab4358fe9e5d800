"""A cost is a breakdown; totals are derived."""

from dataclasses import dataclass, fields

TERMS = ("compute", "transfer", "halo", "reduce", "sync", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of one step by term, bytes sent by all devices by term, and bytes that one device holds."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    update_s: float = 0.0
    transfer_s: float = 0.0  # layout changes between layers
    halo_s: float = 0.0  # borders borrowed from neighbours
    reduce_s: float = 0.0  # statistics of norms
    sync_s: float = 0.0  # weight gradients
    transfer_bytes: int = 0
    halo_bytes: int = 0
    reduce_bytes: int = 0
    sync_bytes: int = 0
    memory_bytes: int = 0  # kept through the step
    transient_bytes: int = 0  # needed while a layer runs: of several layers, the largest

    @property
    def compute_s(self) -> float:
        return self.forward_s + self.backward_s

    @property
    def communication_s(self) -> float:
        return self.transfer_s + self.halo_s + self.reduce_s + self.sync_s

    @property
    def total_s(self) -> float:
        return self.compute_s + self.communication_s + self.update_s

    @property
    def bytes_moved(self) -> int:
        return self.transfer_bytes + self.halo_bytes + self.reduce_bytes + self.sync_bytes

    @property
    def peak_memory_bytes(self) -> int:
        return self.memory_bytes + self.transient_bytes

    def __add__(self, other: "Cost") -> "Cost":
        terms = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Cost(**terms | {"transient_bytes": max(self.transient_bytes, other.transient_bytes)})

    def times(self, count: int) -> "Cost":
        """Of so many layers that cost the same."""
        terms = {f.name: count * getattr(self, f.name) for f in fields(self)}
        return Cost(**terms | {"transient_bytes": self.transient_bytes})

    def __sub__(self, other: "Cost") -> "Cost":
        """What this costs more, term by term."""
        return Cost(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)})

    def to_dict(self) -> dict[str, float | int]:
        """The names of the JSON: one number per term, totals included."""
        return {
            "total_s": self.total_s,
            "compute_s": self.compute_s,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "bytes_moved": self.bytes_moved,
        }
