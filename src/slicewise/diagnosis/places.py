"""Slow and stalled ranks by layer."""

from dataclasses import replace
from statistics import median

from slicewise.diagnosis.expectation import Expectation
from slicewise.diagnosis.record import Record, Stalled
from slicewise.diagnosis.verdict import Fault, Verdict


def in_layer(verdict: Verdict, record: Record) -> Verdict:
    """A slow rank's layer: where it takes longest beyond the others, where the file knows layers."""
    if verdict.kind is not Fault.SLOW_RANK or len(verdict.ranks) != 1 or not record.layers:
        return verdict
    place = (record.ranks or ()).index(verdict.ranks[0])

    def beyond_s(layer: str) -> float:
        seconds = record.layers[layer]
        others = [value for rank, value in enumerate(seconds) if rank != place]
        return seconds[place] - median(others) if others else 0.0

    return replace(verdict, layer=max(record.layers, key=beyond_s))


def stall_of(stall: Stalled, projected: Expectation) -> Verdict:
    """`factor`: the wait over a whole step as projected."""
    return Verdict(
        kind=Fault.STALL,
        term=stall.doing,
        ranks=stall.behind,
        since_step=stall.step,
        factor=stall.waited_s / projected.step.iteration_s,
        excess_s=stall.waited_s,
        evidence={"told": stall.told, "before_s": projected.step.iteration_s, "after_s": stall.waited_s},
        layer=stall.layer or None,
    )
