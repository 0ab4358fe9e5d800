import pytest

from slicewise.errors import (
    CheckpointError,
    ClusterError,
    GraphError,
    InfeasibleError,
    MissingTorch,
    PlanError,
    RankError,
    SlicewiseError,
    SlicingError,
    UnknownName,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GraphError, 2),
        (ClusterError, 2),
        (SlicingError, 2),
        (PlanError, 2),
        (CheckpointError, 2),
        (UnknownName, 2),
        (MissingTorch, 2),
        (InfeasibleError, 1),
        (RankError, 3),
    ],
)
def test_exit_codes_tell_a_wrong_request_from_a_no_and_from_our_fault(error: type[SlicewiseError], code: int) -> None:
    assert error.exit_code == code


def test_of_many_names_those_are_listed_that_are_spelled_alike() -> None:
    layers = [f"layer{block}.{number}.conv{part}" for block in range(1, 5) for number in range(6) for part in (1, 2)]
    told = str(UnknownName("layer", "layer3.4.conv3", layers))
    assert told.startswith("unknown layer 'layer3.4.conv3'; choose from layer3.4.conv")
    assert told.endswith(" and 40 more")
    assert str(UnknownName("layer", "?", layers)).startswith("unknown layer '?'; choose from layer1.0.conv1, ")


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert str(UnknownName("model", "alexnte", ["unet3d", "alexnet"], " or a file")) == (
        "unknown model 'alexnte'; choose from alexnet, unet3d or a file"
    )


def test_a_wrong_request_is_told_on_one_line_whatever_it_says() -> None:
    assert str(PlanError("\x1b[31m: no\nsuch plan\ud800 é")) == "\\x1b[31m: no\\nsuch plan\\ud800 é"
