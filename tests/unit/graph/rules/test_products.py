from typing import Any

import pytest

from slicewise.graph.dims import Dim
from slicewise.graph.operators import Found, Operand
from slicewise.graph.window import Window
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor, weight


def conv(factor: Operand | None = None, **changes: Any) -> Found:
    arguments = {"stride": [2], "padding": [1, 0], "dilation": [1, 1], "groups": 1, **changes}
    operands = {
        "input": tensor("NFHW", 2, 4, 8, 8),
        "weight": factor or weight(6, 4 // arguments["groups"], 3, 3),
        "bias": weight(6),
    }
    return meaning("conv2d", (2, 6, 4, 3), operands, **arguments)


def test_a_convolution_is_spelled_as_an_einsum() -> None:
    assert spelled(conv()) == "NCHW, FC.., F -> NFHW"
    assert known(conv()).windows == {
        Dim.H: Window(kernel=3, stride=2, padding=1),
        Dim.W: Window(kernel=3, stride=2, padding=0),
    }


def test_grouped_convolutions_slice_input_and_output_channels_together() -> None:
    assert spelled(conv(groups=2)) == "NFHW, F..., F -> NFHW"
    assert known(conv(groups=2)).groups == 2


def test_a_computed_weight_has_the_letters_of_a_parameter() -> None:
    assert spelled(conv(tensor("....", 6, 4, 3, 3))) == "NCHW, FC.., F -> NFHW"


@pytest.mark.parametrize(
    ("padding", "kernel", "dilation", "before"),
    [("same", 3, 1, 1), ("same", 4, 1, 1), ("same", 2, 1, 0), ("same", 4, 3, 4), ("valid", 5, 1, 0)],
)
def test_padding_by_name_says_what_comes_before_the_first_position(
    padding: str, kernel: int, dilation: int, before: int
) -> None:
    found = known(conv(weight(6, 4, kernel, kernel), padding=padding, stride=[1], dilation=[dilation]))
    assert [window.padding for window in found.windows.values()] == [before, before]


def test_a_transposed_convolutions_weight_has_its_inputs_first() -> None:
    operands = {"input": tensor("NFW", 2, 4, 8), "weight": weight(4, 6, 2)}
    arguments = {"stride": [2], "padding": [0], "output_padding": [0], "dilation": [1], "groups": 1}
    found = meaning("conv_transpose1d", (2, 6, 16), operands, **arguments)
    assert spelled(found) == "NCW, CF. -> NFW"
    assert known(found).windows == {Dim.W: Window(kernel=2, stride=2, transposed=True)}


def test_a_convolution_of_one_sample_without_a_batch_is_left_alone() -> None:
    operands = {"input": tensor("...", 4, 8, 8), "weight": weight(6, 4, 3, 3)}
    assert meaning("conv2d", (6, 6, 6), operands, stride=[1], padding=[0], dilation=[1], groups=1) is None


@pytest.mark.parametrize(
    ("letters", "shape", "layer"),
    [
        ("NF", (2, 8), "NC, FC, F -> NF"),
        ("NHWF", (2, 5, 5, 8), "NHWC, FC, F -> NHWF"),
        ("NFW", (2, 7, 8), "N.C, FC, F -> N.F"),  # F is what the layer makes, and no letter comes twice
    ],
)
def test_a_linear_layer_makes_filters_of_channels(letters: str, shape: tuple[int, ...], layer: str) -> None:
    operands = {"input": tensor(letters, *shape), "weight": weight(5, 8), "bias": weight(5)}
    assert spelled(meaning("linear", (*shape[:-1], 5), operands)) == layer


def test_a_matrix_on_the_right_has_its_inputs_first() -> None:
    operands = {"self": tensor("NF", 2, 8), "other": weight(8, 5)}
    assert spelled(meaning("matmul", (2, 5), operands)) == "NC, CF -> NF"
