"""Every strategy has what its record says, and nothing is known of a strategy that has none."""

import pytest

from slicewise.cli.main import parser
from slicewise.cluster.cluster_file import CommunicationFields, FixedComputeFields
from slicewise.graph.dims import Dim
from slicewise.search.baselines import BASELINES, COMPARED, HYBRIDS
from slicewise.strategies.registry import CLOSED_FORMS
from slicewise.strategy import LAYERWISE, PLANNED, STRATEGIES, Form


def test_every_strategy_has_a_closed_form() -> None:
    assert set(CLOSED_FORMS) == set(STRATEGIES)


def test_every_strategy_that_slices_layers_has_a_plan_and_no_other_has() -> None:
    assert set(BASELINES) == {name for name, facts in STRATEGIES.items() if facts.form is Form.SLICED}


def test_every_hybrid_has_a_plan_for_a_given_number_of_groups() -> None:
    assert set(HYBRIDS) == {name for name, facts in STRATEGIES.items() if facts.hybrid}


def test_a_plan_stands_beside_those_that_are_compared() -> None:
    assert set(COMPARED) == {name for name, facts in STRATEGIES.items() if facts.compared}


def test_every_strategy_can_have_a_pace_in_a_cluster_file() -> None:
    assert CommunicationFields.__struct_encode_fields__ == tuple(STRATEGIES)


def test_shards_that_keep_compute_are_those_of_strategies_that_thin_whole_layers() -> None:
    assert set(FixedComputeFields.__struct_fields__) == {name for name, facts in STRATEGIES.items() if facts.staged}


def test_facts_agree_with_each_other() -> None:
    for name, facts in STRATEGIES.items():
        assert facts.name == name
        assert facts.told
        assert ";" not in facts.told  # what separates strategies in help
        assert {Dim(letter) for letter in facts.cuts} <= set(Dim)
        assert bool(facts.cuts) == (facts.form is Form.SLICED)
        assert not facts.hybrid or (facts.cuts.startswith("N") and len(facts.cuts) > 1)
        assert not facts.thinned or set(facts.cuts) - {"N"}
    assert LAYERWISE not in STRATEGIES


@pytest.mark.parametrize(
    ("command", "named"), [("plan", PLANNED), ("run", PLANNED), ("diagnose", PLANNED), ("oracle", tuple(STRATEGIES))]
)
def test_help_names_every_strategy(command: str, named: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in named:
        assert name in text
        if command in ("plan", "oracle"):
            assert f"{name}: {STRATEGIES[name].told}" in text
