"""Faults put into noisy records are found where they are; noise alone accuses nobody."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slicewise.diagnosis.judge import judge
from slicewise.diagnosis.readers.torch_profiler import KIND
from slicewise.diagnosis.record import Floats, Record
from slicewise.diagnosis.series import _prefix_deviations, lasting, pattern
from slicewise.diagnosis.verdict import Fault, Verdict
from tests.synthetic_runs import STEP_S, expected, factors, record

SEEDS = st.integers(0, 10_000)
NOISE = st.sampled_from([0.0, 0.005, 0.02, 0.04])
RANKS = st.sampled_from([2, 3, 4, 8])
LENGTHS = st.integers(20, 80)


@st.composite
def onsets(draw: st.DrawFn) -> tuple[int, int]:
    """(steps, the first faulty one); 0 is from the first step."""
    steps = draw(LENGTHS)
    since = draw(st.one_of(st.just(0), st.integers(5, steps - lasting(steps) - 1)))
    return steps, since


def only(verdicts: list[Verdict]) -> Verdict:
    assert len(verdicts) == 1, verdicts
    return verdicts[0]


def assert_since(verdict: Verdict, since: int) -> None:
    assert verdict.since_step is not None
    assert abs(verdict.since_step - since) <= 1, verdict


@given(LENGTHS, RANKS, NOISE, SEEDS)
def test_noise_alone_accuses_nobody(steps: int, ranks: int, noise: float, seed: int) -> None:
    verdict = only(judge(record(factors(steps, ranks), noise=noise, seed=seed), expected(ranks)))
    assert verdict.kind is Fault.NONE
    assert verdict.since_step is None


@given(onsets(), RANKS, NOISE, st.floats(1.4, 5), st.data(), SEEDS)
def test_a_slow_rank_is_found_at_its_rank_and_step(
    onset: tuple[int, int], ranks: int, noise: float, factor: float, data: st.DataObject, seed: int
) -> None:
    steps, since = onset
    rank = data.draw(st.integers(0, ranks - 1))
    compute = factors(steps, ranks)
    compute[since:, rank] = factor
    verdict = only(judge(record(compute, noise=noise, seed=seed), expected(ranks)))
    assert (verdict.kind, verdict.term, verdict.ranks) == (Fault.SLOW_RANK, "compute", (rank,))
    assert_since(verdict, since)
    assert abs(verdict.factor / factor - 1) < 0.1 + 2 * noise


@given(onsets(), RANKS, NOISE, st.floats(5, 30), SEEDS)
def test_a_slow_link_is_found_at_its_term_and_step(
    onset: tuple[int, int], ranks: int, noise: float, factor: float, seed: int
) -> None:
    steps, since = onset
    sync = factors(steps, ranks)
    sync[since:] = factor
    verdict = only(judge(record(factors(steps, ranks), sync, noise=noise, seed=seed), expected(ranks)))
    assert (verdict.kind, verdict.term, verdict.ranks) == (Fault.SLOW_LINK, "sync", tuple(range(ranks)))
    assert_since(verdict, since)
    assert abs(verdict.factor / factor - 1) < 0.1 + 2 * noise


@given(onsets(), RANKS, NOISE, st.floats(0.3, 3), SEEDS)
def test_waiting_for_data_is_found_at_its_rank_and_step(
    onset: tuple[int, int], ranks: int, noise: float, waited: float, seed: int
) -> None:
    steps, since = onset
    data = np.zeros((steps, ranks))
    data[since:, ranks - 1] = waited * STEP_S
    verdict = only(judge(record(factors(steps, ranks), data=data, noise=noise, seed=seed), expected(ranks)))
    assert (verdict.kind, verdict.term, verdict.ranks) == (Fault.STAGING, "data", (ranks - 1,))
    assert_since(verdict, since)


@given(st.integers(30, 80), RANKS, NOISE, st.floats(4, 20), st.integers(1, 2), SEEDS)
def test_bursts_of_communication_are_congestion(
    steps: int, ranks: int, noise: float, factor: float, length: int, seed: int
) -> None:
    sync = factors(steps, ranks)
    raised = (np.arange(steps) >= 10) & (np.arange(steps) % 5 < length)
    sync[raised] = factor
    verdict = only(judge(record(factors(steps, ranks), sync, noise=noise, seed=seed), expected(ranks)))
    assert (verdict.kind, verdict.term) == (Fault.CONGESTION, "sync")
    assert verdict.since_step == 10
    assert verdict.evidence["steps"] == raised.sum()


@given(LENGTHS, RANKS, NOISE, st.one_of(st.floats(0.1, 0.35), st.floats(2.5, 10)), SEEDS)
def test_what_is_off_everywhere_from_the_first_step_is_the_cost_model(
    steps: int, ranks: int, noise: float, factor: float, seed: int
) -> None:
    wrong = factors(steps, ranks) * factor
    verdict = only(judge(record(wrong, noise=noise, seed=seed), expected(ranks)))
    assert (verdict.kind, verdict.term) == (Fault.COST_MODEL, "compute")
    assert verdict.since_step == 0


@given(LENGTHS, RANKS, NOISE, st.floats(2.5, 6), st.data(), SEEDS)
def test_a_slow_rank_is_found_under_a_wrong_cost_model(
    steps: int, ranks: int, noise: float, factor: float, data: st.DataObject, seed: int
) -> None:
    """Two verdicts: one about the rank, one about all of them."""
    rank = data.draw(st.integers(0, ranks - 1))
    compute = factors(steps, ranks) * 3
    compute[steps // 2 :, rank] *= factor
    verdicts = judge(record(compute, noise=noise, seed=seed), expected(ranks))
    assert {verdict.kind for verdict in verdicts} == {Fault.SLOW_RANK, Fault.COST_MODEL}
    assert next(verdict.ranks for verdict in verdicts if verdict.kind is Fault.SLOW_RANK) == (rank,)


@given(LENGTHS, NOISE, SEEDS)
def test_a_rank_with_less_to_do_makes_no_other_rank_slow(steps: int, noise: float, seed: int) -> None:
    shares = np.array([1.0, 0.5])
    projected = expected(2, shares=shares)
    verdict = only(judge(record(factors(steps, 2) * shares, noise=noise, seed=seed), projected))
    assert verdict.kind is Fault.NONE


@given(onsets(), NOISE, st.floats(2, 5), SEEDS)
def test_a_rank_with_less_to_do_is_slow_where_it_takes_longer_than_its_share(
    onset: tuple[int, int], noise: float, factor: float, seed: int
) -> None:
    steps, since = onset
    shares = np.array([1.0, 0.75])
    compute = factors(steps, 2) * shares
    compute[since:, 1] *= factor
    verdict = only(judge(record(compute, noise=noise, seed=seed), expected(2, shares=shares)))
    assert (verdict.kind, verdict.ranks) == (Fault.SLOW_RANK, (1,))
    assert_since(verdict, since)


@given(st.integers(20, 80), st.sampled_from([0.0, 0.01]), st.floats(3, 10), SEEDS)
def test_of_two_ranks_that_are_slow_in_turn_each_is_blamed_for_its_own(
    steps: int, noise: float, factor: float, seed: int
) -> None:
    compute = factors(steps, 2)
    compute[: steps // 2, 0] = 1.5
    compute[steps // 2 :, 1] = factor
    much, little = judge(record(compute, noise=noise, seed=seed), expected(2))
    assert (much.kind, much.ranks, much.since_step) == (Fault.SLOW_RANK, (1,), steps // 2)
    assert (little.kind, little.ranks, little.since_step) == (Fault.SLOW_RANK, (0,), 0)
    assert little.evidence["last_step"] == steps // 2 - 1
    assert abs(little.factor - 1.5) < 0.2


@given(onsets(), NOISE, st.floats(1.5, 5), SEEDS)
def test_of_a_pipeline_only_whole_steps_are_judged(
    onset: tuple[int, int], noise: float, factor: float, seed: int
) -> None:
    """Its ranks wait for each other unseen: whoever is slow, no rank is accused."""
    steps, since = onset
    compute = factors(steps, 2)
    compute[since:, 1] = factor
    seen = record(compute, noise=noise, seed=seed)
    (verdict,) = judge(seen, replace(expected(2, range_factor=6), waits_inside=True))
    assert verdict.ranks == ()
    assert verdict.kind is (Fault.SLOWDOWN if since else Fault.NONE)
    if since:
        assert_since(verdict, since)
        assert set(verdict.alternatives) == {Fault.SLOW_RANK, Fault.SLOW_LINK, Fault.CONGESTION}


@given(onsets(), NOISE, st.floats(1.5, 5), SEEDS)
def test_one_ranks_trace_cannot_tell_a_slow_link_from_a_slow_rank(
    onset: tuple[int, int], noise: float, factor: float, seed: int
) -> None:
    """Rank 0 alone sees its collectives last longer; whether it waits for rank 1 there, nobody saw."""
    steps, since = onset[0], max(onset[1], 5)
    compute = factors(steps, 2)
    compute[since:, 1] = factor
    both = record(compute, noise=noise, seed=seed).seconds
    mine = {term: both[term][:, :1] for term in ("step", "compute", "update")}
    mine["communication"] = (both["sync"] + both["wait"])[:, :1]
    alone = Record(kind=KIND, files=("rank0",), steps=tuple(range(steps)), ranks=(0,), seconds=mine)
    verdict = judge(alone, expected(2))[0]
    assert verdict.kind is Fault.SLOW_LINK
    assert Fault.SLOW_RANK in verdict.alternatives
    assert_since(verdict, since)


@given(LENGTHS, RANKS, NOISE, st.floats(1.5, 3), st.data(), SEEDS)
def test_a_hiccup_of_the_whole_host_accuses_nobody(
    steps: int, ranks: int, noise: float, factor: float, data: st.DataObject, seed: int
) -> None:
    length = lasting(steps) * 2 // 3
    start = data.draw(st.integers(0, steps - length))
    compute = factors(steps, ranks)
    compute[start : start + length] = factor
    (verdict,) = judge(record(compute, noise=noise, seed=seed), expected(ranks))
    assert verdict.kind is Fault.NONE


def deviations(values: Floats) -> list[float]:
    return [float(np.abs(values[:k] - np.median(values[:k])).sum()) if k else 0.0 for k in range(len(values) + 1)]


@given(st.lists(st.floats(0, 100), max_size=30))
def test_deviations_of_prefixes_are_those_of_numpy(values: list[float]) -> None:
    assert np.allclose(_prefix_deviations(np.array(values)), deviations(np.array(values)), atol=1e-9)


@given(st.integers(12, 60), st.data(), SEEDS)
def test_a_change_point_is_where_it_was_put(steps: int, data: st.DataObject, seed: int) -> None:
    since = data.draw(st.integers(3, steps - lasting(steps)))
    values = np.random.default_rng(seed).normal(1.0, 0.02, steps)
    values[since:] += 0.5
    seen = pattern(values, floor=0.1, burst_floor=0.25)
    assert (seen.shape, seen.first) == ("since", since)
