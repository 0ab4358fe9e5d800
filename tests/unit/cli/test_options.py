"""What commands print for programs."""

import json

import pytest

from slicewise.cli.main import parser
from slicewise.cli.options import print_json


def test_numbers_that_json_has_no_word_for_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"losses": [2.5, float("nan")], "check": ({"far": float("inf")},), "step": 3, "name": "nan"})
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document == {"losses": [2.5, None], "check": [{"far": None}], "step": 3, "name": "nan"}


def test_help_speaks_of_vision_networks_and_counts_no_lessons(capsys: pytest.CaptureFixture[str]) -> None:
    """Attention is sliced too, and lessons are added: a count in words would go stale."""
    for command in ([], ["report"]):
        with pytest.raises(SystemExit):
            parser().parse_args([*command, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "each layer of a vision network" in told
    assert "CNN" not in told
    assert "the studio's lessons instead" in told
