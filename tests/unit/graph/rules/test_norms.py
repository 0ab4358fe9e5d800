import pytest

from tests.unit.graph.rules.calls import known, meaning, spelled, tensor, weight

PLANE = tensor("NFHW", 2, 4, 9, 9)


@pytest.mark.parametrize(("operator", "statistics"), [("batch_norm", "NHW"), ("instance_norm", "HW")])
def test_norms_say_what_their_statistics_span(operator: str, statistics: str) -> None:
    operands = {"input": PLANE, "weight": weight(4), "bias": weight(4)}
    found = meaning(operator, PLANE.shape, operands, running_mean=None)
    assert spelled(found) == "NFHW, F, F -> NFHW"
    assert known(found).statistics == statistics


def test_an_instance_norm_that_tracks_statistics_is_left_alone() -> None:
    assert meaning("instance_norm", PLANE.shape, {"input": PLANE}, running_mean={"buffer": "mean"}) is None


@pytest.mark.parametrize(("groups", "statistics"), [(2, "HW"), (1, "FHW")])
def test_a_group_norm_is_sliced_by_group_and_one_group_across_channels(groups: int, statistics: str) -> None:
    operands = {"input": PLANE, "weight": weight(4), "bias": weight(4)}
    found = known(meaning("group_norm", PLANE.shape, operands, num_groups=groups))
    assert (found.statistics, found.groups) == (statistics, groups)


@pytest.mark.parametrize(
    ("letters", "count", "layer", "statistics"),
    [
        ("NHWF", 1, "NHWF, F, F -> NHWF", "F"),
        ("NFHW", 3, "NFHW, FHW, FHW -> NFHW", "FHW"),
        ("NF.W", 2, "NF.., .., .. -> NF..", ""),  # what no slicing can name is never sliced
    ],
)
def test_a_layer_norm_spans_its_last_dims(letters: str, count: int, layer: str, statistics: str) -> None:
    sizes = (2, 4, 5, 6)
    held = weight(*sizes[-count:])
    operands = {"input": tensor(letters, *sizes), "weight": held, "bias": held}
    found = meaning("layer_norm", sizes, operands, normalized_shape=list(sizes[-count:]))
    assert spelled(found) == layer
    assert known(found).statistics == statistics
    assert (known(found).letters or known(found).dims) == letters
