from typing import Any

import pytest

from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME
from slicewise.graph.rules.views import regrouped
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor


@pytest.mark.parametrize(
    ("letters", "before", "after", "layer", "known_as"),
    [
        ("NFHW", (2, 4, 3, 6), (2, 72), "NF.. -> NF", "NF"),
        ("NF..", (2, 4, 1, 1), (2, 4), "NF.. -> NF", "NF"),
        ("NF", (2, 4), (2, 4, 1, 1), "NF -> NF..", "NF.."),
        ("NFHW", (2, 4, 3, 6), (2, 4, 18), "NFH. -> NFH", "NFH"),
        ("NHF", (2, 18, 4), (2, 3, 6, 4), "NHF -> NH.F", "NH.F"),
        ("NFHW", (2, 4, 3, 6), (2, 2, 2, 3, 6), "NFHW -> NF.HW", "NF.HW"),
        ("N.FHW", (2, 2, 2, 3, 6), (2, 4, 3, 6), "N..HW -> N.HW", "NFHW"),  # the way back of a channel shuffle
        ("NFHW", (2, 4, 6, 6), (2, 6, 4, 6), "N..W -> N..W", "NF.W"),
        ("NHW..F", (2, 3, 3, 4, 4, 8), (18, 4, 4, 8), "N....F -> N..F", "N..F"),  # windows become samples
        ("N..F", (18, 4, 4, 8), (2, 3, 3, 4, 4, 8), "N..F -> N....F", "N....F"),  # and samples again
    ],
)
def test_slices_of_the_outermost_dim_stay_together(
    letters: str, before: tuple[int, ...], after: tuple[int, ...], layer: str, known_as: str
) -> None:
    found = meaning("reshape", after, {"self": tensor(letters, *before)})
    assert spelled(found) == layer
    assert known(found).letters == known_as


def test_only_flattening_samples_is_called_flatten() -> None:
    plane = {"self": tensor("NFHW", 2, 4, 3, 6)}
    assert known(meaning("flatten", (2, 72), plane)).kind is Kind.FLATTEN
    assert known(meaning("flatten", (2, 4, 18), plane)).kind is Kind.VIEW


def test_a_batch_inside_of_another_dim_is_left_alone() -> None:
    assert meaning("view", (18, 4), {"self": tensor("HNF", 9, 2, 4)}) is None


def test_a_view_of_the_same_shape_is_nothing() -> None:
    assert meaning("view", (2, 4), {"self": tensor("NF", 2, 4)}) == SAME


@pytest.mark.parametrize(
    ("operator", "arguments", "dims"),
    [
        ("permute", {"dims": [0, 2, 3, 1]}, "NHWF"),
        ("permute", {"dims": [0, -1, 1, 2]}, "NWFH"),
        ("transpose", {"dim0": 1, "dim1": -1}, "NWHF"),
        ("movedim", {"source": 1, "destination": -1}, "NHWF"),
        ("movedim", {"source": [2, 3], "destination": [0, 1]}, "HWNF"),
    ],
)
def test_permutations_take_the_letters_along(operator: str, arguments: dict[str, Any], dims: str) -> None:
    found = meaning(operator, (2, 4, 3, 6), {"self": tensor("NFHW", 2, 4, 3, 6)}, **arguments)
    assert spelled(found) == f"NFHW -> {dims}"


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 6, 5, 1), (2, 3, 2, 5), [([0], [0]), ([1], [1, 2]), ([2], [3])]),
        ((2, 3, 4), (2, 12), [([0], [0]), ([1, 2], [1])]),
        ((4, 6), (6, 4), [([0, 1], [0, 1])]),
        ((1, 1), (1,), []),
    ],
)
def test_dims_are_grouped_by_the_items_they_hold(
    before: tuple[int, ...], after: tuple[int, ...], groups: list[tuple[list[int], list[int]]]
) -> None:
    assert regrouped(before, after) == groups
