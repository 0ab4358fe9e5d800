"""The numbers of Learn are the package's own."""

import pytest

from slicewise.cost.training import PLAIN
from slicewise.graph.sources import load_graph
from slicewise.strategies.projecting import oracle_of
from slicewise.studio.lessons.closed import closed_tables, network_facts
from slicewise.studio.lessons.handout import page_of
from slicewise.studio.lessons.machine import BATCHES, DEVICES, GIGABYTES_PER_S, NETWORK, machine


@pytest.fixture(scope="module")
def tables() -> dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]]:
    return closed_tables()


@pytest.mark.parametrize("rate", GIGABYTES_PER_S[:2])
def test_the_tables_are_what_the_oracle_says(
    tables: dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]], rate: int
) -> None:
    batch = BATCHES[1]
    oracle = oracle_of(load_graph(NETWORK), machine(rate), batch=batch, training=PLAIN)
    for strategy, rows in tables.items():
        for count in DEVICES:
            projected, row = oracle.project(strategy, count), rows[str(rate)][str(batch)][str(count)]
            if projected.terms is None:
                assert row["reason"] == projected.reason
            else:
                assert row["step"] == pytest.approx(projected.iteration_s, rel=1e-6)


def test_the_formula_with_its_numbers_is_the_table(
    tables: dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]],
) -> None:
    """By hand, as the page spells it: 2 (p - 1) (alpha + |w| delta / (p beta))."""
    facts = network_facts()
    row = tables["data"]["5"]["512"]["8"]
    assert row["gradient"] == pytest.approx(2 * 7 * (2e-5 + facts["weights"] * 4 / (8 * 5e9)))


def test_the_handout_asks_for_nothing_outside_it() -> None:
    page = page_of({"closed": {}, "searched": {}})
    assert "import " not in page.partition('<script type="module">')[2].replace("import map", "")
    assert "export " not in page.partition('<script type="module">')[2]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert all(f"function {name}(" in page for name in ("drawFrame", "showLessons", "seconds", "put"))


def test_words_of_a_table_cannot_end_its_script() -> None:
    assert "</script><b>" not in page_of({"closed": {"network": "</script><b>"}, "searched": {}})
