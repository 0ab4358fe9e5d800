"""The predicted step as a timeline, in the lanes of the measured one (`slicewise run --trace`)."""

from slicewise.cluster.cluster import Cluster
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.registry import model_named
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.stages import Cuts
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan, Stages
from slicewise.simulate.schedules import simulate_schedule
from slicewise.simulate.step import simulate_step
from slicewise.timelines.event import Event

_COMPUTE = ("forward", "backward", "update", "wait")
_GRADIENTS = "wait for gradients"


def predicted_events(plan: Plan, graph: LayerGraph, cluster: Cluster) -> list[Event]:
    """Of a pipeline, every rank; otherwise of the rank with the largest parts, which the others wait for."""
    if plan.pipeline is not None:
        return _pipeline_events(plan, plan.pipeline, graph, cluster)
    timeline = simulate_step(model_of(plan, graph, cluster), plan.slicings)
    update_s = min((event.start_s for event in timeline.events if event.term == "update"), default=timeline.seconds)
    phases = [
        ("step 0", 0.0, timeline.seconds),
        ("forward", 0.0, timeline.forward_s),
        ("backward", timeline.forward_s, update_s),
        ("update", update_s, timeline.seconds),
    ]
    events = [_event(0, "step", name, start_s, stop_s) for name, start_s, stop_s in phases]
    for event in timeline.events:
        lane = "compute" if event.term in _COMPUTE else event.term
        name = _GRADIENTS if event.term == "wait" else event.name
        term = "sync" if event.term == "wait" else event.term
        events.append(_event(0, lane, name, event.start_s, event.stop_s, layer=event.name, term=term))
    return events


def _pipeline_events(plan: Plan, pipeline: Stages, graph: LayerGraph, cluster: Cluster) -> list[Event]:
    sized = plan.sized(graph)
    model = model_named(plan.cost_model)(sized, cluster, plan.training)
    positions = pipeline.check(sized, plan.devices)
    priced = PipelineModel(model, Cuts(sized), pipeline.micro_batches)
    stages, begun_s = priced.stage_costs(positions), priced.step_s
    timeline = simulate_schedule(stages, pipeline.schedule, pipeline.micro_batches)
    events = []
    for rank, (stage, done_s) in enumerate(zip(stages, timeline.finished_s, strict=True)):
        finished_s = begun_s + done_s
        stop_s = finished_s + stage.update_s
        events.append(_event(rank, "step", "step 0", 0.0, stop_s))
        events.append(_event(rank, "step", "forward and backward", 0.0, finished_s))
        events.append(_event(rank, "step", "update", finished_s, stop_s))
        events.append(_event(rank, "compute", "weights", finished_s, stop_s, term="update"))
    for lane, turns in (("compute", timeline.turns), ("transfer", timeline.transfers)):
        events += [_event(turn.stage, lane, turn.name, begun_s + turn.start_s, begun_s + turn.stop_s) for turn in turns]
    return events


def _event(rank: int, lane: str, name: str, start_s: float, stop_s: float, **details: str) -> Event:
    return Event(rank=rank, lane=lane, name=name, start_s=start_s, stop_s=stop_s, details=details)
