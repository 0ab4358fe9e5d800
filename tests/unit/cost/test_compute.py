from dataclasses import replace

import pytest
from hypothesis import given

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.compute import AnalyticCompute, Share, shares
from slicewise.cost.training import Training
from slicewise.errors import ClusterError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices
from slicewise.partition.layout import Slicing
from tests.builders import DEVICE, Net, machine
from tests.property.strategies import layers, meshes

PAIR = Mesh.of({"all": 2})
ONE = ("backward_input",)
BOTH = ("backward_input", "backward_weight")


def shard(layer: Layer, slicing: Slicing, mesh: Mesh) -> Share:
    return shares(layer, Choices.of([slicing], mesh))


def forward_s(layer: Layer, cluster: Cluster, training: Training = Training()) -> float:  # noqa: B008 (frozen)
    """Of the whole layer."""
    part = shard(layer, (None,) * len(cluster.mesh.axes), cluster.mesh)
    return float(AnalyticCompute(cluster, training).forward_s(layer, part)[0])


@given(layers(["conv", "grouped", "transposed", "linear"]), meshes())
def test_the_whole_layer_as_a_matrix_product_has_the_layers_flops(layer: Layer, mesh: Mesh) -> None:
    part = shard(layer, (None,) * len(mesh.axes), mesh)
    assert part.flops == layer.flops()
    assert part.weights[0] == layer.weights[0].size


@given(layers(["matmul", "attention"]), meshes())
def test_a_whole_product_of_computed_tensors_has_the_layers_flops(layer: Layer, mesh: Mesh) -> None:
    assert shard(layer, (None,) * len(mesh.axes), mesh).flops == layer.flops()


def test_slicing_a_product_of_computed_tensors_or_attention_divides_its_work() -> None:
    net = Net()
    product = net[net.matmul(net.input(2, 4, 6, 8), net.input(2, 4, 8, 2))]
    for dim in (Dim.N, Dim.A, Dim.Q, Dim.C, Dim.K):
        assert shard(product, (dim,), PAIR).flops * 2 == product.flops()
    attention = net[net.attention(net.input(2, 4, 6, 8), net.input(2, 2, 5, 8), net.input(2, 2, 5, 3))]
    for dim in (Dim.N, Dim.A, Dim.Q):
        part = shard(attention, (dim,), PAIR)
        assert part.flops * 2 == attention.flops()
    assert [int(size[0]) for size in (part.groups, part.rows, part.columns, part.reduction)] == [8, 3, 5, 11]


def test_attentions_backward_computes_the_scores_again() -> None:
    net = Net()
    keys, values = net.input(2, 4, 6, 8), net.input(2, 4, 6, 3)
    part = shard(net[net.attention(keys, keys, values)], (None,), PAIR)
    assert part.summed("forward") == part.summed("backward_weight") == 8 + 3
    assert part.summed("backward_input") == 2 * 8 + 3


@pytest.mark.parametrize("dim", [Dim.N, Dim.F, Dim.C, Dim.H, Dim.W])
def test_every_even_slicing_halves_the_flops(dim: Dim) -> None:
    net = Net()
    for layer in (net[net.conv(net.input(4, 8, 8, 8), 16)], net[net.conv(net.input(4, 8, 8, 8), 16, transposed=True)]):
        assert shard(layer, (dim,), PAIR).flops * 2 == layer.flops()


def test_slicing_groups_leaves_each_group_whole() -> None:
    net = Net()
    layer = net[net.conv(net.input(4, 8, 8, 8), 16, groups=4)]
    part = shard(layer, (Dim.F,), PAIR)
    assert [int(size[0]) for size in (part.groups, part.columns, part.reduction)] == [2, 4, 2 * 9]
    assert part.flops * 2 == layer.flops()


def test_uneven_parts_count_as_the_largest() -> None:
    net = Net()
    layer = net[net.linear(net.input(5, 4), 4)]
    assert shard(layer, (Dim.N,), PAIR).rows == 3


