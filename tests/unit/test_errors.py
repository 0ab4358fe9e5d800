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


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert str(UnknownName("model", "alexnte", ["unet3d", "alexnet"], " or a file")) == (
        "unknown model 'alexnte'; choose from alexnet, unet3d or a file"
    )


def test_a_wrong_request_is_told_on_one_line_whatever_it_says() -> None:
    assert str(PlanError("\x1b[31m: no\nsuch plan\ud800 é")) == "\\x1b[31m: no\\nsuch plan\\ud800 é"
