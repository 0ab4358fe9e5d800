from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from slicewise.cost.breakdown import Cost

NAMES = [field.name for field in fields(Cost)]
costs = st.builds(Cost, **{name: st.integers(0, 1000) for name in NAMES})


@given(costs, costs)
def test_costs_add_term_by_term(one: Cost, other: Cost) -> None:
    total = one + other
    for name in set(NAMES) - {"transient_bytes"}:
        assert getattr(total, name) == getattr(one, name) + getattr(other, name)


@given(costs, costs)
def test_what_is_needed_while_a_layer_runs_is_needed_once(one: Cost, other: Cost) -> None:
    total = one + other
    assert total.transient_bytes == max(one.transient_bytes, other.transient_bytes)
    assert total.peak_memory_bytes == one.memory_bytes + other.memory_bytes + total.transient_bytes


@given(costs)
def test_totals_are_the_sums_of_their_terms(cost: Cost) -> None:
    assert cost.total_s == sum(getattr(cost, name) for name in NAMES if name.endswith("_s"))
    sent = [name for name in NAMES if name.endswith("_bytes") and name not in ("memory_bytes", "transient_bytes")]
    assert cost.bytes_moved == sum(getattr(cost, name) for name in sent)
    assert cost.total_s == cost.compute_s + cost.communication_s + cost.update_s


@given(costs)
def test_the_json_names_every_term_and_total(cost: Cost) -> None:
    assert cost.to_dict() == {
        **{name: getattr(cost, name) for name in NAMES},
        "total_s": cost.total_s,
        "compute_s": cost.compute_s,
        "bytes_moved": cost.bytes_moved,
    }


def test_nothing_costs_nothing() -> None:
    assert Cost().total_s == 0
    assert sum([Cost(sync_s=1.0), Cost(sync_s=2.0)], Cost()) == Cost(sync_s=3.0)