def test_many_slicings_are_one_array() -> None:
    net = Net()
    layer = net[net.linear(net.input(8, 4), 6)]
    part = shares(layer, Choices.of([(None,), (Dim.N,), (Dim.F,), (Dim.C,)], PAIR))
    assert part.rows.tolist() == [8, 4, 8, 8]
    assert part.columns.tolist() == [6, 6, 3, 6]
    assert part.reduction.tolist() == [4, 4, 4, 2]
    assert part.output.tolist() == [48, 24, 24, 48]
    assert part.weight_items.tolist() == [24 + 6, 24 + 6, 12 + 3, 12 + 6]


def test_a_large_product_runs_at_its_efficiency_and_a_small_one_slower() -> None:
    """Linear 4096 x 1024 -> 1024 forward, worked out by hand with the toy device's half sizes 8, 4, 4."""
    net = Net()
    layer = net[net.linear(net.input(4096, 1024), 1024)]
    cluster = machine(2)
    saturation = 4096 / 4104 * (1024 / 1028) ** 2
    expected_s = layer.flops() / (1e12 * 0.6 * saturation) + 1e-6
    assert forward_s(layer, cluster) == pytest.approx(expected_s)
    half_s = AnalyticCompute(cluster).forward_s(layer, shard(layer, (Dim.F,), cluster.mesh))
    assert half_s > expected_s / 2


def test_backward_is_one_pass_for_each_operand_that_wants_a_gradient() -> None:
    net = Net()
    layer = net[net.linear(net.input(4096, 1024), 1024)]
    compute = AnalyticCompute(machine(2))
    part = shard(layer, (None,), PAIR)
    assert compute.backward_s(layer, part, BOTH) == pytest.approx(2 * compute.backward_s(layer, part, ONE))


def test_what_only_moves_memory_takes_its_bytes() -> None:
    net = Net()
    layer = net[net.relu(net.input(8, 16, 32, 32))]
    items = 8 * 16 * 32 * 32
    expected_s = 2 * items * 4 / DEVICE.memory_bytes_per_s + DEVICE.kernel_s
    assert forward_s(layer, machine(2)) == pytest.approx(expected_s)
    assert AnalyticCompute(machine(2)).update_s(layer, shard(layer, (None,), PAIR)) == 0.0


def test_half_as_wide_items_take_half_the_bytes_and_products_run_at_the_dtypes_rate() -> None:
    net = Net()
    source = net.input(4096, 1024)
    relu, linear = net[net.relu(source)], net[net.linear(source, 1024)]
    quick = replace(machine(2), device=replace(DEVICE, reduced_flops_per_s={"bf16": 4e12, "tf32": 2e12}))
    kernel_s = DEVICE.kernel_s
    for dtype, factor, bytes_factor in (("tf32", 2, 1), ("bf16", 4, 2)):
        training = Training(dtype=dtype)
        assert forward_s(linear, quick, training) - kernel_s == pytest.approx(
            (forward_s(linear, quick) - kernel_s) / factor
        )
        assert forward_s(relu, quick, training) - kernel_s == pytest.approx(
            (forward_s(relu, quick) - kernel_s) / bytes_factor
        )


def test_weights_stay_as_wide_as_they_are() -> None:
    """A linear layer of one sample is bound by its weights: 4 bytes each, whatever the activations have."""
    net = Net()
    layer = net[net.linear(net.input(1, 1000), 1000)]
    quick = replace(machine(2), device=replace(DEVICE, reduced_flops_per_s={"bf16": 1e18}))
    expected_s = (2 * 2000 + 4 * 1_001_000) / DEVICE.memory_bytes_per_s + DEVICE.kernel_s
    assert forward_s(layer, quick, Training(dtype="bf16")) == pytest.approx(expected_s)


def test_a_dtype_that_the_device_lacks_is_refused() -> None:
    net = Net()
    layer = net[net.linear(net.input(4, 4), 4)]
    with pytest.raises(ClusterError, match="toy has no bf16; choose from fp32"):
        forward_s(layer, machine(2), Training(dtype="bf16"))


