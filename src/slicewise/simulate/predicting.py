"""The predicted step of slicings, by a cost model: its terms, and how they go together in time."""

from collections.abc import Mapping, Sequence

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.prediction import Prediction
from slicewise.partition.layout import Slicing
from slicewise.simulate.many import ManyPlans
from slicewise.simulate.step import simulate_step
from slicewise.terms import LAYER_TERMS


def predicted_step(model: CostModel, slicings: Mapping[str, Slicing]) -> Prediction:
    """Played with overlap where the cost model knows any; otherwise the sum of its terms."""
    total = sum(model.plan_costs(slicings).values(), Cost())
    simulated_s, exposed_sync_s = total.total_s, total.sync_s
    if model.overlaps:
        timeline = simulate_step(model, slicings)
        simulated_s, exposed_sync_s = timeline.seconds, timeline.exposed_sync_s
    compute_s = min(simulated_s, total.compute_s + total.update_s)
    return Prediction(
        iteration_s=simulated_s,
        **model.doubt.range_of(compute_s, simulated_s - compute_s),
        additive_s=total.total_s,
        simulated_s=simulated_s,
        seconds={term.name: total.seconds(term.name) for term in LAYER_TERMS} | {"exposed_sync": exposed_sync_s},
        sent_bytes=total.sent_bytes,
        samples_per_s=model.graph.batch / simulated_s,
        bytes_moved=total.bytes_moved,
        peak_memory_bytes=total.peak_memory_bytes,
        origin=model.cluster.origin,
    )


def predicted_steps_s(model: CostModel, plans: Sequence[Mapping[str, Slicing]]) -> list[float]:
    """`predicted_step(...).iteration_s` of each, many plans at once."""
    if model.overlaps:
        return ManyPlans(model).simulated_s(plans)
    return [sum(model.plan_costs(slicings).values(), Cost()).total_s for slicings in plans]
