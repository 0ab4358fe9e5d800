"""The plan that is returned: no small change makes its step faster, and none with fewer changes is as fast."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.planning.alternatives import alternatives
from slicewise.planning.asking import plan
from slicewise.search.baselines import baseline_slicings
from slicewise.search.best_step import BestStep, best_step
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.descent import Descent
from slicewise.search.optimum import best_slicings
from slicewise.search.pins import Pins
from slicewise.search.reweighting import reweighted, simulated_bound
from slicewise.search.shortlist import shortlist
from slicewise.search.solver import Settings
from slicewise.simulate.many import ManyPlans
from slicewise.simulate.step import simulate_step
from tests.builders import Net, machine, residual_net, small_cnn
from tests.campaigns import examples
from tests.property.strategies import clusters, graphs, slicings

Slicings = Mapping[str, Slicing]


def _pool(model: AnalyticModel) -> tuple[Candidates, dict[str, dict[str, Slicing]]]:
    known = baseline_slicings(model)[0]
    return candidates(model, Space(), known, Pins()), known


def _best(model: AnalyticModel, simplify: float, limit: float = float("inf")) -> BestStep:
    pool, known = _pool(model)
    optimum, _ = best_slicings(model, Space(), known)
    return best_step(
        pool,
        optimum,
        known,
        settings=Settings(),
        memory_limit_bytes=limit,
        simplify=simplify,
        bound=simulated_bound(pool, known, limit, Settings()),
    )


@examples(20)
@given(graphs(), clusters(), st.data())
def test_it_is_as_fast_as_said_and_no_plan_is_below_the_bound(
    graph: LayerGraph, cluster: Cluster, data: st.DataObject
) -> None:
    model = AnalyticModel(graph, cluster)
    best = _best(model, 0.0)
    pool, known = _pool(model)
    lower_s = simulated_bound(pool, known, float("inf"), Settings()).lower_s
    assert best.simulated_s == pytest.approx(simulate_step(model, best.slicings).seconds, rel=1e-9)
    others: list[Slicings] = [*baseline_slicings(model)[0].values(), data.draw(slicings(graph, cluster.mesh))]
    for other in (best.slicings, *others):
        assert simulate_step(model, other).seconds >= lower_s * (1 - 1e-9)
    for other in others[:-1]:
        assert best.simulated_s <= simulate_step(model, other).seconds * (1 + 1e-8)


@examples(15)
@given(graphs(), clusters(), st.floats(0.0, 0.2))
def test_a_simpler_plan_has_fewer_changes_and_stays_within_the_tolerance(
    graph: LayerGraph, cluster: Cluster, tolerance: float
) -> None:
    model = AnalyticModel(graph, cluster)
    fastest, simple = _best(model, 0.0), _best(model, tolerance)
    assert simple.fastest_s == pytest.approx(fastest.simulated_s, rel=1e-12)
    assert simple.simulated_s <= fastest.simulated_s * (1 + tolerance) * (1 + 1e-9)
    assert simple.changes <= simple.fastest_changes == fastest.changes
    for other in baseline_slicings(model)[0].values():
        assert simple.simulated_s <= simulate_step(model, other).seconds * (1 + 1e-8)


def _crossed(model: AnalyticModel, plan: Slicings) -> list[Slicings]:
    """The layers before any cut as in the plan and the others as in a baseline, and the other way round."""
    names = [layer.name for layer in model.graph]
    return [
        {name: pair[n >= cut][name] for n, name in enumerate(names)}
        for other in baseline_slicings(model)[0].values()
        for cut in range(1, len(names))
        for pair in ((plan, other), (other, plan))
    ]


def _stretched(model: AnalyticModel, plan: Slicings) -> list[Slicings]:
    """Every stretch of layers that are sliced alike with every slicing that all of them have."""
    names = [layer.name for layer in model.graph]
    listed = zip(names, _pool(model)[0].choices, strict=True)
    choices = {name: {rows[row] for row in range(len(rows))} for name, rows in listed}
    starts = [n for n in range(1, len(names)) if plan[names[n]] != plan[names[n - 1]]]
    stretches = [names[start:stop] for start, stop in pairwise([0, *starts, len(names)])]
    return [
        dict(plan) | dict.fromkeys(stretch, slicing)
        for stretch in stretches
        for slicing in set.intersection(*(choices[name] for name in stretch))
    ]


@examples(20)
@given(graphs(), clusters())
def test_no_crossing_with_a_baseline_and_no_stretch_makes_the_step_shorter(graph: LayerGraph, cluster: Cluster) -> None:
    model = AnalyticModel(graph, cluster)
    best = _best(model, 0.0)
    tried = [*_crossed(model, best.slicings), *_stretched(model, best.slicings)]
    assert min(ManyPlans(model).simulated_s(tried)) >= best.simulated_s * (1 - 1e-8)


@pytest.mark.parametrize("others", [_crossed, _stretched])
@pytest.mark.parametrize(("batch", "depth"), [(64, 24), (256, 12)])
def test_nor_do_they_where_links_are_slow_and_many_layers_are_equal(
    batch: int, depth: int, others: Callable[[AnalyticModel, Slicings], list[Slicings]]
) -> None:
    net = Net()
    last = net.input(batch, 64)
    for _ in range(depth):
        last = net.relu(net.linear(last, 128))
    net.output(net.linear(last, 8))
    model = AnalyticModel(net.graph, machine(2, 4))
    best = _best(model, 0.0)
    assert min(ManyPlans(model).simulated_s(others(model, best.slicings))) >= best.simulated_s * (1 - 1e-8)


@pytest.mark.long
def test_nor_do_stretches_in_a_deep_network_with_many_other_moves() -> None:
    cluster = load_cluster("p100-4x4")
    outer, *inner = cluster.tiers
    slow = replace(cluster, tiers=(replace(outer, bytes_per_s=outer.bytes_per_s / 10), *inner))
    made = plan("vit_b_16", slow, batch=128, simplify=0, bucket="25MiB")
    model = AnalyticModel(made.network(), slow)
    fastest_s, *others_s = ManyPlans(model).simulated_s([made.slicings, *_stretched(model, made.slicings)])
    assert min(others_s) >= 0.99 * fastest_s


@pytest.mark.parametrize("graph", [small_cnn(batch=8), residual_net(8)], ids=["chain", "residual"])
def test_no_other_slicing_of_one_layer_makes_the_step_shorter(graph: LayerGraph) -> None:
    made = plan(graph, machine(2, 2), simplify=0)
    for name in made.slicings:
        fastest = alternatives(made, name)[0]
        assert fastest.iteration_s >= made.predicted["iteration_s"] * (1 - 1e-9), (name, fastest.told)


def test_data_parallelism_is_returned_where_nothing_beats_it_by_more() -> None:
    graph, cluster = residual_net(64), machine(2)
    data_s = plan(graph, cluster, strategy="data").predicted["iteration_s"]
    fastest = plan(graph, cluster, simplify=0)
    won = data_s / fastest.predicted["iteration_s"] - 1
    made = plan(graph, cluster, simplify=won + 1e-6)
    assert set(made.slicings.values()) == {("N",)}
    assert made.certificate["rescored"]["changes"] == 0


def test_a_short_list_still_holds_the_known_plans_and_good_ones() -> None:
    model = AnalyticModel(residual_net(8), machine(2, 2))
    pool, known = _pool(model)
    plans = [rows for chosen in known.values() if (rows := pool.rows(chosen)) is not None]
    short, full = shortlist(pool, plans, pool.vectors, most=6), shortlist(pool, plans, pool.vectors)
    assert max(map(len, short.pool.choices)) < max(map(len, full.pool.choices))
    for listed in (short, full):
        assert [listed.pool.slicings(rows) for rows in listed.plans] == list(known.values())
    for weight in (0.0, 1.0):
        costs = [
            min(listed.weighted(weight).cost(rows) for rows in reweighted(listed, Settings()).values())
            for listed in (short, full)
        ]
        assert costs[1] <= costs[0] <= 1.05 * costs[1]


def test_moves_keep_to_the_memory_limit() -> None:
    model = AnalyticModel(small_cnn(batch=8), machine(2, 2))
    pool, known = _pool(model)
    plans = [rows for chosen in known.values() if (rows := pool.rows(chosen)) is not None]
    listed = shortlist(pool, plans, pool.vectors)
    first = min(listed.plans, key=lambda plan: listed.pool.memory(plan)[1])
    limit = listed.pool.memory(first)[1]
    free, kept = (Descent(listed, ManyPlans(model), most).descend(first) for most in (float("inf"), limit))
    assert listed.pool.memory(kept[0])[1] <= limit < listed.pool.memory(free[0])[1]
    assert free[1] <= kept[1]


def test_out_of_time_the_best_known_plan_is_returned_with_a_true_bound() -> None:
    made = plan(residual_net(8), machine(2, 2), time_limit=1e-9)
    best = plan(residual_net(8), machine(2, 2), simplify=0)
    fastest = min(row["iteration_s"] for row in made.baselines.values() if row["feasible"])
    assert made.predicted["iteration_s"] <= fastest * (1 + 1e-9)
    assert made.certificate["simulated_lower_s"] <= best.predicted["iteration_s"]


def test_pins_and_memory_hold_for_what_is_returned() -> None:
    cluster = machine(2, 2)
    pinned = plan(small_cnn(batch=8), cluster, fix=["conv0=H"])
    assert {dim for dim in pinned.slicings["conv0"] if dim} == {"H"}
    free = plan(small_cnn(batch=8), cluster)
    limit = 0.9 * free.predicted["peak_memory_bytes"]
    tight = plan(small_cnn(batch=8), cluster, memory_limit=limit)
    assert tight.predicted["peak_memory_bytes"] <= limit


def test_the_certificate_says_what_was_returned() -> None:
    made = plan(small_cnn(batch=8), machine(2, 2))
    told = made.certificate["rescored"]
    assert made.predicted["simulated_s"] == pytest.approx(told["simulated_s"])
    assert told["simulated_s"] <= told["optimum_simulated_s"] * (1 + 1e-9)
    assert made.certificate["optimum_s"] <= made.predicted["additive_s"] * (1 + 1e-9)
    feasible = [row["simulated_s"] for row in made.baselines.values() if row["feasible"]]
    assert all(told["simulated_s"] <= seconds * (1 + 1e-8) for seconds in feasible)
