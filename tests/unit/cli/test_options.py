"""What commands print for programs."""

import json

import pytest

from slicewise.cli.options import print_json


def test_numbers_that_json_has_no_word_for_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"losses": [2.5, float("nan")], "check": ({"far": float("inf")},), "step": 3, "name": "nan"})
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document == {"losses": [2.5, None], "check": [{"far": None}], "step": 3, "name": "nan"}
