"""Cutting a layer never makes its total compute cheaper, and more work never takes less time."""

from dataclasses import replace
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import SOFTWARE, load_cluster
from slicewise.cluster.device import device_names, load_device
from slicewise.cluster.kernels import DIRECTIONS
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.compute import AnalyticCompute, shares
from slicewise.cost.training import Training
from slicewise.cost.utilisation import Work, arithmetic_s, kernel_s
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.graph.sources import load_graph, shipped_names
from slicewise.partition.choices import Choices
from slicewise.partition.legal import SPACES, legal_choices
from tests.builders import Net

FITTED = ("P100", "V100-16", "A100-80", "H100")
DTYPES = [(name, dtype) for name in FITTED for dtype in load_device(name).peaks]
sizes = st.integers(1, 4096)


def made(kind: str, batch: int, channels: int, side: int) -> Layer:
    """A layer of that kind; a volume's sides are shorter."""
    net = Net()
    if kind == "linear":
        return net[net.linear(net.input(batch, channels), 64)]
    volume = kind.endswith("3d")
    x = net.input(batch, channels, *((min(side, 12),) * 3 if volume else (side, side)))
    layer = {
        "conv": lambda: net.conv(x, 64),
        "pointwise": lambda: net.conv(x, 64, kernel=1, padding=0),
        "strided": lambda: net.conv(x, 64, stride=2),
        "dilated": lambda: net.conv(x, 64, dilation=2, padding=2),
        "depthwise": lambda: net.conv(x, channels, groups=channels),
        "grouped": lambda: net.conv(x, 4 * channels, groups=channels),
        "two groups": lambda: net.conv(x, 64, groups=1 + (channels % 2 == 0)),
        "conv3d": lambda: net.conv(x, 64),
        "transposed": lambda: net.conv(x, 64, kernel=2, stride=2, padding=0, transposed=True),
        "transposed3d": lambda: net.conv(x, 64, kernel=2, stride=2, padding=0, transposed=True),
        "norm": lambda: net.norm(x),
        "norm3d": lambda: net.norm(x, instance=True),
        "pool": lambda: net.pool(x, kernel=3, padding=1),
        "pool3d": lambda: net.pool(x, kernel=3, padding=1),
        "relu": lambda: net.relu(x),
        "add": lambda: net.add(x, x),
    }[kind]()
    return net[layer]


KINDS = (
    "linear", "conv", "pointwise", "strided", "dilated", "depthwise", "grouped", "two groups", "conv3d",
    "transposed", "transposed3d", "norm", "norm3d", "pool", "pool3d", "relu", "add",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.sampled_from(DTYPES), st.sampled_from(SOFTWARE), st.sampled_from((2, 3, 4, 7, 8)),
    st.sampled_from((Dim.N, Dim.F, Dim.C, Dim.D, Dim.H, Dim.W)),
    st.integers(1, 64), st.sampled_from((3, 8, 64, 192)), st.integers(1, 40),
)  # fmt: skip
def test_parts_together_take_at_least_as_long_as_the_whole(
    kind: str, on: tuple[str, str], software: str, parts: int, dim: Dim, batch: int, channels: int, side: int
) -> None:
    name, dtype = on
    cluster = load_cluster("dgx-a100").with_devices(parts)
    cluster = replace(cluster, device=load_device(name), software=software)
    layer = made(kind, batch, channels, side)
    axes = len(cluster.mesh.axes)
    part = shares(layer, Choices.of([(None,) * axes, (dim,) * axes], cluster.mesh))
    compute = AnalyticCompute(cluster, Training(dtype=dtype))
    for direction in DIRECTIONS if layer.kind.has(Trait.PRODUCT) else DIRECTIONS[:2]:
        passing = direction == "forward"
        seconds = compute.forward_s(layer, part) if passing else compute.backward_s(layer, part, (direction,))
        assert parts * seconds[1] >= seconds[0] * (1 - 1e-9)


@given(st.sampled_from(FITTED), st.sampled_from(DIRECTIONS), sizes, sizes, sizes, st.integers(1, 32), st.integers(0, 2))
def test_more_work_takes_longer(
    name: str, direction: str, rows: int, columns: int, reduction: int, groups: int, longer: int
) -> None:
    kernels = load_device(name).kernels
    assert kernels is not None
    unit = kernels.simt
    base = [rows, columns, reduction]
    more = [size + (place == longer) for place, size in enumerate(base)]

    def seconds(size: list[int]) -> float:
        work = Work(rows=size[0], columns=size[1], reduction=size[2], groups=groups, whole_reduction=size[2])
        return float(arithmetic_s(work, direction, unit.half_size[direction], unit.long_reduction, 1e13))

    assert seconds(more) > seconds(base)