@pytest.mark.parametrize(("optimizer", "touched"), [("sgd", 3), ("momentum", 5), ("adam", 7)])
def test_an_update_reads_the_gradient_and_reads_and_writes_the_rest(optimizer: str, touched: int) -> None:
    net = Net()
    layer = net[net.linear(net.input(4, 1000), 1000)]
    compute = AnalyticCompute(machine(2), Training(optimizer=optimizer))
    expected_s = touched * 4 * (500 * 1000 + 500) / DEVICE.memory_bytes_per_s + DEVICE.kernel_s
    assert compute.update_s(layer, shard(layer, (Dim.F,), PAIR)) == pytest.approx(expected_s)


def test_frozen_weights_and_weights_counted_elsewhere_are_not_updated() -> None:
    net = Net()
    layer = net[net.linear(net.input(4, 1000), 1000)]
    compute, part = AnalyticCompute(machine(2)), shard(layer, (None,), PAIR)
    matrix, bias = layer.weights
    bias_s = 3 * 4 * 1000 / DEVICE.memory_bytes_per_s + DEVICE.kernel_s
    for other in (replace(matrix, trained=False), replace(matrix, shared=True, again=True)):
        assert compute.update_s(replace(layer, weights=(other, bias)), part) == pytest.approx(bias_s)
    frozen = tuple(replace(weight, trained=False) for weight in layer.weights)
    assert compute.update_s(replace(layer, weights=frozen), part) == 0.0


def test_ranks_that_share_a_core_take_turns() -> None:
    net = Net()
    layer = net[net.linear(net.input(64, 64), 64)]
    part = shard(layer, (None, None), Mesh.of({"all": 4}))
    alone, shared = AnalyticCompute(machine(4)), AnalyticCompute(machine(4, cores=2))
    assert shared.forward_s(layer, part) == pytest.approx(2 * alone.forward_s(layer, part))
    assert shared.update_s(layer, part) == pytest.approx(2 * alone.update_s(layer, part))


def test_what_is_recomputed_runs_forward_twice_and_products_do_not() -> None:
    net = Net()
    norm, conv = net[net.norm(net.input(8, 16, 32, 32))], net[net.conv(net.input(8, 16, 32, 32), 4)]
    plain, again = (AnalyticCompute(machine(2), Training(recompute=recompute)) for recompute in (False, True))
    for layer, more in ((norm, True), (conv, False)):
        part = shard(layer, (None,), PAIR)
        forward_once_s = plain.forward_s(layer, part)
        assert again.forward_s(layer, part) == forward_once_s
        assert again.backward_s(layer, part, ONE) == pytest.approx(
            plain.backward_s(layer, part, ONE) + more * forward_once_s
        )


def test_inputs_outputs_forks_and_flattening_compute_nothing() -> None:
    net = Net()
    source = net.input(4, 8, 8, 8)
    net.flatten(source)
    net.output(net.fork(source))
    compute = AnalyticCompute(machine(2), Training(recompute=True))
    for layer in net.layers:
        part = shard(layer, (None,), PAIR)
        assert compute.forward_s(layer, part) == compute.backward_s(layer, part, ONE) == 0.0


def test_volumes_run_at_their_own_rate_where_one_is_given() -> None:
    net = Net()
    layer = net[net.conv(net.input(1, 4, 8, 8, 8), 8)]
    plain = machine(1)
    own = replace(DEVICE, efficiency={**DEVICE.efficiency, "conv3d": 0.25, "conv3d_backward": 0.1})
    part = shard(layer, (), plain.mesh)
    slow, fast = (AnalyticCompute(replace(plain, device=device)) for device in (own, DEVICE))
    kernel_s = DEVICE.kernel_s
    assert slow.forward_s(layer, part) - kernel_s == pytest.approx(2 * (fast.forward_s(layer, part) - kernel_s))
    assert slow.backward_s(layer, part, BOTH) > fast.backward_s(layer, part, BOTH)
