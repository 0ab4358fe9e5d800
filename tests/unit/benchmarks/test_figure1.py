"""ParaDL's figure 1: every strategy has bars, told apart into compute and communication."""

import pytest

from benchmarks.paradl.drawing import drawn
from benchmarks.paradl.figure1 import PUBLISHED, Bar, bars


@pytest.fixture(scope="module")
def found() -> list[Bar]:
    return bars()


def test_all_six_strategies_and_volumes_are_measured_and_projected(found: list[Bar]) -> None:
    assert {bar.strategy for bar in found if not bar.volumes} == set(PUBLISHED)
    assert {bar.network.partition(" ")[0] for bar in found if bar.volumes} == {"nnU-Net", "3-D", "CosmoFlow"}
    assert all(bar.compute_s > 0 and bar.measured_s > 0 for bar in found)
    assert all(bar.communication_s > 0 for bar in found if bar.strategy not in ("serial", "data"))


def test_parts_that_the_authors_tell_apart_add_up(found: list[Bar]) -> None:
    told = [bar for bar in found if bar.theirs is not None]
    assert len(told) == 51
    assert all(sum(bar.theirs or ()) == pytest.approx(bar.their_s, abs=2e-3) for bar in told)


def test_pipelines_are_as_near_as_the_authors_state_theirs_to_be(found: list[Bar]) -> None:
    pipelines = [bar.accuracy for bar in found if bar.strategy == "pipeline"]
    assert sum(pipelines) / len(pipelines) >= 0.88


def test_the_figure_has_a_bar_for_every_part(found: list[Bar]) -> None:
    shown = drawn(found)
    parts = sum(1 + 2 + (2 if bar.theirs else bar.their_s is not None) for bar in found)
    assert shown.count("GPUs, ") == parts
