from slicewise.graph.dims import Dim
from slicewise.graph.operators import SAME
from slicewise.graph.window import Window
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor

PLANE = {"self": tensor("NFHW", 2, 4, 8, 9)}
LAST = 2**63 - 1


def test_padding_is_a_window_that_starts_outside() -> None:
    found = known(meaning("pad", (2, 4, 9, 12), PLANE, pad=[1, 2, 0, 1], mode="constant", value=None))
    assert spelled(found) == "NFHW -> NFHW"
    assert found.windows == {Dim.H: Window(kernel=1), Dim.W: Window(kernel=1, padding=1)}
    assert found.windows[Dim.W].needs(0, 3) == (-1, 2)


def test_borders_that_repeat_the_tensor_keep_their_dims_whole() -> None:
    found = known(meaning("pad", (2, 4, 8, 11), PLANE, pad=[1, 1], mode="reflect", value=None))
    assert (spelled(found), found.letters) == ("NFH. -> NFH.", "NFHW")


def test_no_padding_is_nothing() -> None:
    assert meaning("pad", (2, 4, 8, 9), PLANE, pad=[0, 0, 0, 0], mode="constant", value=None) == SAME


def test_a_slice_is_a_window_that_starts_inside() -> None:
    found = known(meaning("slice", (2, 4, 4, 9), PLANE, dim=2, start=1, end=LAST, step=2))
    assert found.windows == {Dim.H: Window(kernel=1, stride=2, padding=-1)}
    assert found.windows[Dim.H].needs(1, 3) == (3, 6)
    assert found.options["arguments"] == {"dim": 2, "start": 1, "end": 8, "step": 2}


def test_channels_can_be_cut_and_sliced_at_once() -> None:
    found = known(meaning("slice", (2, 2, 8, 9), PLANE, dim=1, start=-2, end=LAST, step=1))
    assert spelled(found) == "NFHW -> NFHW"
    assert found.windows == {Dim.F: Window(kernel=1, padding=-2)}


def test_slices_of_everything_are_nothing_and_of_samples_left_alone() -> None:
    assert meaning("slice", (2, 4, 8, 9), PLANE, dim=0, start=0, end=LAST, step=1) == SAME
    assert meaning("slice", (1, 4, 8, 9), PLANE, dim=0, start=0, end=1, step=1) is None
    assert meaning("select", (4, 8, 9), PLANE, dim=0, index=0) is None


def test_a_selected_dim_goes() -> None:
    assert spelled(meaning("select", (2, 8, 9), PLANE, dim=1, index=3)) == "N.HW -> NHW"
