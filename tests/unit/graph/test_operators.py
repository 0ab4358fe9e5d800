"""What operators mean, from shapes alone; the walk over a real network is in test_capture.py."""

from typing import Any

import pytest

from slicewise.graph.dims import Dim
from slicewise.graph.layer import Kind
from slicewise.graph.operators import RULES, Call, Meaning
from slicewise.graph.window import Window

Shape = tuple[int, ...]
INPUT, WEIGHT, BIAS = {"input": 0}, {"weight": "w"}, {"weight": "b"}


def meaning(
    operator: str,
    shape: Shape,
    *,
    inputs: tuple[Shape, ...],
    letters: tuple[str, ...],
    weights: tuple[Shape, ...] = (),
    **arguments: Any,
) -> Meaning | None:
    call = Call(
        operator=operator,
        arguments=arguments,
        input_shapes=inputs,
        input_letters=letters,
        weight_shapes=weights,
        shape=shape,
    )
    return RULES[operator](call)


def known(found: Meaning | None) -> Meaning:
    assert found is not None
    return found


def conv(weight: Any = WEIGHT, bias: Any = BIAS, **changes: Any) -> Meaning | None:
    arguments = {"stride": [2], "padding": [1, 0], "dilation": [1, 1], "groups": 1, **changes}
    return meaning(
        "conv2d",
        (2, 6, 4, 3),
        inputs=((2, 4, 8, 8),),
        letters=("NFHW",),
        weights=((6, 4 // arguments["groups"], 3, 3), (6,)),
        weight=weight,
        bias=bias,
        **arguments,
    )


def test_a_convolution_is_spelled_as_an_einsum() -> None:
    found = known(conv())
    assert (found.input_dims, found.weight_dims, found.dims) == (("NCHW",), ("FC..", "F"), "NFHW")
    assert found.windows == {
        Dim.H: Window(kernel=3, stride=2, padding=1),
        Dim.W: Window(kernel=3, stride=2, padding=0),
    }


def test_grouped_convolutions_slice_input_and_output_channels_together() -> None:
    found = known(conv(groups=2))
    assert (found.input_dims, found.weight_dims, found.groups) == (("NFHW",), ("F...", "F"), 2)


def test_a_transposed_convolutions_weight_has_its_inputs_first() -> None:
    found = known(
        meaning(
            "conv_transpose1d",
            (2, 6, 16),
            inputs=((2, 4, 8),),
            letters=("NFW",),
            weights=((4, 6, 2),),
            weight=WEIGHT,
            bias=None,
            stride=[2],
            padding=[0],
            output_padding=[0],
            dilation=[1],
            groups=1,
        )
    )
    assert (found.input_dims, found.weight_dims, found.dims) == (("NCW",), ("CF.",), "NFW")
    assert known(found).windows == {Dim.W: Window(kernel=2, stride=2, transposed=True)}


def test_convolutions_beyond_the_rule_are_left_alone() -> None:
    assert conv(padding="same") is None
    assert conv(weight={"buffer": "frozen"}) is None
    assert conv(weight={"input": 1}) is None
    assert conv(bias={"input": 1}) is None


def linear(shape: Shape, letters: str, weight: Any = WEIGHT) -> Meaning | None:
    return meaning(
        "linear",
        (*shape[:-1], 5),
        inputs=(shape,),
        letters=(letters,),
        weights=((5, shape[-1]), (5,)),
        weight=weight,
        bias=BIAS,
    )


def test_a_linear_layer_makes_filters_of_channels() -> None:
    found = known(linear((2, 8), "NF"))
    assert (found.input_dims, found.weight_dims, found.dims) == (("NC",), ("FC", "F"), "NF")


def test_no_letter_comes_twice_where_a_linear_layer_works_on_sequences() -> None:
    found = known(linear((2, 7, 8), "NFW"))
    assert (found.input_dims, found.dims) == (("N.C",), "N.F")


def test_a_linear_layer_with_a_computed_weight_is_left_alone() -> None:
    assert linear((2, 8), "NF", weight={"input": 1}) is None


def pool(operator: str, **arguments: Any) -> Meaning:
    defaults = {"kernel_size": [3, 3], "stride": [], "padding": [0, 0], "ceil_mode": False}
    return known(
        meaning(
            operator,
            (2, 4, 3, 3),
            inputs=((2, 4, 9, 9),),
            letters=("NFHW",),
            **{**defaults, **arguments},
        )
    )


def test_pooling_without_a_stride_steps_by_its_kernel() -> None:
    assert pool("max_pool2d").windows == {dim: Window(kernel=3, stride=3) for dim in (Dim.H, Dim.W)}


def test_padded_averages_keep_space_whole_for_their_divisors_differ_at_borders() -> None:
    assert pool("avg_pool2d").dims == "NFHW"
    assert pool("avg_pool2d", padding=[1, 1]).dims == "NF.."
    assert pool("avg_pool2d", ceil_mode=True).dims == "NF.."
    assert pool("max_pool2d", padding=[1, 1]).dims == "NFHW"


def test_adaptive_pooling_is_a_window_only_where_it_divides() -> None:
    found = known(
        meaning("adaptive_avg_pool2d", (2, 4, 3, 2), inputs=((2, 4, 9, 7),), letters=("NFHW",), output_size=[3, 2])
    )
    assert found.dims == "NFH."
    assert found.windows == {Dim.H: Window(kernel=3, stride=3)}
    assert found.letters == "NFHW"


@pytest.mark.parametrize(("operator", "statistics"), [("batch_norm", "NHW"), ("instance_norm", "HW")])
def test_norms_say_what_their_statistics_span(operator: str, statistics: str) -> None:
    found = known(
        meaning(
            operator,
            (2, 4, 9, 9),
            inputs=((2, 4, 9, 9),),
            letters=("NFHW",),
            weights=((4,), (4,)),
            weight=WEIGHT,
            bias=BIAS,
            running_mean=None,
        )
    )
    assert (found.statistics, found.weight_dims) == (statistics, ("F", "F"))


def test_an_instance_norm_that_tracks_statistics_is_left_alone() -> None:
    shape = (2, 4, 9, 9)
    running = {"buffer": "mean"}
    found = meaning(
        "instance_norm", shape, inputs=(shape,), letters=("NFHW",), weight=None, bias=None, running_mean=running
    )
    assert found is None


def add(shape: Shape, inputs: tuple[Shape, ...], letters: tuple[str, ...], other: Any = None) -> Meaning | None:
    return meaning("add", shape, inputs=inputs, letters=letters, self=INPUT, other=other or {"input": 1})


def test_elementwise_layers_slice_what_their_inputs_agree_on() -> None:
    shape = (2, 4, 8)
    assert known(add(shape, (shape, shape), ("NFW", "NFW"))).dims == "NFW"
    assert known(add(shape, (shape, shape), ("NFW", "N.F"))).dims == "NF."
    assert known(add(shape, (shape, shape), ("NFW", "..."))).dims == "NFW"


def test_elementwise_layers_never_name_a_letter_twice() -> None:
    shape = (2, 4, 8)
    assert known(add(shape, (shape, shape), ("NF.", "N.F"))).dims == "N.."


def test_the_batch_of_an_opaque_layer_is_a_batch_to_its_readers() -> None:
    shape = (2, 4, 8)
    assert known(add(shape, (shape, shape), ("NFW", "n.."))).dims == "NFW"


def test_a_stretched_dim_is_not_sliced_with_the_output() -> None:
    found = known(add((2, 4, 8, 8), ((2, 4, 8, 8), (2, 4, 1, 1)), ("NFHW", "NFHW")))
    assert found.input_dims == ("NFHW", "NF..")


def test_elementwise_layers_with_a_parameter_or_buffer_are_left_alone() -> None:
    for other in ({"weight": "scale"}, {"buffer": "mask"}):
        assert add((2, 4, 8), ((2, 4, 8),), ("NFW",), other) is None


def test_a_concatenation_keeps_the_joined_dim_whole() -> None:
    found = known(
        meaning(
            "cat",
            (2, 8, 5),
            inputs=((2, 4, 5), (2, 4, 5)),
            letters=("NFW", "NFW"),
            tensors=[{"input": 0}, {"input": 1}],
            dim=-2,
        )
    )
    assert (found.kind, found.input_dims, found.dims, found.letters) == (Kind.CONCAT, ("N.W", "N.W"), "N.W", "NFW")


def test_a_concatenation_with_a_parameter_is_left_alone() -> None:
    tensors = [INPUT, {"weight": "token"}]
    assert meaning("cat", (2, 8, 5), inputs=((2, 4, 5),), letters=("NFW",), tensors=tensors, dim=1) is None


@pytest.mark.parametrize(
    ("shape", "letters", "dims"),
    [((2, 72), "NFHW", ("NF..", "NF")), ((2, 4, 18), "NFHW", None), ((8, 18), "NFHW", None), ((2, 72), "n...", None)],
)
def test_only_flattening_whole_samples_keeps_channels(shape: Shape, letters: str, dims: tuple[str, str] | None) -> None:
    found = meaning("flatten", shape, inputs=((2, 4, 3, 6),), letters=(letters,))
    assert (found and (found.input_dims[0], found.dims)) == dims
