"""The two engines agree where their assumptions do; projections move the way they must."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.strategies.engines import ParadlEngine, SlicewiseEngine
from slicewise.strategies.projecting import oracle
from tests.builders import Net, machine

LOCAL = Training(batchnorm="local")


@st.composite
def networks(draw: st.DrawFn) -> LayerGraph:
    net = Net()
    made = net.input(4, 3, 16, 16)
    for _ in range(draw(st.integers(1, 3))):
        made = net.conv(made, draw(st.sampled_from([8, 16])), kernel=draw(st.sampled_from([1, 3])), padding=1)
        if draw(st.booleans()):
            made = net.relu(net.norm(made))
        if draw(st.booleans()):
            made = net.pool(made)
    net.output(net.linear(net.flatten(made), 10))
    return net.graph


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    return Training(
        optimizer=draw(st.sampled_from(["sgd", "momentum", "adam"])),
        recompute=draw(st.booleans()),
        batchnorm=draw(st.sampled_from(["local", "exact"])),
    )


@given(networks(), trainings(), st.integers(1, 64))
def test_engines_agree_on_one_device(graph: LayerGraph, training: Training, batch: int) -> None:
    """The same roofline, for any batch: no interpolation is left in it."""
    closed, planned = (
        made(graph=graph, cluster=machine(4), training=training).terms("serial", 1, batch)
        for made in (ParadlEngine, SlicewiseEngine)
    )
    assert closed.iteration_s == pytest.approx(planned.iteration_s, rel=1e-9)
    assert closed.update_s == pytest.approx(planned.update_s, rel=1e-9)


@given(networks(), st.sampled_from([2, 4, 8]), st.integers(1, 16), st.sampled_from(["local", "exact"]))
def test_engines_agree_on_data_over_one_tier(graph: LayerGraph, devices: int, samples: int, batchnorm: str) -> None:
    """Start-up apart: the planner sends gradients layer by layer, the closed form all at once."""
    flat = _without_latency(machine(8))
    closed, planned = (
        made(graph=graph, cluster=flat, training=Training(batchnorm=batchnorm), overlap=0.0).terms(
            "data", devices, samples * devices
        )
        for made in (ParadlEngine, SlicewiseEngine)
    )
    assert closed.compute_s == pytest.approx(planned.compute_s, rel=1e-9)
    assert closed.gradient_s == pytest.approx(planned.gradient_s, rel=1e-6)
    assert closed.layerwise_s == pytest.approx(planned.layerwise_s, rel=1e-6, abs=1e-12)


@given(networks(), st.sampled_from([(2, 4), (4, 2), (2, 2, 2)]), st.integers(1, 4))
def test_engines_agree_on_data_over_several_tiers(graph: LayerGraph, sizes: tuple[int, ...], ports: int) -> None:
    """Hierarchy and contention are the same on both sides."""
    deep = _without_latency(machine(*sizes, ports=ports))
    closed, planned = (
        made(graph=graph, cluster=deep, training=LOCAL, overlap=0.0).terms("data", 8, 32)
        for made in (ParadlEngine, SlicewiseEngine)
    )
    assert closed.gradient_s == pytest.approx(planned.gradient_s, rel=1e-6)


@given(networks(), st.sampled_from([(8,), (2, 4)]), st.integers(1, 8))
def test_projections_move_the_way_they_must(graph: LayerGraph, sizes: tuple[int, ...], samples: int) -> None:
    """Slower links never help, faster devices never hurt, hidden gradients never cost; parts are never negative."""
    cluster = machine(*sizes)
    slower = replace(cluster, tiers=tuple(replace(t, bytes_per_s=t.bytes_per_s / 2) for t in cluster.tiers))
    quicker = replace(cluster, device=replace(cluster.device, peak_flops_per_s=1e13, memory_bytes_per_s=1e12))
    asked = {"devices": [2, 4, 8], "batch_per_device": samples}
    plain = list(oracle(graph, cluster, **asked))  # type: ignore[arg-type]
    others = (
        oracle(graph, slower, **asked),  # type: ignore[arg-type]
        oracle(graph, quicker, **asked),  # type: ignore[arg-type]
        oracle(graph, cluster, **asked, overlap=True),  # type: ignore[arg-type]
    )
    for row, slow, quick, hidden in zip(plain, *others, strict=True):
        if row.terms:
            slack = 1 + 1e-9
            assert slow.iteration_s * slack >= row.iteration_s
            # a pipeline's cuts follow FW + BW, which need not scale as max FW + max BW do
            assert row.strategy == "pipeline" or row.iteration_s * slack >= quick.iteration_s
            assert hidden.iteration_s <= row.iteration_s * slack
            parts = (row.terms.gradient_s, row.terms.layerwise_s, row.terms.halo_s, row.terms.p2p_s)
            assert min(*parts, row.terms.compute_s, row.terms.memory_bytes) >= 0


@given(networks(), st.integers(1, 6))
def test_more_devices_never_raise_memory_where_all_share_one_batch(graph: LayerGraph, power: int) -> None:
    engine = ParadlEngine(graph=graph, cluster=machine(64), training=LOCAL)
    for name in ("data", "filter"):
        with suppress(InfeasibleError):  # the network ends, not the memory
            fewer, more = (engine.terms(name, 1 << p, 64).memory_bytes for p in (power - 1, power))
            assert more <= fewer


def _without_latency(cluster: Cluster) -> Cluster:
    return replace(cluster, tiers=tuple(replace(tier, latency_s=1e-15) for tier in cluster.tiers))
