"""Ranks of up to 1,024, one at a time: the runtime itself on torch's fake process group, with tensors of no content.

Claims: all ranks issue the same collectives in the same order over the same axes; what one rank sends another is what
that one expects; and the bytes of all ranks together are those that the planner predicted, layer by layer.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.testing._internal.distributed.fake_pg import FakeStore

import slicewise as sw
from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.errors import InfeasibleError
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.rings import with_rings
from slicewise.graph.sources import load_graph
from slicewise.graph.zoo import ZOO, Swin, ViT
from slicewise.partition.layout import Slicing
from slicewise.runtime.sliced_module import SlicedModule
from slicewise.search.baselines import BASELINES
from tests.campaigns import LONG, sample
from tests.distributed.cuts import HEADS, KEYS, SAMPLES, TOKENS, cut_slicings
from tests.distributed.prediction import by_layer, expected, kinds, planned
from tests.distributed.recording import Collective, recording

VOLUMES = ("cosmoflow", "unet3d")
STRATEGIES = (*BASELINES, "layerwise")

SAMPLE = [
    ("alexnet", 8, "layerwise"),
    ("alexnet", 8, "owt"),
    ("textcnn", 8, "filter"),
    ("unet3d", 64, "spatial"),
    ("vgg16", 64, "layerwise"),
    ("textcnn", 1024, "layerwise"),
    ("cosmoflow", 64, "layerwise"),
]


@pytest.mark.parametrize(("name", "ranks", "strategy"), SAMPLE)
def test_ranks_agree_on_their_collectives_and_send_the_predicted_bytes(name: str, ranks: int, strategy: str) -> None:
    _check(name, ranks, strategy)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("ranks", [8, 1024])
@pytest.mark.parametrize("name", ZOO)
def test_all_networks_and_strategies_do(name: str, ranks: int, strategy: str) -> None:
    try:
        _check(name, ranks, strategy)
    except InfeasibleError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ranks whose device is torch's "meta": shapes without content."""
    monkeypatch.setattr("slicewise.runtime.sliced_module.rank_device", lambda: torch.device("meta"))
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("batch_norm_update_stats", _update_stats, "Meta")  # torch 2.13 has none
        yield


def _update_stats(x: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[1]), x.new_empty(x.shape[1])


# Attention that reaches 1,024 devices: 16 heads and 1,025 tokens; 16 heads in 32 rows of shifted windows
ATTENTION: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "vit": (partial(ViT, (1, 16, 32, 32), classes=8, image=512), (3, 512, 512)),
    "swin": (partial(Swin, (32, (2,), (16,)), classes=8, image=256, patch=2, window=4), (3, 256, 256)),
}
CUTS: dict[str, tuple[tuple[Dim, ...], ...]] = {  # of the ten axes of two
    "heads": (HEADS,) * 10,
    "tokens": (TOKENS,) * 10,
    "tokens and heads": (TOKENS,) * 6 + (HEADS,) * 4,
    "samples, tokens and heads": (SAMPLES,) * 3 + (TOKENS,) * 4 + (HEADS,) * 3,
    "samples, keys and heads": (SAMPLES,) * 3 + (KEYS,) * 4 + (HEADS,) * 3,
    "tokens, keys passed round": (TOKENS,) * 3 + (HEADS,) * 7,
}
QUICKLY = [("vit", "tokens, keys passed round")]


@pytest.mark.parametrize(("name", "cut"), sample(product(ATTENTION, CUTS), quick=QUICKLY))
def test_attention_on_1024_ranks_sends_the_predicted_bytes(name: str, cut: str) -> None:
    build, shape = ATTENTION[name]
    with torch.device("meta"):
        graph = capture(build(), torch.zeros(2, *shape), name=name).with_batch(8)
    if "passed" in cut:
        graph = with_rings(graph, [layer.name for layer in graph if layer.kind is Kind.ATTENTION])
    cluster = load_cluster("dgx-a100").with_devices(1024)
    slicings = cut_slicings(graph, cluster.mesh, CUTS[cut])
    attention = [slicings[layer.name] for layer in graph if layer.kind is Kind.ATTENTION]
    assert all(slicing.count(None) <= 6 for slicing in attention)
    _check_step(build, graph, slicings, cluster)


