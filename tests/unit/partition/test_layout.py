"""DESIGN.md's table "What an axis does", row by row, and the kinds that differ."""

import pytest

from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.layout import (
    PARTIAL,
    REPLICATE,
    Placement,
    Shard,
    layouts,
    partial_axes,
    replace_axes,
    sharding_axes,
    sync_axes,
)
from tests.builders import Net

N, CHANNEL, HEIGHT, WIDTH = Shard(0), Shard(1), Shard(2), Shard(3)
Row = tuple[Placement, Placement, Placement, Placement, Placement]


def conv(**options: int | bool) -> Layer:
    net = Net()
    return net[net.conv(net.input(4, 8, 8, 8), 8, **options)]  # type: ignore[arg-type]


def linear() -> Layer:
    net = Net()
    return net[net.linear(net.input(4, 8), 8)]


def row(layer: Layer, dim: Dim | None) -> tuple[Row, bool]:
    """x, w, y, dL/dy wanted, dL/dx produced; and whether dL/dw must be summed."""
    placed = layouts(layer, (dim,))
    tensors = (
        placed.inputs[0],
        placed.weights[0],
        placed.output,
        placed.output_gradient,
        placed.input_gradients[0],
    )
    x, w, y, dy, dx = (layout[0] for layout in tensors)
    return (x, w, y, dy, dx), placed.sync_axes == (0,)


@pytest.mark.parametrize(
    ("dim", "expected", "partial_weight_gradient"),
    [
        (Dim.N, (N, REPLICATE, N, N, N), True),
        (Dim.H, (HEIGHT, REPLICATE, HEIGHT, HEIGHT, HEIGHT), True),
        (Dim.W, (WIDTH, REPLICATE, WIDTH, WIDTH, WIDTH), True),
        (Dim.F, (REPLICATE, Shard(0), CHANNEL, CHANNEL, PARTIAL), False),
        (Dim.C, (CHANNEL, Shard(1), PARTIAL, REPLICATE, CHANNEL), False),
        (None, (REPLICATE, REPLICATE, REPLICATE, REPLICATE, REPLICATE), False),
    ],
)
def test_the_table_holds_for_convolutions(dim: Dim | None, expected: Row, partial_weight_gradient: bool) -> None:
    assert row(conv(), dim) == (expected, partial_weight_gradient)


@pytest.mark.parametrize(
    ("dim", "expected", "partial_weight_gradient"),
    [
        (Dim.N, (N, REPLICATE, N, N, N), True),
        (Dim.F, (REPLICATE, Shard(0), CHANNEL, CHANNEL, PARTIAL), False),
        (Dim.C, (CHANNEL, Shard(1), PARTIAL, REPLICATE, CHANNEL), False),
        (None, (REPLICATE, REPLICATE, REPLICATE, REPLICATE, REPLICATE), False),
    ],
)
def test_the_table_holds_for_linear_layers(dim: Dim | None, expected: Row, partial_weight_gradient: bool) -> None:
    assert row(linear(), dim) == (expected, partial_weight_gradient)


def test_a_transposed_convolution_differs_only_in_its_weights_order() -> None:
    transposed = conv(transposed=True)
    assert row(transposed, Dim.F) == ((REPLICATE, Shard(1), CHANNEL, CHANNEL, PARTIAL), False)
    assert row(transposed, Dim.C) == ((CHANNEL, Shard(0), PARTIAL, REPLICATE, CHANNEL), False)


def test_a_grouped_convolution_slices_inputs_with_filters_and_leaves_no_partial_sums() -> None:
    assert row(conv(groups=2), Dim.F) == ((CHANNEL, Shard(0), CHANNEL, CHANNEL, CHANNEL), False)


def test_a_bias_lies_with_the_filters() -> None:
    placed = layouts(conv(), (Dim.F, Dim.C, Dim.N))
    assert placed.weights == ((Shard(0), Shard(1), REPLICATE), (Shard(0), REPLICATE, REPLICATE))


def test_filters_then_channels_leave_nothing_to_move() -> None:
    """The Megatron pair."""
    before, after = layouts(linear(), (Dim.F,)), layouts(linear(), (Dim.C,))
    assert before.output == after.inputs[0]
    assert after.input_gradients[0] == before.output_gradient


def test_a_forks_channel_slicing_promises_partial_gradients() -> None:
    net = Net()
    fork = net[net.fork(net.input(4, 8, 8, 8))]
    placed = layouts(fork, (Dim.C,))
    assert placed.inputs == ((REPLICATE,),)
    assert placed.output == (REPLICATE,)
    assert placed.output_gradient == (PARTIAL,)
    assert placed.input_gradients == ((PARTIAL,),)
    sliced = layouts(fork, (Dim.F,))
    assert {sliced.inputs[0], sliced.output, sliced.output_gradient, sliced.input_gradients[0]} == {(CHANNEL,)}


def test_weights_gradients_are_summed_over_samples_and_positions_only() -> None:
    slicing = (Dim.N, Dim.H, None, Dim.F, Dim.C)
    assert sync_axes(conv(), slicing) == (0, 1)
    net = Net()
    source = net.input(4, 8, 8, 8)
    assert sync_axes(net[net.norm(source)], (Dim.N, Dim.W, Dim.F)) == (0, 1)
    assert sync_axes(net[net.relu(source)], (Dim.N, Dim.H)) == ()


def test_every_input_of_a_layer_is_placed() -> None:
    net = Net()
    one, other = net.input(4, 2, 8, 8), net.input(4, 6, 8, 8)
    placed = layouts(net[net.concat(one, other)], (Dim.N, Dim.H))
    assert placed.inputs == ((N, HEIGHT), (N, HEIGHT))


def test_axes_are_found_by_placement() -> None:
    layout = (N, PARTIAL, N, REPLICATE)
    assert sharding_axes(layout, 0) == (0, 2)
    assert partial_axes(layout) == (1,)
    assert replace_axes(layout, (1, 3), CHANNEL) == (N, CHANNEL, N, CHANNEL)
