"""The closed form of layout changes, against every rank's box and every route between two of them."""

from collections.abc import Sequence
from math import prod
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster, Link, Tier
from slicewise.cluster.mesh import Mesh
from slicewise.cost import transitions
from slicewise.cost.network import Network
from slicewise.cost.transitions import transition_seconds
from slicewise.cost.volume import move_items
from slicewise.partition.choices import Floats, Layouts, mask_of
from slicewise.partition.layout import PARTIAL, REPLICATE, Layout, Shard, partial_axes, sharding_axes
from slicewise.partition.parts import volume
from slicewise.partition.steps import Op, steps
from tests.builders import DEVICE, machine
from tests.campaigns import examples
from tests.property.ranks import boxes_of, received_s, routes_of
from tests.property.strategies import DEEP_SIZES, TIER_SIZES, Shape, clusters, layouts, shapes

ITEM_BYTES = 2


@st.composite
def nested_clusters(draw: st.DrawFn) -> Cluster:
    """Machines of which no tier is slower, per device, than the one around it."""

    def link() -> Link:
        return Link(draw(st.integers(1, 50)) * 1e-6, draw(st.integers(1, 50)) * 1e8)

    sizes = draw(st.sampled_from([*TIER_SIZES, *DEEP_SIZES]))
    shares = sorted(draw(st.lists(st.integers(1, 50), min_size=len(sizes), max_size=len(sizes))))
    tiers = []
    for level, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        ports, below = draw(st.integers(1, 4)), prod(sizes[level + 1 :])
        quick = Link(draw(st.integers(1, 50)) * 1e-6, share * 1e8 / min(1.0, ports / below))
        tiers.append(
            Tier(
                name=f"tier{level}",
                size=size,
                latency_s=quick.latency_s,
                bytes_per_s=quick.bytes_per_s,
                ports=ports,
                collectives={"all_reduce": link(), "all_gather": link()},
            )
        )
    return Cluster(name="nested", device=DEVICE, tiers=tuple(tiers))


def masks(given: Sequence[Layout], shape: Shape) -> Layouts:
    """The same layouts as arrays."""
    by_dim = [[mask_of(sharding_axes(layout, dim)) for dim in range(len(shape))] for layout in given]
    partial = [mask_of(partial_axes(layout)) for layout in given]
    return Layouts(np.array(by_dim, dtype=np.int64).reshape(len(given), len(shape)), np.array(partial, dtype=np.int64))


def table(shape: Shape, sources: Sequence[Layout], targets: Sequence[Layout], network: Network) -> Floats:
    return transition_seconds(shape, masks(sources, shape), masks(targets, shape), network, ITEM_BYTES)


def closed_form_s(shape: Shape, source: Layout, target: Layout, network: Network) -> float:
    return float(table(shape, [source], [target], network)[0, 0])


def truth_s(shape: Shape, source: Layout, target: Layout, network: Network) -> tuple[float, float]:
    """Step by step, latency and what the slowest rank waits for after that."""
    mesh = network.cluster.mesh
    rates = [network.all_to_all_s_per_byte(tier) * ITEM_BYTES for tier in range(len(network.cluster.tiers))]
    latency_s = waits_s = 0.0
    for step in steps(shape, source, target, mesh):
        messages = [volume(box) * ITEM_BYTES for box in boxes_of(shape, step.target, mesh)]
        if step.op is Op.ALL_TO_ALL:
            latency_s += network.all_to_all_latency_s(step.axes)
            waits_s += max(received_s(routes_of(shape, step, mesh), mesh, rates))
        elif step.op is not Op.LOCAL:
            line = network.all_reduce(step.axes) if step.op is Op.ALL_REDUCE else network.all_gather(step.axes)
            latency_s += line.latency_s
            waits_s += max(messages) * line.s_per_byte
    return latency_s, waits_s


def unevenness(shape: Shape, layout: Layout, mesh: Mesh) -> float:
    """The product over dims of the largest part over the smallest."""
    parts = boxes_of(shape, layout, mesh)
    lengths = [[stop - start for start, stop in (box[dim] for box in parts)] for dim in range(len(shape))]
    return prod(max(sides) / min(sides) for sides in lengths)


@examples(300)
@given(nested_clusters(), st.lists(st.integers(1, 2), max_size=4), st.data())
def test_where_all_parts_are_equal_it_is_the_slowest_ranks_time(
    cluster: Cluster, multiples: list[int], data: st.DataObject
) -> None:
    mesh, network = cluster.mesh, Network(cluster)
    shape = tuple(mesh.devices * multiple for multiple in multiples)
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    expected_s = sum(truth_s(shape, source, target, network))
    assert closed_form_s(shape, source, target, network) == pytest.approx(expected_s, rel=1e-9, abs=1e-18)


