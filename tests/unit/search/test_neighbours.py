"""What a descent tries: the tables say the truth of it, and no kind of plan is crowded out."""

import numpy as np
import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.partition.legal import Space
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.neighbours import Neighbours, Weighed
from slicewise.search.pins import Pins
from slicewise.search.shortlist import Shortlist, shortlist
from tests.builders import machine, residual_net

FOREVER_S = float("inf")


@pytest.fixture(scope="module")
def listed() -> Shortlist:
    model = AnalyticModel(residual_net(8), machine(2, 2))
    known = baseline_slicings(model)[0]
    pool = candidates(model, Space(), known, Pins())
    plans = [rows for chosen in known.values() if (rows := pool.rows(chosen)) is not None]
    return shortlist(pool, plans, pool.vectors)


def _check(listed: Shortlist, weighed: Weighed) -> None:
    assert len(weighed.plans)
    for plan, other_s, sync_s in zip(weighed.plans.tolist(), weighed.other_s, weighed.sync_s, strict=True):
        assert other_s == pytest.approx(listed.weighted(0.0).cost(plan))
        assert other_s + sync_s == pytest.approx(listed.weighted(1.0).cost(plan))


def test_the_tables_say_what_every_neighbour_costs(listed: Shortlist) -> None:
    neighbours, (first, *others) = Neighbours(listed), listed.plans
    _check(listed, neighbours.near(first, others, FOREVER_S))
    _check(listed, neighbours.crossed([(first, other) for other in others], FOREVER_S, everywhere=True))


def test_two_plans_are_crossed_at_every_layer_where_that_makes_another_plan(listed: Shortlist) -> None:
    one, other = listed.plans[:2]
    crossed = {
        (*one[:cut], *other[cut:])
        for cut in range(1, len(one))
        if one[:cut] != other[:cut] and one[cut:] != other[cut:]
    }
    found = Neighbours(listed).crossed([(one, other)], FOREVER_S, everywhere=True)
    assert {tuple(plan) for plan in found.plans.tolist()} == crossed
    fewer = Neighbours(listed).crossed([(one, other)], FOREVER_S)
    assert {tuple(plan) for plan in fewer.plans.tolist()} <= crossed


def test_a_stretch_goes_on_behind_a_layer_that_is_sliced_differently(listed: Shortlist) -> None:
    neighbours = Neighbours(listed)
    even = listed.pool.rows(baseline_slicings(listed.model)[0]["data"])
    assert even is not None
    parting = next(n for n, rows in enumerate(listed.pool.choices) if n > 2 and len(rows) > 1)
    now = [*even]
    now[parting] = next(row for row in range(len(listed.pool.choices[parting])) if row != even[parting])
    moved = [set(np.flatnonzero(plan != now).tolist()) for plan in neighbours.near(now, [], FOREVER_S).plans]
    assert any(parting in nodes and min(nodes) < parting - 1 and max(nodes) > parting + 1 for nodes in moved)
    assert any(parting not in nodes and min(nodes) < parting < max(nodes) for nodes in moved if nodes)


def test_a_plan_that_is_best_by_one_share_is_not_crowded_out_by_many_that_are_by_another() -> None:
    """300 plans that save a little of everything, one that adds some and saves most gradient exchange."""
    other_s, sync_s = np.full(301, 1.0), np.full(301, 1.0)
    other_s[-1], sync_s[-1] = 1.3, 0.1
    weighed = Weighed(plans=np.arange(301)[:, None], other_s=other_s, sync_s=sync_s)
    assert np.argsort(other_s + 0.25 * sync_s, kind="stable")[-1] == 300
    assert 300 in weighed.promising(8, FOREVER_S)
    assert 300 not in weighed.promising(301, 1.2)  # its step cannot be shorter than that
