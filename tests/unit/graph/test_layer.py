from dataclasses import replace

import pytest

from slicewise.graph.dims import Dim
from slicewise.graph.layer import scaled_batch
from tests.builders import Net


def test_convolution_flops_are_two_per_weight_and_output_position() -> None:
    net = Net()
    layer = net[net.conv(net.input(4, 3, 8, 10), 16)]
    assert layer.shape == (4, 16, 8, 10)
    assert layer.flops() == 2 * (16 * 3 * 3 * 3) * (4 * 8 * 10)


def test_grouped_convolutions_only_mix_channels_of_a_group() -> None:
    net = Net()
    layer = net[net.conv(net.input(2, 8, 6, 6), 16, groups=4)]
    assert layer.flops() == 2 * (16 * 2 * 3 * 3) * (2 * 6 * 6)


def test_transposed_convolution_flops_count_input_positions() -> None:
    net = Net()
    layer = net[net.conv(net.input(2, 8, 5, 5), 4, kernel=2, stride=2, padding=0, transposed=True)]
    assert layer.shape == (2, 4, 10, 10)
    assert layer.flops() == 2 * (8 * 4 * 2 * 2) * (2 * 5 * 5)


def test_linear_flops_are_two_per_weight_and_sample() -> None:
    net = Net()
    assert net[net.linear(net.input(32, 100), 10)].flops() == 2 * 100 * 10 * 32


def test_every_row_meets_every_column_of_its_own_matrix() -> None:
    net = Net()
    layer = net[net.matmul(net.input(2, 3, 5, 7), net.input(2, 3, 7, 4))]
    assert layer.flops() == 2 * (2 * 3) * 5 * 7 * 4


def test_every_query_meets_every_key_once_for_its_score_and_once_for_its_value() -> None:
    net = Net()
    layer = net[net.attention(net.input(2, 6, 5, 8), net.input(2, 3, 7, 8), net.input(2, 3, 7, 4))]
    assert layer.flops() == 2 * (2 * 6) * 5 * 7 * (8 + 4)


def test_layers_without_matrix_products_count_no_flops() -> None:
    net = Net()
    source = net.input(2, 4, 8, 8)
    for name in (source, net.pool(source), net.norm(source), net.relu(source), net.flatten(source)):
        assert net[name].flops() == 0


def test_a_norms_statistics_span_what_it_averages_over() -> None:
    net = Net()
    source = net.input(2, 4, 8, 8)
    assert net[net.norm(source)].statistics == {Dim.N, Dim.H, Dim.W}
    assert net[net.norm(source, instance=True)].statistics == {Dim.H, Dim.W}
    assert net[net.relu(source)].statistics == frozenset()


def test_the_mean_of_a_norm_has_one_value_per_group() -> None:
    net = Net()
    norm = net[net.norm(net.input(2, 4, 8, 8), instance=True)]
    assert norm.statistics_shape == (2, 4, 1, 1)
    assert replace(norm, groups=2).statistics_shape == (2, 2, 1, 1)


def test_extents_list_every_tensor_that_has_the_dim() -> None:
    net = Net()
    layer = net[net.conv(net.input(4, 3, 9, 9), 16, stride=2)]
    assert layer.extents(Dim.H) == [9, 5]
    assert layer.extents(Dim.F) == [16, 16, 16]  # output, weight, bias
    assert layer.extents(Dim.C) == [3, 3]
    assert layer.extents(Dim.D) == []


@pytest.mark.parametrize(("dims", "expected"), [("NF", (9, 3)), ("n.", (9, 3)), ("F.", (2, 3))])
def test_only_batch_letters_scale_with_the_batch(dims: str, expected: tuple[int, ...]) -> None:
    assert scaled_batch(dims, (2, 3), 2, 9) == expected


def test_windows_in_the_batchs_place_scale_with_it() -> None:
    assert scaled_batch("N.F", (8, 16, 3), 2, 5) == (20, 16, 3)
