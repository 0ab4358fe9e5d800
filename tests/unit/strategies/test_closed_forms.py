"""Every closed form against a second transcription of it, in plain numbers, on a network counted by hand.

          x      w      y     per sample; conv 3x3 with padding, biases included
conv0    192    224    512    3 -> 8 channels on 8 x 8
conv1    512   1168   1024    8 -> 16 channels on 8 x 8
pool0   1024      0    256
linear0  256   2570     10

Backward reads every x again, the ReLU's y as that of conv1: 1984 items. The most that passes through at once is 1536.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.tuning import Tuning
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.partition.choices import Choices, Floats
from slicewise.strategies.engines import ParadlEngine
from slicewise.strategies.pipeline import balanced
from slicewise.strategies.profile import Profile
from slicewise.strategies.projecting import oracle
from slicewise.strategies.setting import Terms
from tests.builders import Net, machine

ALPHA, BETA = 4e-6, 1e-9  # of `machine`'s one tier
DELTA = 4
X = {"conv0": 192, "conv1": 512, "pool0": 1024, "linear0": 256}
Y = {"conv0": 512, "conv1": 1024, "pool0": 256, "linear0": 10}
W = {"conv0": 224, "conv1": 1168, "pool0": 0, "linear0": 2570}
LOCAL = Training(batchnorm="local")


def network(batch: int = 16) -> LayerGraph:
    net = Net("hand")
    features = net.pool(net.conv(net.relu(net.conv(net.input(batch, 3, 8, 8), 8)), 16))
    net.output(net.linear(net.flatten(features), 10))
    return net.graph


def projected(strategy: str, devices: int, batch: int = 16, cluster: Cluster | None = None, **engine: object) -> Terms:
    made = ParadlEngine(graph=network(), cluster=cluster or machine(8), training=LOCAL, **engine)  # type: ignore[arg-type]
    return made.terms(strategy, devices, batch)


def layer_times(batch: int) -> dict[str, tuple[float, float, float]]:
    """FW, BW, WU of whole layers, from the planner's model of that very batch."""
    model = AnalyticModel(network().with_batch(batch), machine(1), LOCAL)
    whole = Choices.of([()], model.cluster.mesh)
    timed = {layer.name: model.layer_seconds(layer, whole) for layer in model.graph}
    return {
        name: (float(each.forward_s[0]), float(each.backward_s[0]), float(each.update_s[0]))
        for name, each in timed.items()
    }


def fw_bw(batch: int) -> float:
    return sum(fw + bw for fw, bw, _ in layer_times(batch).values())


def wu() -> float:
    return sum(update for *_, update in layer_times(1).values())


def held(samples: float, weights: float) -> float:
    """Weights with their gradients, what backward reads again, and what the largest layer reads and writes."""
    return DELTA * (samples * (192 + 512 + 1024 + 256) + samples * 1536 + 2 * weights)


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


def test_serial() -> None:
    terms = projected("serial", 1)
    assert terms.compute_s == near(fw_bw(16) + wu())
    assert terms.communication_s == 0
    assert terms.memory_bytes == near(held(16, 3962))


def test_data() -> None:
    terms = projected("data", 4)
    assert terms.compute_s == near(fw_bw(4) + wu())
    assert terms.gradient_s == near(2 * 3 * (ALPHA + 3962 * DELTA * BETA / 4))
    assert terms.communication_s == terms.gradient_s
    assert terms.memory_bytes == near(held(4, 3962))


def test_a_tensor_that_several_layers_read_is_kept_once() -> None:
    net = Net("branches")
    read = net.fork(net.input(4, 8, 8, 8))
    net.output(net.add(net.conv(read, 8), net.conv(read, 8)))
    profile = Profile(net.graph, machine(1), LOCAL)
    assert profile.kept.sum() == 8 * 8 * 8


def test_recomputed_stages_keep_what_comes_in_and_one_segment() -> None:
    made = {
        again: ParadlEngine(
            graph=network(), cluster=machine(8), training=Training(batchnorm="local", recompute=again)
        ).terms("pipeline", 2, 4096)
        for again in (False, True)
    }
    assert made[True].memory_bytes < made[False].memory_bytes
    assert made[True].compute_s > made[False].compute_s


