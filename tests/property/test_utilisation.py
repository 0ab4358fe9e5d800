"""Cutting a layer never makes its total compute cheaper, and more work never takes less time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import load_cluster
from slicewise.cluster.device import load_device
from slicewise.cluster.kernels import DIRECTIONS
from slicewise.cost.compute import AnalyticCompute, shares
from slicewise.cost.training import Training
from slicewise.cost.utilisation import Work, arithmetic_s, kernel_s
from slicewise.graph.dims import Dim
from slicewise.partition.choices import Choices
from tests.builders import Net

FITTED = ("P100", "V100-16", "A100-80", "H100")
sizes = st.integers(1, 4096)


@given(
    st.sampled_from(FITTED), st.sampled_from(("fp32", "fp16")), st.sampled_from(("plain", "tuned")),
    st.sampled_from(("conv", "pointwise", "strided", "grouped", "linear", "relu")),
    st.sampled_from((2, 3, 4, 7, 8)), st.sampled_from((Dim.N, Dim.F, Dim.C, Dim.H)),
    st.integers(1, 64), st.sampled_from((3, 8, 64, 192)), st.integers(1, 40),
)  # fmt: skip
def test_parts_together_take_at_least_as_long_as_the_whole(
    name: str, dtype: str, software: str, kind: str, parts: int, dim: Dim, batch: int, channels: int, side: int
) -> None:
    cluster = load_cluster("dgx-a100").with_devices(parts) if parts <= 8 else load_cluster("dgx-a100")
    cluster = replace(cluster, device=load_device(name), software=software)
    net = Net()
    x = net.input(batch, channels) if kind == "linear" else net.input(batch, channels, side, side)
    made = {
        "conv": lambda: net.conv(x, 64),
        "pointwise": lambda: net.conv(x, 64, kernel=1),
        "strided": lambda: net.conv(x, 64, stride=2),
        "grouped": lambda: net.conv(x, channels, groups=channels),
        "linear": lambda: net.linear(x, 64),
        "relu": lambda: net.relu(x),
    }[kind]()
    layer = net[made]
    axes = len(cluster.mesh.axes)
    whole, cut = ((None,) * axes, (dim,) * axes)
    compute = AnalyticCompute(cluster, Training(dtype=dtype))
    part = shares(layer, Choices.of([whole, cut], cluster.mesh))
    directions = DIRECTIONS[1:] if kind not in ("relu",) else DIRECTIONS[1:2]
    for seconds in (compute.forward_s(layer, part), compute.backward_s(layer, part, directions)):
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