@examples(400)
@given(nested_clusters(), shapes(max_dims=4, max_extent=25), st.data())
def test_where_parts_differ_it_lies_within_their_ratios(cluster: Cluster, shape: Shape, data: st.DataObject) -> None:
    """docs/cost.md: truth / rho(source) <= closed form <= truth * rho(target), latencies apart."""
    mesh, network = cluster.mesh, Network(cluster)
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    latency_s, waits_s = truth_s(shape, source, target, network)
    found_s = closed_form_s(shape, source, target, network) - latency_s
    rounding_s = 1e-9 * (latency_s + waits_s)
    assert found_s <= waits_s * unevenness(shape, target, mesh) + rounding_s
    assert found_s >= waits_s / unevenness(shape, source, mesh) - rounding_s


def test_a_rank_with_a_smaller_part_of_its_own_may_wait_longer_than_it_says() -> None:
    """5 rows lie as 2 1 1 1. To gather the first 3, the second rank receives 2 rows; the closed form says 3 - 2."""
    network = Network(machine(2, 2))
    source: Layout = (Shard(0), Shard(0))
    target: Layout = (Shard(0), REPLICATE)
    latency_s, waits_s = truth_s((5,), source, target, network)
    assert waits_s == pytest.approx(2 * ITEM_BYTES / 2e9)
    assert closed_form_s((5,), source, target, network) == pytest.approx(latency_s + ITEM_BYTES / 2e9)


def test_on_a_machine_that_is_slower_inside_than_outside_the_rank_it_takes_for_the_slowest_is_not() -> None:
    """One row per rank on 2 x 2, then two. Rank 1 gets both of its own from the other node, rank 0 one from rank 1."""
    cluster = Cluster(
        name="odd",
        device=DEVICE,
        tiers=(
            Tier(name="outer", size=2, latency_s=1e-9, bytes_per_s=1e9, ports=4),
            Tier(name="inner", size=2, latency_s=1e-9, bytes_per_s=1e8),
        ),
    )
    source: Layout = (Shard(0), Shard(0))
    target: Layout = (REPLICATE, Shard(0))
    latency_s, waits_s = truth_s((4,), source, target, Network(cluster))
    assert waits_s == pytest.approx(ITEM_BYTES / 1e8)
    assert closed_form_s((4,), source, target, Network(cluster)) == pytest.approx(latency_s + 2 * ITEM_BYTES / 1e9)


@given(clusters(), shapes(max_dims=4), st.data())
def test_it_is_zero_exactly_where_nothing_is_sent(cluster: Cluster, shape: Shape, data: st.DataObject) -> None:
    source, target = (data.draw(layouts(shape, cluster.mesh)) for _ in "st")
    found_s = closed_form_s(shape, source, target, Network(cluster))
    assert (found_s == 0) == (move_items(shape, source, target, cluster.mesh) == 0)


@examples(120)
@given(shapes(max_dims=4), clusters(), st.data())
def test_a_table_holds_what_its_pairs_cost_one_by_one(shape: Shape, cluster: Cluster, data: st.DataObject) -> None:
    some = st.lists(layouts(shape, cluster.mesh), min_size=1, max_size=12)
    sources, targets = data.draw(some), data.draw(some)
    network = Network(cluster)
    with patch.object(transitions, "_PAIRS_AT_ONCE", data.draw(st.sampled_from([1, 20, 2_000_000]))):
        together = table(shape, sources, targets, network)
    one_by_one = [[closed_form_s(shape, source, target, network) for target in targets] for source in sources]
    assert np.allclose(together, one_by_one, rtol=1e-9, atol=1e-18)
    rows, columns = (
        np.array(data.draw(st.lists(st.integers(0, len(listed) - 1), min_size=1, max_size=15)))
        for listed in (sources, targets)
    )
    source, target = masks(sources, shape).rows(rows), masks(targets, shape).rows(columns)
    part = transition_seconds(shape, source, target, network, ITEM_BYTES)
    assert np.allclose(part, together[np.ix_(rows, columns)], rtol=1e-9, atol=1e-18)


def test_a_number_is_summed_and_never_sliced() -> None:
    network = Network(machine(2, 2))
    whole: Layout = (REPLICATE, REPLICATE)
    assert closed_form_s((), (PARTIAL, PARTIAL), whole, network) == network.all_reduce((0, 1)).seconds(ITEM_BYTES)
    assert closed_form_s((), whole, (PARTIAL, REPLICATE), network) == 0.0