def test_neither_arithmetic_nor_memory_hides_entirely() -> None:
    assert kernel_s(3.0, 4.0, 1.0) == pytest.approx(6.0)
    assert np.all(kernel_s(np.array([1.0, 2.0]), 0.0, 0.0) == [1.0, 2.0])


@pytest.mark.parametrize("network", shipped_names())
def test_no_plan_of_the_zoo_makes_a_layer_cheaper_by_cutting_it(network: str) -> None:
    """Every legal slicing over 8 devices, forward and backward, on every generation in its dtypes."""
    cluster = load_cluster("dgx-a100").with_devices(8)
    mesh = cluster.mesh
    model = AnalyticModel(load_graph(network).with_batch(32), cluster)
    computes = [
        AnalyticCompute(replace(cluster, device=load_device(name), software=software), Training(dtype=dtype))
        for (name, dtype), software in zip(DTYPES, SOFTWARE * len(DTYPES), strict=False)
    ]
    seen: set[int] = set()
    for layer, alike in zip(model.graph, model.alike, strict=True):
        if alike in seen or layer.kind.has(Trait.FREE):
            continue
        seen.add(alike)
        choices = legal_choices(layer, mesh, SPACES["full"])
        slicings = [choices[place] for place in range(len(choices))]
        devices = [prod(size for size, dim in zip(mesh.sizes, cut, strict=True) if dim) for cut in slicings]
        whole = next(place for place, count in enumerate(devices) if count == 1)
        part = shares(layer, choices)
        for compute in computes:
            for seconds in (compute.forward_s(layer, part), compute.backward_s(layer, part, model.passes(layer))):
                together = np.array(devices) * seconds
                assert (together >= seconds[whole] * (1 - 1e-9)).all(), (layer.name, compute.cluster.device.name)


def test_more_groups_never_cost_more_up_to_one_filter_each() -> None:
    """Groups can be filled to fewer ones with zeros, so a library never takes longer for them."""
    for (name, dtype), software, (stride, kernel) in product(DTYPES, SOFTWARE, ((1, 3), (2, 3), (1, 1), (1, 5))):
        cluster = replace(load_cluster("dgx-a100").with_devices(1), device=load_device(name), software=software)
        compute = AnalyticCompute(cluster, Training(dtype=dtype))
        for channels in (32, 64, 256):
            taken = []
            for groups in (2**power for power in range(channels.bit_length() - 1)):
                net = Net()
                x = net.input(16, channels, 28, 28)
                layer = net[net.conv(x, channels, groups=groups, kernel=kernel, stride=stride, padding=kernel // 2)]
                part = shares(layer, Choices.of([(None,) * len(cluster.mesh.axes)], cluster.mesh))
                taken.append(
                    [compute.forward_s(layer, part)[0]]
                    + [compute.backward_s(layer, part, (direction,))[0] for direction in DIRECTIONS[1:]]
                )
            for fewer, more in pairwise(taken):
                assert all(after <= before * (1 + 1e-9) for before, after in zip(fewer, more, strict=True)), (
                    name, dtype, software, stride, kernel, channels, taken,
                )  # fmt: skip


@pytest.mark.parametrize("network", shipped_names())
def test_no_dtype_makes_a_network_slower_than_fp32(network: str) -> None:
    one = load_cluster("dgx-a100").with_devices(1)
    whole = Choices.of([(None,) * len(one.mesh.axes)], one.mesh)
    for batch in (1, 64):
        model = AnalyticModel(load_graph(network).with_batch(batch), one)
        distinct = dict(zip(model.alike, model.graph, strict=True))
        works = [(layer, shares(layer, whole), model.passes(layer)) for layer in distinct.values()]
        times = [model.alike.count(alike) for alike in distinct]
        for name, software in product(device_names(), SOFTWARE):
            machine = replace(one, device=load_device(name), software=software)
            taken_s = {}
            for dtype in machine.device.peaks:
                compute = AnalyticCompute(machine, Training(dtype=dtype))
                each_s = [compute.forward_s(*work[:2]) + compute.backward_s(*work) for work in works]
                taken_s[dtype] = float(sum(count * each[0] for count, each in zip(times, each_s, strict=True)))
            assert max(taken_s.values()) <= taken_s["fp32"] * (1 + 1e-9), (name, software, batch)
