"""The lesson on attention: its tables are its formulas."""

import pytest

from slicewise.studio.lessons.attention import BATCH, CHANNELS, attention_part


def test_a_row_is_what_the_docstring_says() -> None:
    """8 devices, 1,024 tokens, 5 GB/s, 20 us: by hand."""
    part = attention_part()
    rows = {cut: table["5"]["1024"]["8"] for cut, table in part["tables"].items()}
    tokens, weights, share = BATCH * 1024 * CHANNELS * 4, 4 * CHANNELS**2 * 4, 8 * 5e9
    flops = 3 * (8 * BATCH * 1024 * CHANNELS**2 + 4 * BATCH * 1024**2 * CHANNELS)
    gradient_s = 2 * 7 * (2e-5 + weights / share)
    assert [row["compute"] for row in rows.values()] == pytest.approx([flops / 8 / part["peak"]] * 3)
    assert rows["samples"]["gradient"] == pytest.approx(gradient_s)
    assert rows["heads"]["layerwise"] == pytest.approx(2 * 2 * 7 * (2e-5 + tokens / share))
    assert rows["queries"]["layerwise"] == pytest.approx(2 * 7 * (2e-5 + 2 * tokens / share))
    assert rows["queries"]["gradient"] == pytest.approx(gradient_s)


def test_samples_run_out_first_then_heads() -> None:
    tables = attention_part()["tables"]
    assert "8 samples do not reach 16 devices" in tables["samples"]["5"]["1024"]["16"]["reason"]
    assert "16 heads do not reach 32 devices" in tables["heads"]["5"]["1024"]["32"]["reason"]
    assert "step" in tables["queries"]["5"]["1024"]["32"]