def _check(name: str, ranks: int, strategy: str) -> None:
    cluster = load_cluster("dgx-a100").with_devices(ranks)
    graph = _without_dropout(load_graph(name)).with_batch(4 if name in VOLUMES else ranks)
    if strategy == "layerwise":
        slicings = sw.plan(graph, cluster, gap=0.1, time_limit=10).slicings
    else:
        slicings = BASELINES[strategy](AnalyticModel(graph, cluster))
    _check_step(ZOO[name].build, graph, slicings, cluster)


def _check_step(
    build: Callable[[], nn.Module], graph: LayerGraph, slicings: Mapping[str, Slicing], cluster: Cluster
) -> None:
    costs, ranks = AnalyticModel(graph, cluster), cluster.devices
    wanted = expected(graph, slicings, cluster.mesh)
    rank_bytes = by_layer(wanted, ranks)

    # the independent count of every rank adds up to the planner's figures
    totals = {key: round(count.sum()) for key, count in rank_bytes.items() if count.any()}
    assert totals == planned(costs.plan_costs(slicings))

    steps = {rank: _step(build, graph, slicings, cluster.mesh, rank) for rank in _sampled(ranks)}
    for rank, step in steps.items():
        assert Counter((one.layer, one.term, one.op, one.axes) for one in step) == kinds(wanted)
        received: Counter[tuple[str, str]] = Counter()
        for one in step:
            received[one.layer, one.term] += one.routed_bytes  # type: ignore[assignment]
        assert received == pytest.approx({key: count[rank] for key, count in rank_bytes.items()}, rel=1e-12)
    orders = {tuple((one.op, one.axes, one.term, one.layer) for one in step) for step in steps.values()}
    assert len(orders) == 1
    for (rank, step), (other, others) in combinations(steps.items(), 2):
        for one, two in zip(step, others, strict=True):
            assert one.sends.get(other) == two.receives.get(rank)
            assert one.receives.get(other) == two.sends.get(rank)
    if len(steps) == ranks:
        sent = sum(one.sent_bytes for step in steps.values() for one in step)
        assert round(sent) == sum(totals.values())


def _sampled(ranks: int) -> Sequence[int]:
    """All of 8; of more, and in a campaign, the corners of the mesh and one between."""
    return range(ranks) if ranks <= 8 and not LONG else (0, ranks // 3, ranks - 1)


def _step(
    build: Callable[[], nn.Module], graph: LayerGraph, slicings: Mapping[str, Slicing], mesh: Mesh, rank: int
) -> list[Collective]:
    """One training step of one rank."""
    with _fake_world(rank, mesh.devices):
        with torch.device("meta"):
            model = build()
        net = SlicedModule(model, graph, slicings, mesh)
        samples = graph.batch // mesh.devices if net.local_samples else graph.batch
        inputs = torch.empty(samples, *graph.inputs[0].shape[1:], device="meta")
        with recording(mesh) as collectives:
            output = net(inputs)
            (output if net.local_samples else output.to_local()).sum().backward()
    return collectives


@contextmanager
def _fake_world(rank: int, ranks: int) -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _without_dropout(graph: LayerGraph) -> LayerGraph:
    """Masks need a generator, which a device without memory has not; they send nothing."""
    layers = (
        replace(layer, options={**layer.options, "arguments": {**layer.options["arguments"], "p": 0.0}})
        if "dropout" in layer.options.get("op", "")
        else layer
        for layer in graph
    )
    return LayerGraph(name=graph.name, layers=tuple(layers))
