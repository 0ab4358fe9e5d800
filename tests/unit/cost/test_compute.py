from dataclasses import replace

import pytest
from hypothesis import given

from slicewise.cluster.mesh import Mesh
from slicewise.cost.compute import AnalyticCompute, shard
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from tests.builders import DEVICE, Net, machine
from tests.property.strategies import layers, meshes

PAIR = Mesh.of({"all": 2})


@given(layers(["conv", "grouped", "transposed", "linear"]), meshes())
def test_the_whole_layer_as_a_matrix_product_has_the_layers_flops(layer: Layer, mesh: Mesh) -> None:
    part = shard(layer, (None,) * len(mesh.axes), mesh)
    assert part.flops == layer.flops()
    assert part.weights[0] == layer.weights[0].size


@pytest.mark.parametrize("dim", [Dim.N, Dim.F, Dim.C, Dim.H, Dim.W])
def test_every_even_slicing_halves_the_flops(dim: Dim) -> None:
    net = Net()
    for layer in (net[net.conv(net.input(4, 8, 8, 8), 16)], net[net.conv(net.input(4, 8, 8, 8), 16, transposed=True)]):
        assert shard(layer, (dim,), PAIR).flops * 2 == layer.flops()


def test_slicing_groups_leaves_each_group_whole() -> None:
    net = Net()
    layer = net[net.conv(net.input(4, 8, 8, 8), 16, groups=4)]
    part = shard(layer, (Dim.F,), PAIR)
    assert (part.groups, part.columns, part.reduction) == (2, 4, 2 * 9)
    assert part.flops * 2 == layer.flops()


def test_uneven_parts_count_as_the_largest() -> None:
    net = Net()
    layer = net[net.linear(net.input(5, 4), 4)]
    assert shard(layer, (Dim.N,), PAIR).rows == 3


def test_a_large_product_runs_at_its_efficiency_and_a_small_one_slower() -> None:
    """Linear 4096 x 1024 -> 1024 forward, worked out by hand with the toy device's half sizes 8, 4, 4."""
    net = Net()
    layer = net[net.linear(net.input(4096, 1024), 1024)]
    cluster = machine(2)
    whole = shard(layer, (None,), cluster.mesh)
    saturation = 4096 / 4104 * (1024 / 1028) ** 2
    expected_s = layer.flops() / (1e12 * 0.6 * saturation) + 1e-6
    assert AnalyticCompute(cluster).forward_s(layer, whole) == pytest.approx(expected_s)
    half_s = AnalyticCompute(cluster).forward_s(layer, shard(layer, (Dim.F,), cluster.mesh))
    assert half_s > expected_s / 2


def test_backward_is_one_product_for_the_weights_and_one_for_the_input() -> None:
    net = Net()
    layer = net[net.linear(net.input(4096, 1024), 1024)]
    compute = AnalyticCompute(machine(2))
    part = shard(layer, (None,), PAIR)
    assert compute.backward_s(layer, part, True) == pytest.approx(2 * compute.backward_s(layer, part, False))


def test_what_only_moves_memory_takes_its_bytes() -> None:
    net = Net()
    layer = net[net.relu(net.input(8, 16, 32, 32))]
    items = 8 * 16 * 32 * 32
    part = shard(layer, (None,), PAIR)
    compute = AnalyticCompute(machine(2))
    assert compute.forward_s(layer, part) == pytest.approx(2 * items * 4 / DEVICE.memory_bytes_per_s + DEVICE.kernel_s)
    assert compute.update_s(part) == 0.0


def test_an_update_reads_the_gradient_and_reads_and_writes_the_weight() -> None:
    net = Net()
    part = shard(net[net.linear(net.input(4, 1000), 1000)], (Dim.F,), PAIR)
    expected_s = 3 * 4 * (500 * 1000 + 500) / DEVICE.memory_bytes_per_s + DEVICE.kernel_s
    assert AnalyticCompute(machine(2)).update_s(part) == pytest.approx(expected_s)


def test_ranks_that_share_a_core_take_turns() -> None:
    net = Net()
    layer = net[net.linear(net.input(64, 64), 64)]
    part = shard(layer, (None, None), Mesh.of({"all": 4}))
    alone, shared = AnalyticCompute(machine(4)), AnalyticCompute(machine(4, cores=2))
    assert shared.forward_s(layer, part) == pytest.approx(2 * alone.forward_s(layer, part))
    assert shared.update_s(part) == pytest.approx(2 * alone.update_s(part))


def test_a_norms_backward_is_one_pass_for_weights_and_input() -> None:
    net = Net()
    layer = net[net.norm(net.input(8, 16, 32, 32))]
    part = shard(layer, (None,), PAIR)
    compute = AnalyticCompute(machine(2))
    assert compute.backward_s(layer, part, True) == compute.backward_s(layer, part, False) > 0


def test_inputs_outputs_forks_and_flattening_compute_nothing() -> None:
    net = Net()
    source = net.input(4, 8, 8, 8)
    net.flatten(source)
    net.output(net.fork(source))
    compute = AnalyticCompute(machine(2))
    for layer in net.layers:
        part = shard(layer, (None,), PAIR)
        assert compute.forward_s(layer, part) == compute.backward_s(layer, part, True) == 0.0


def test_volumes_run_at_their_own_rate_where_one_is_given() -> None:
    net = Net()
    layer = net[net.conv(net.input(1, 4, 8, 8, 8), 8)]
    plain = machine(1)
    own = replace(DEVICE, efficiency={**DEVICE.efficiency, "conv3d": 0.25, "conv3d_backward": 0.1})
    part = shard(layer, (), plain.mesh)
    slow, fast = (AnalyticCompute(replace(plain, device=device)) for device in (own, DEVICE))
    kernel_s = DEVICE.kernel_s
    assert slow.forward_s(layer, part) - kernel_s == pytest.approx(2 * (fast.forward_s(layer, part) - kernel_s))
    assert slow.backward_s(layer, part, True) > fast.backward_s(layer, part, True)
