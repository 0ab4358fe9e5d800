"""The one mechanism that all formats share: what it says, and that it finds the field."""

from typing import Annotated, Any

import pytest
from msgspec import UNSET, Meta, UnsetType

from slicewise.errors import PlanError
from slicewise.formats.checking import check_version, checked
from slicewise.formats.schema import Count, Excerpt, Name, Note, Notes, Positive, Share, Table


class Wheel(Table):
    size: Count
    name: Name = "wheel"


class Car(Table):
    wheels: Annotated[list[Wheel], Meta(min_length=1, max_length=4)]
    speeds: dict[str, Positive] = {}  # noqa: RUF012 (msgspec copies it)
    by_name: dict[str, dict[str, Count]] = {}  # noqa: RUF012
    share: Share = 1.0
    spare: Wheel | None = None
    notes: Notes = {}  # noqa: RUF012
    pair: tuple[Count, Count] | UnsetType = UNSET
    note: Note | list[Note] = None
    doors: dict[Name, Count] = {}  # noqa: RUF012


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"wheels": []}, "wheels is a list of 0; must be a list of at least 1"),
        ({"wheels": [{"size": 1}] * 5}, "wheels is a list of 5; must be a list of at most 4"),
        ({"wheels": [{"size": 1}, {}]}, "wheels[1].size is missing; must be a whole number of at least 1"),
        ({"wheels": [{"size": 1}, {"size": "2"}]}, "wheels[1].size is '2'; must be a whole number of at least 1"),
        ({"wheels": [{"size": 1}, 7]}, "wheels[1] is 7; must be a table"),
        ({"wheels": {"size": 1}}, "wheels is a table; must be a list of at least 1"),
        ({"speeds": {"a": 1, "b c": -1}}, "speeds['b c'] is -1; must be a number above 0"),
        ({"speeds": {f"gear{n}": n - 40 for n in range(99, 0, -1)}}, "speeds.gear40 is 0; must be a number above 0"),
        ({"by_name": {"x": {"y": 1}, "z": {"y": 1, "w": 0}}}, "by_name.z.w is 0; must be a whole number of at least 1"),
        ({"share": 1.5}, "share is 1.5; must be a number from 0 to 1"),
        ({"spare": {"size": None}}, "spare.size is null; must be a whole number of at least 1"),
        ({"spare": [1]}, "spare is a list of 1; must be a table or null"),
        ({"spare": {"sise": 1}}, "spare: unknown field 'sise' (did you mean size?); choose from size, name"),
        ({"notes": {"a": {}}}, "notes.a is a table; must be a finite number, text, true, false or null"),
        ({"note": [1, [2]]}, "note[1] is a list of 1; must be a finite number, text, true, false or null"),
        ({"pair": [1, 2, 3]}, "pair is a list of 3; must be a list of 2"),
        ({"pair": [1, 0]}, "pair[1] is 0; must be a whole number of at least 1"),
        ({"wheels": [{"size": 1, "name": "x" * 1001}]}, "wheels[0].name is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        ({"doors": {"left": 1, "a\nb": 1}}, "doors: the name 'a\\nb' must be text on one line"),
        ({"doors": {"left": 1, "right": 0}}, "doors.right is 0; must be a whole number of at least 1"),
        (
            {"notes": {"a": [], "b": 1, "c": 1}, "pair": ["\ud800", 1]},
            "notes.a is a list of 0; must be a finite number",
        ),
        ({"x` - at `$.wheels": 1}, "unknown field 'x` - at `$.wheels'; choose from wheels"),
        (
            {"wheels": [{"size": 10**80}]},
            "wheels[0].size is a number of more than 60 digits; must be a whole number of",
        ),
    ],
)
def test_a_complaint_names_the_field_its_value_and_what_would_work(change: dict[str, Any], complaint: str) -> None:
    document = {"wheels": [{"size": 3}], **change}
    with pytest.raises(PlanError) as refused:
        checked(Car, document, "car.json", PlanError)
    assert str(refused.value).startswith(f"car.json: {complaint}")


@pytest.mark.parametrize("document", [3, None, [], "car"])
def test_what_is_no_table_at_all_is_refused(document: Any) -> None:
    with pytest.raises(PlanError, match=r"car.json: the content is .*; must be a table"):
        checked(Car, document, "car.json", PlanError)


def test_an_excerpt_leaves_other_fields_alone() -> None:
    class Seen(Excerpt):
        size: Count

    assert checked(Seen, {"size": 3, "colour": "red"}, "car.json").size == 3


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, "no schema_version"),
        ([], "no schema_version"),
        ({"schema_version": 3}, "schema_version is 3"),
        ({"schema_version": "1"}, "schema_version is '1'"),
        ({"schema_version": 1.0}, "schema_version is 1.0"),
    ],
)
def test_a_version_that_is_not_known_is_refused(document: Any, told: str) -> None:
    with pytest.raises(PlanError) as refused:
        check_version(document, "car.json", (1, 2), PlanError)
    assert str(refused.value) == f"car.json: {told}; this release reads 1 and 2"
    assert check_version({"schema_version": 2}, "car.json", (1, 2), PlanError) == 2