@pytest.mark.parametrize("p2", [2, 4])
@pytest.mark.parametrize("strategy", ["data+spatial", "data+filter"])
@pytest.mark.parametrize("cluster", ["dgx-a100", "dgx-h100"])
def test_being_cut_makes_nothing_cheaper(cluster: str, strategy: str, p2: int) -> None:
    found = oracle(
        "resnet50", cluster, devices=[8], batch_per_device=32, strategies=["data", strategy], split=(8 // p2, p2)
    )
    data, cut = (row.terms for row in found)
    assert data
    assert cut
    assert cut.compute_s - cut.update_s >= data.compute_s - data.update_s


@pytest.mark.parametrize("software", ["plain", "tuned"])
@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16"])
def test_resnet50_on_8_h100_is_best_trained_by_samples(dtype: str, software: str) -> None:
    names = ["data", "spatial", "data+spatial", "filter", "data+filter"]
    found = oracle(
        "resnet50", "dgx-h100", devices=[8], batch_per_device=64, strategies=names, dtype=dtype, software=software
    )
    best = found.best()
    assert best
    assert best.strategy == "data"


def test_data_takes_the_largest_part_of_a_batch_that_does_not_divide() -> None:
    assert projected("data", 4, batch=15).compute_s == near(fw_bw(4) + wu())


@pytest.mark.parametrize("strategy", ["filter", "channel"])
def test_filter_and_channel_exchange_alike(strategy: str) -> None:
    terms = projected(strategy, 4)
    exchanged = sum(ALPHA + 16 * Y[name] * DELTA * BETA / 4 for name in ("conv0", "conv1"))  # all products but the last
    assert terms.layerwise_s == near(3 * 3 * exchanged)
    assert terms.communication_s == terms.layerwise_s


def test_filter() -> None:
    terms = projected("filter", 4)
    assert terms.compute_s == near(fw_bw(4) + wu() / 4)  # as much as a quarter of the samples, more than of the whole
    assert terms.compute_s > fw_bw(16) / 4 + wu() / 4
    assert terms.memory_bytes == near(held(16, 3962 / 4))


def test_channel_computes_the_first_product_whole() -> None:
    terms = projected("channel", 4)
    first_fw, first_bw, first_wu = layer_times(16)["conv0"]
    others = fw_bw(4) - sum(layer_times(4)["conv0"][:2])
    assert terms.compute_s == near(first_fw + first_bw + others + first_wu + (wu() - first_wu) / 4)
    assert terms.memory_bytes == near(held(16, 224 + (1168 + 2570) / 4))


def test_data_and_filter_as_two_groups_of_two() -> None:
    terms = projected("data+filter", 4)
    assert terms.split == "2x2"
    assert terms.compute_s == near(fw_bw(4) + wu() / 2)
    inside = 3 * sum(ALPHA + 16 * Y[name] * DELTA * BETA / 4 for name in ("conv0", "conv1"))
    assert terms.layerwise_s == near(inside)
    assert terms.gradient_s == near(2 * (ALPHA + 3962 * DELTA * BETA / 4))
    assert terms.memory_bytes == near(held(8, 3962 / 2))


def test_one_weird_trick() -> None:
    terms = projected("owt", 4)
    few = layer_times(4)
    linear = few["linear0"]
    convolutions = [fw + bw for name, (fw, bw, _) in few.items() if name != "linear0"]
    updates = wu() - linear[2] + linear[2] / 4
    assert terms.compute_s == near(sum(convolutions) + linear[0] + linear[1] + updates)
    assert terms.gradient_s == near(2 * 3 * (ALPHA + (224 + 1168) * DELTA * BETA / 4))
    assert terms.layerwise_s == near(2 * 3 * (ALPHA + 16 * 256 * DELTA * BETA / 4))  # the last product gathers nothing
    kept = 4 * (192 + 512 + 1024) + 16 * 256
    assert terms.memory_bytes == near(DELTA * (kept + 4 * 1536 + 2 * (224 + 1168 + 2570 / 4)))


def test_spatial_up_to_the_pooling_layer() -> None:
    """Free links: splitting as deep as possible is best."""
    terms = projected("spatial", 4, cluster=_quick(machine(4)))
    assert terms.split.endswith("to pool0")
    split = [fw + bw for name, (fw, bw, _) in layer_times(4).items() if name != "linear0"]
    assert terms.compute_s == near(sum(split) + sum(layer_times(16)["linear0"][:2]) + wu())
    kept = 16 * (192 + 512 + 1024) / 4 + 16 * 256
    assert terms.memory_bytes == near(DELTA * (kept + 16 * 1536 / 4 + 2 * 3962))


def test_spatial_communication() -> None:
    """Two devices, rows or columns: a row of 8 positions to one neighbour, both ways, in both passes."""
    terms = projected("spatial", 2, cluster=_slow(machine(2)))
    assert terms.split in ("W2 to pool0", "H2 to pool0")
    halos = {"conv0": 3 * 8 + 8 * 8, "conv1": 8 * 8 + 16 * 8}  # of x and dL/dy; the pool's windows do not overlap
    assert terms.halo_s == near(sum(2 * (2 * ALPHA + 16 * items * DELTA * BETA) for items in halos.values()))
    assert terms.gradient_s == near(2 * (ALPHA + 3962 * DELTA * BETA / 2))  # of all weights, as published
    assert terms.layerwise_s == near(ALPHA + 16 * 256 * DELTA * BETA / 2)  # the gather behind the pool


def test_data_and_spatial_as_two_groups_of_two() -> None:
    terms = projected("data+spatial", 4, cluster=_slow(machine(4)))
    assert terms.split in ("2x2, W2 to pool0", "2x2, H2 to pool0")
    halos = {"conv0": 3 * 8 + 8 * 8, "conv1": 8 * 8 + 16 * 8}
    assert terms.halo_s == near(sum(2 * (2 * ALPHA + 8 * items * DELTA * BETA) for items in halos.values()))
    inside = 2 * (ALPHA + 3962 * DELTA * BETA / 2)
    leaders = 2 * (ALPHA + 3962 * DELTA * BETA / 2)
    assert terms.gradient_s == near(inside + leaders)
    assert terms.layerwise_s == near(ALPHA + 8 * 256 * DELTA * BETA / 2)


def tokens_graph(batch: int = 16) -> LayerGraph:
    """Two convolutions, 4 heads of 12 tokens with 6 channels each, keys and values of 8 tokens."""
    net = Net("tokens")
    query = net.conv(net.input(batch, 3, 12, 6), 4)  # x 216, w 112, y 288
    other = net.conv(net.input(batch, 3, 8, 6), 4)  # x 144, w 112, y 192
    both = net.fork(other)
    net.output(net.attention(query, both, both))  # y 288, reads 288 + 2 * 192
    return net.graph


def of_tokens(strategy: str, devices: int, **engine: object) -> Terms:
    made = ParadlEngine(graph=tokens_graph(), cluster=machine(8), training=LOCAL, **engine)  # type: ignore[arg-type]
    return made.terms(strategy, devices, 16)


def both_s(graph: LayerGraph, batch: int) -> float:
    return float(Profile(graph, machine(1), LOCAL).seconds(batch).both.sum())


def updates_s(graph: LayerGraph) -> float:
    return float(Profile(graph, machine(1), LOCAL).update_s.sum())


def test_sequence() -> None:
    """Keys and values are gathered, their gradients summed to shards; nothing but attention reads other tokens."""
    terms, graph = of_tokens("sequence", 4), tokens_graph()
    assert terms.split == "tokens 4"
    assert terms.compute_s == near(both_s(graph, 4) + updates_s(graph))
    assert terms.gradient_s == near(2 * 3 * (ALPHA + 224 * DELTA * BETA / 4))
    assert terms.layerwise_s == near(2 * 3 * (ALPHA + 16 * (192 + 192) * DELTA * BETA / 4))
    halos = (3 * 6 + 4 * 6, 3 * 6 + 4 * 6)  # a row of x and of dL/dy of each convolution
    assert terms.halo_s == near(sum(2 * (2 * ALPHA + 16 * items * DELTA * BETA) for items in halos))
    kept = 216 + 144 + 288 + 192 + 192 + 288  # what convolutions read, query, key, value, and what attention writes
    passing = 288 + 192 + 192 + 288  # while attention runs
    whole_keys = 16 * (192 + 192) * (1 - 1 / 4)
    assert terms.memory_bytes == near(DELTA * (16 * (kept + passing) / 4 + 2 * 224 + whole_keys))


def test_data_and_sequence_as_two_groups_of_two() -> None:
    terms, graph = of_tokens("data+sequence", 4), tokens_graph()
    assert terms.split == "2x2"
    assert terms.compute_s == near(both_s(graph, 4) + updates_s(graph))
    inside, between = (2 * (ALPHA + 224 * DELTA * BETA / 2) for _ in range(2))
    assert terms.gradient_s == near(inside + between)
    assert terms.layerwise_s == near(2 * (ALPHA + 8 * (192 + 192) * DELTA * BETA / 2))


def test_sequence_needs_tokens_for_every_device_and_a_network_that_has_some() -> None:
    with pytest.raises(InfeasibleError, match="tokens: attention0 has 12, too few for 16 devices"):
        of_tokens("sequence", 16)
    with pytest.raises(InfeasibleError, match="tokens: hand has no attention, so no tokens to share"):
        projected("sequence", 4)


def test_filter_takes_heads_for_the_filters_of_attention() -> None:
    """Attention's heads are the convolutions' filters: they are at hand. Attention is last and hands on nothing."""
    assert of_tokens("filter", 4).layerwise_s == 0
    with pytest.raises(InfeasibleError, match="filters: conv0 has 4, too few for 8 devices"):
        of_tokens("filter", 8)


def test_filter_counts_heads_where_they_are_fewer_than_filters() -> None:
    with pytest.raises(InfeasibleError, match=r"heads: encoder.layers.encoder_layer_0.* has 12, too few for 16"):
        ParadlEngine(graph=load_graph("vit_b_16"), cluster=machine(16), training=LOCAL).terms("filter", 16, 16)


def test_filters_of_a_vision_transformer_are_gathered_but_for_queries_keys_and_values() -> None:
    """Per block, a sample hands on 197 tokens: of attention and its projection 768 each, of the MLP 3072 and 768."""
    engine = ParadlEngine(graph=load_graph("vit_b_16"), cluster=machine(4), training=LOCAL)
    handed_on = [196 * 768] + 12 * [197 * 768, 197 * 768, 197 * 3072, 197 * 768]
    wanted = sum(3 * 3 * (ALPHA + 16 * items * DELTA * BETA / 4) for items in handed_on)
    assert engine.terms("filter", 4, 16).layerwise_s == near(wanted)


def test_pipeline() -> None:
    """With one cut, the best is found here by trying every place and every number of segments."""
    terms = projected("pipeline", 2)
    found = []
    for segments in (1, 2, 4, 8, 16):
        samples = 16 // segments
        times = list(layer_times(samples).items())
        for cut, (name, _) in enumerate(times):
            if name not in ("conv0", "elementwise0", "conv1", "pool0"):
                continue
            stages = [[t for _, t in times[: cut + 1]], [t for _, t in times[cut + 1 :]]]
            fw, bw, update = (max(sum(t[kind] for t in stage) for stage in stages) for kind in range(3))
            sent = Y.get(name, 512)  # the ReLU hands on what conv0 wrote
            compute = (2 + segments - 1) * (fw + bw) + update
            p2p = 2 * (2 + segments - 2) * (ALPHA + samples * sent * DELTA * BETA)
            found.append((compute + p2p, compute, p2p, segments))
    total, compute, p2p, segments = min(found)
    assert terms.split == f"2 stages, {segments} segments"
    assert (terms.compute_s, terms.p2p_s, terms.iteration_s) == (near(compute), near(p2p), near(total))


def test_compute_that_stays_however_thin_the_shard() -> None:
    tuned = Tuning(fixed_compute={"filter": 0.5})
    assert projected("filter", 4, tuning=tuned).compute_s == near(fw_bw(16) * (0.5 + 0.5 / 4) + wu() / 4)


def test_linear_layers_that_a_framework_leaves_whole() -> None:
    terms = projected("filter", 4, tuning=Tuning(split_linear=False))
    times = layer_times(16)
    cut = [(fw + bw, update / 4) for name, (fw, bw, update) in layer_times(4).items() if name != "linear0"]
    linear_fw, linear_bw, linear_wu = times["linear0"]
    compute = sum(both + update for both, update in cut)
    assert terms.compute_s == near(compute + linear_fw + linear_bw + linear_wu)
    assert terms.gradient_s == near(2 * 3 * (ALPHA + 2570 * DELTA * BETA / 4))
    assert terms.memory_bytes == near(held(16, (224 + 1168) / 4 + 2570))


def test_gradients_staged_through_the_host() -> None:
    tuned = Tuning(split_linear=False, staged_bytes_per_s=1e8)
    assert projected("filter", 4, tuning=tuned).gradient_s == near(2 * 3 * (ALPHA + 2570 * DELTA / 1e8 / 4))


def test_hybrids_that_exchange_layer_by_layer() -> None:
    whole, single = (projected("data+filter", 4, tuning=Tuning(layer_messages=flag)) for flag in (False, True))
    assert single.gradient_s - whole.gradient_s == near((3 - 1) * 2 * ALPHA)  # three layers have weights


def test_communication_that_takes_longer_than_the_closed_form() -> None:
    plain, tuned = projected("data", 4), projected("data", 4, tuning=Tuning(communication={"data": 1.5}))
    assert tuned.gradient_s == near(1.5 * plain.gradient_s)
    assert tuned.compute_s == plain.compute_s


def test_memory_that_is_used_again() -> None:
    plain, reused = projected("data", 4), projected("data", 4, tuning=Tuning(memory_reuse=0.5))
    assert reused.memory_bytes == near(plain.memory_bytes / 2)


def test_halo_messages_that_take_another_way() -> None:
    cluster = _slow(machine(2))
    plain, staged = (projected("spatial", 2, cluster=cluster, tuning=Tuning(halo_latency_s=s)) for s in (None, 3e-3))
    assert plain.split == staged.split
    assert staged.halo_s - plain.halo_s == near(2 * 2 * 2 * (3e-3 - ALPHA))  # two layers, both passes, both neighbours


@pytest.mark.parametrize(("bucket_items", "last"), [(1, 1 / 3962), (396, 396 / 3962), (10_000, 1.0)])
def test_overlap_hides_gradients_behind_backward_but_for_the_last_bucket(bucket_items: int, last: float) -> None:
    training = replace(LOCAL, bucket_bytes=4 * bucket_items)
    plain, hidden = (
        ParadlEngine(graph=network(), cluster=machine(8), training=training, overlap=share).terms("data", 4, 16)
        for share in (0.0, 1.0)
    )
    assert hidden.gradient_s == near(plain.gradient_s - min((1 - last) * plain.gradient_s, plain.backward_s))
    assert hidden.compute_s == plain.compute_s


@pytest.mark.parametrize("strategy", ["owt", "data+filter", "data+spatial", "spatial"])
def test_the_last_bucket_is_one_of_those_that_a_strategy_exchanges(strategy: str) -> None:
    """All gradients of the network fill ten buckets, but a strategy may exchange few of them."""
    training = replace(LOCAL, bucket_bytes=4 * 396)
    plain, hidden = (
        ParadlEngine(graph=network(), cluster=machine(8), training=training, overlap=share).terms(strategy, 4, 16)
        for share in (0.0, 1.0)
    )
    assert plain.gradient_items == hidden.gradient_items <= 3962
    assert hidden.gradient_s >= (1 - 1e-12) * min(1.0, 396 / plain.gradient_items) * plain.gradient_s


def test_memory_counts_what_the_optimizer_keeps_and_narrow_items() -> None:
    adam = ParadlEngine(
        graph=network(), cluster=machine(8), training=Training(optimizer="adam", batchnorm="local")
    ).terms("serial", 1, 16)
    assert adam.memory_bytes - projected("serial", 1).memory_bytes == near(2 * 4 * 3962)


@pytest.mark.parametrize(
    ("strategy", "devices", "batch", "reason"),
    [
        ("serial", 2, 16, "devices: serial is one device"),
        ("data", 32, 16, "samples: a batch of 16 does not reach 32 devices"),
        ("filter", 16, 16, "filters: conv0 has 8, too few for 16 devices"),
        ("channel", 16, 16, "channels: conv1 reads 8, too few for 16 devices"),
        ("pipeline", 64, 64, "layers: hand cuts into"),
        ("owt", 16, 16, "filters: linear0 has 10, too few for 16 devices"),
        ("spatial", 128, 16, "pixels: conv0 writes 8x8, too few for 128 devices"),
        ("data+filter", 2, 16, "devices: 2 is no p1 x p2 with both above 1"),
        ("data+filter", 34, 16, "samples: a batch of 16 does not reach 17 groups"),
        ("data+spatial", 1024, 2, "samples: a batch of 2 does not reach"),
    ],
)
def test_what_is_not_possible_says_why(strategy: str, devices: int, batch: int, reason: str) -> None:
    with pytest.raises(InfeasibleError, match=reason):
        projected(strategy, devices, batch)


def test_hybrids_try_all_splits_or_take_the_one_asked_for() -> None:
    engine = ParadlEngine(graph=network(), cluster=machine(16), training=LOCAL)
    best = engine.terms("data+filter", 16, 16)
    fixed = [engine.terms("data+filter", 16, 16, (p1, 16 // p1)) for p1 in (2, 4, 8)]
    assert best.iteration_s == min(terms.iteration_s for terms in fixed)
    with pytest.raises(InfeasibleError, match="3x5 does not make 16 devices"):
        engine.terms("data+filter", 16, 16, (3, 5))


def test_exact_batch_norms_add_their_statistics() -> None:
    net = Net()
    net.output(net.norm(net.conv(net.input(8, 3, 8, 8), 8)))
    engine = ParadlEngine(graph=net.graph, cluster=machine(4), training=Training())
    # mean and deviation of 8 channels, 4 bytes: gathered from 4 devices forward, summed backward
    gather, reduce = 3 * (ALPHA + 4 * 2 * 8 * 4 * BETA / 4), 2 * 3 * (ALPHA + 2 * 8 * 4 * BETA / 4)
    assert engine.terms("data", 4, 8).layerwise_s == near(gather + reduce)
    local = ParadlEngine(graph=net.graph, cluster=machine(4), training=LOCAL)
    assert local.terms("data", 4, 8).layerwise_s == 0


def _quick(cluster: Cluster) -> Cluster:
    return replace(cluster, tiers=tuple(replace(t, latency_s=1e-12, bytes_per_s=1e15) for t in cluster.tiers))


def _slow(cluster: Cluster) -> Cluster:
    """Devices so slow that every layer is worth splitting."""
    return replace(cluster, device=replace(cluster.device, peak_flops_per_s=1e8))


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_cuts_are_the_best_of_all(stages: int) -> None:
    net = Net()
    made = net.input(4, 3, 16, 16)
    for filters in (4, 24, 8, 16, 4, 12):
        made = net.conv(made, filters)
    net.output(made)
    profile = Profile(net.graph, machine(8), LOCAL)
    seconds = profile.seconds(4).both
    for bound in (float("inf"), 16 * 256.0):
        legal = [cut for cut in profile.cuts.legal if profile.y[cut] <= bound]
        found = balanced(profile, 4, stages, bound)
        ways = list(combinations(legal, stages - 1))
        if not ways:
            assert found is None
        else:
            assert found is not None
            best_s = min(_slowest_s(seconds, cuts) for cuts in ways)
            assert _slowest_s(seconds, [int(cut) for cut in found]) == near(best_s)


def _slowest_s(seconds: Floats, cuts: Sequence[int]) -> float:
    ends = (0, *(cut + 1 for cut in cuts), len(seconds))
    return max(float(seconds[start:stop].sum()) for start, stop in pairwise(ends))
