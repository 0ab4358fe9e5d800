"""Pipelines of small networks: stages, balance and schedules against slow truths."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.pipeline import PipelineModel
from slicewise.cost.stage import SCHEDULES, StageCost, in_flight
from slicewise.factors import divisors
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.stages import Cuts
from slicewise.search.pipeline import balanced
from slicewise.simulate.pipeline import predicted_pipeline
from slicewise.simulate.schedules import simulate_schedule
from slicewise.strategies.pipeline import StageTable
from tests.builders import machine, stage_cost
from tests.property.strategies import graphs


def _cut(draw: st.DrawFn, graph: LayerGraph) -> tuple[int, ...]:
    legal = Cuts(graph).legal
    assume(legal)
    return tuple(sorted(draw(st.sets(st.sampled_from(legal), min_size=1))))


@given(st.data(), graphs(max_layers=6))
def test_stages_are_the_network_in_order_joined_by_one_tensor_each(data: st.DataObject, graph: LayerGraph) -> None:
    positions = data.draw(st.composite(_cut)(graph))
    stages = [Cuts(graph).stage(positions, number) for number in range(len(positions) + 1)]
    assert all(len(stage.outputs) == 1 for stage in stages)
    assert all(len(stage.inputs) == 1 for stage in stages)
    for before, behind in pairwise(stages):
        assert before.outputs[0].inputs == (behind.inputs[0].name,)
    ends = (Kind.INPUT, Kind.OUTPUT)
    inner = [layer.name for stage in stages for layer in stage if layer.kind not in ends]
    assert inner == [layer.name for layer in graph if layer.kind not in ends]


@given(graphs(max_layers=6), st.integers(2, 4), st.sampled_from([1, 2]))
def test_balanced_stages_are_the_best_of_all_cuts(graph: LayerGraph, stages: int, times: int) -> None:
    graph = graph.with_batch(4)
    cuts = Cuts(graph)
    assume(cuts.most_stages >= stages)
    cluster = machine(2, 2) if stages == 4 else machine(stages)
    pipeline = PipelineModel(AnalyticModel(graph, cluster), cuts, times)

    def slowest(positions: tuple[int, ...]) -> float:
        return max(stage.seconds for stage in pipeline.stage_costs(positions))

    truth = min(slowest(positions) for positions in combinations(cuts.legal, stages - 1))
    found = slowest(balanced(pipeline))
    assert truth <= found <= truth * (1 + 1e-12)


@given(st.lists(st.floats(0, 1e3) | st.sampled_from([0.0, 0.1, 0.3]), min_size=2, max_size=40), st.integers(2, 9))
def test_cuts_where_two_lines_meet_are_those_of_the_whole_table(seconds: list[float], stages: int) -> None:
    """All pairs of cuts for every number of stages, to the last bit: best[s, j] and where each came from."""
    assume(stages <= len(seconds))
    table = StageTable.of(np.array(seconds), np.arange(len(seconds) - 1))
    found = table.cuts(stages)
    order = np.arange(len(table.before))
    between = np.where(order[:, None] < order, table.before - table.before[:, None], np.inf)
    slowest, came_from = [table.before], []
    for _ in range(stages - 2):
        worst = np.maximum(slowest[-1][:, None], between)
        came_from.append(worst.argmin(axis=0))
        slowest.append(worst.min(axis=0))
    wanted = [int(np.maximum(slowest[-1], table.total_s - table.before).argmin())]
    for origin in reversed(came_from):
        wanted.append(int(origin[wanted[-1]]))
    assert all(np.array_equal(one, other) for one, other in zip(table.slowest, slowest, strict=True))
    assert found == wanted[::-1]


@given(graphs(max_layers=6), st.integers(2, 4))
def test_stages_are_the_same_however_many_cuts_are_looked_at_at_once(graph: LayerGraph, stages: int) -> None:
    graph = graph.with_batch(4)
    cuts = Cuts(graph)
    assume(cuts.most_stages >= stages)
    pipeline = PipelineModel(AnalyticModel(graph, machine(2, 2) if stages == 4 else machine(stages)), cuts, 1)
    whole = balanced(pipeline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slicewise.search.pipeline._CUTS_AT_ONCE", 1)
        assert balanced(pipeline) == whole


seconds = st.integers(0, 9).map(float)


@st.composite
def pipelines(draw: st.DrawFn) -> list[StageCost]:
    count = draw(st.integers(2, 5))
    links = [draw(seconds) for _ in range(count - 1)]
    returns = [draw(st.booleans()) or number > 0 for number in range(count - 1)]
    stages = []
    for number in range(count):
        last = number == count - 1
        stages.append(
            stage_cost(
                forward_s=draw(seconds),
                backward_s=draw(seconds),
                output_s=links[number - 1] if number else 0.0,
                gradient_s=links[number] if not last and returns[number] else None,
            )
        )
    return stages


@given(pipelines(), st.sampled_from(SCHEDULES), st.integers(1, 9))
def test_schedules_keep_their_promises(stages: list[StageCost], schedule: str, extra: int) -> None:
    """In order, after what it reads, never two at once, and never more in flight than said."""
    micro_batches = extra if schedule == "gpipe" else len(stages) + extra - 1
    timeline = simulate_schedule(stages, schedule, micro_batches)
    turns = {(turn.stage, turn.name): turn for turn in timeline.turns}
    assert len(turns) == len(timeline.turns) == 2 * micro_batches * len(stages)
    for number, stage in enumerate(stages):
        mine = [turn for turn in timeline.turns if turn.stage == number]
        assert all(one.stop_s <= other.start_s for one, other in pairwise(mine))
        flying = most = 0
        for turn in mine:
            flying += 1 if turn.name.startswith("F") else -1
            most = max(most, flying)
        assert most == in_flight(schedule, micro_batches, len(stages), number)
        for index in range(micro_batches):
            assert turns[number, f"F{index}"].stop_s <= turns[number, f"B{index}"].start_s
            if number:
                arrived = turns[number - 1, f"F{index}"].stop_s + stage.output_s
                assert arrived <= turns[number, f"F{index}"].start_s
            if stage.gradient_s is not None:
                arrived = turns[number + 1, f"B{index}"].stop_s + stage.gradient_s
                assert arrived <= turns[number, f"B{index}"].start_s
    assert max(timeline.finished_s) >= micro_batches * max(stage.seconds for stage in stages)


@given(graphs(max_layers=6), st.sampled_from(SCHEDULES))
def test_a_prediction_lies_between_its_parts_and_their_sum(graph: LayerGraph, schedule: str) -> None:
    graph = graph.with_batch(8)
    cuts = Cuts(graph)
    assume(cuts.legal)
    for count in divisors(8):
        if schedule == "gpipe" or count >= 2:
            pipeline = PipelineModel(AnalyticModel(graph, machine(2)), cuts, count)
            given = predicted_pipeline(pipeline, balanced(pipeline), schedule)
            least = given["compute_s"] + given["transfer_s"]
            assert least * (1 - 1e-9) <= given["iteration_s"]
            stages = pipeline.stage_costs(balanced(pipeline))
            assert given["iteration_s"] <= sum(count * s.seconds + s.update_s for s in stages) * (1 + 1e-9)
