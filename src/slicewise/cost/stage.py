"""What one stage of a pipeline costs, and how many micro-batches it holds at once."""

from dataclasses import dataclass

SCHEDULES = ("1f1b", "gpipe")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """Of one micro-batch on one stage; what travels is counted where it arrives."""

    forward_s: float
    backward_s: float
    update_s: float  # of a whole step
    output_s: float  # the tensor from the stage before
    gradient_s: float | None  # its gradient from the stage behind; None where nobody wants one
    weight_bytes: int  # with gradients and what the optimizer keeps
    kept_bytes: int  # for backward, per micro-batch, the received tensor aside
    received_bytes: int  # from the stage before; the network's inputs at the first
    sent_bytes: int
    returned_bytes: int  # the gradient from the stage behind
    transient_bytes: int

    @property
    def seconds(self) -> float:
        return self.forward_s + self.backward_s + self.output_s + (self.gradient_s or 0.0)

    def memory_bytes(self, micro_batches: int, in_flight: int) -> int:
        """torch has a buffer per micro-batch for whatever arrives, in flight or not; one more tensor is on its way."""
        return (
            self.weight_bytes
            + in_flight * (self.kept_bytes + self.sent_bytes)
            + micro_batches * (self.received_bytes + self.returned_bytes)
            + max(self.received_bytes, self.sent_bytes)
            + self.transient_bytes
        )


def in_flight(schedule: str, micro_batches: int, stages: int, stage: int) -> int:
    """Micro-batches whose forward is done and whose backward is not, at most."""
    return micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
