"""The table of closed forms says what the code computes."""

import pytest

from slicewise.errors import RequestError
from slicewise.strategies.forms import WHAT, forms, formulas, symbols
from slicewise.strategies.projecting import oracle
from slicewise.strategy import STRATEGIES
from slicewise.units import seconds


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_its_formulas_in_its_docstring(strategy: str) -> None:
    found = formulas(strategy)
    assert list(found) == [what for what in WHAT if what != "communication" or strategy != "serial"]
    assert all(found.values())


def test_the_numbers_in_datas_formulas_give_its_terms() -> None:
    table = oracle("resnet50", "p100-4x4", batch_per_device=32, devices=[16], strategies=["data"])
    (row,) = table.rows
    assert row.terms is not None
    at = table.oracle.engine.setting(16, 512)
    known = {name: value for name, (value, _) in symbols(at, "data").items()}
    p, batch, alpha, beta, delta = (known[name] for name in ("p", "B", "alpha", "beta", "delta"))
    assert batch / p * known["S(FW + BW)"] + known["S(WU)"] == pytest.approx(row.terms.compute_s)
    assert 2 * (p - 1) * (alpha + known["S(w)"] * delta * beta / p) == pytest.approx(row.terms.gradient_s)


def test_a_table_has_numbers_in_place_of_symbols() -> None:
    table = oracle("alexnet", "p100-4x4", batch=512, devices=[16])
    found = {(form.strategy, form.what): form for form in forms(table.oracle, 16)}
    assert found["data", "limit"].numbers == "16 <= 512"
    assert found["filter", "limit"].numbers == "16 <= 64 (features.0)".replace(" (", "\u00a0(")
    row = next(row for row in table if row.strategy == "data")
    assert row.terms is not None
    assert found["data", "compute"].value == seconds(row.terms.compute_s)
    assert "alpha" not in found["data", "communication"].numbers
    assert found["data", "communication"].numbers.endswith("    the all-reduce of gradients")


def test_plans_have_no_closed_forms() -> None:
    table = oracle("lenet5", "p100-4x4", batch=16, devices=[2], engine="slicewise", strategies=["data"])
    with pytest.raises(RequestError, match="engine paradl"):
        forms(table.oracle, 2)
