"""Collectives against numbers worked out by hand."""

import pytest

from slicewise.cluster.cluster import Link, load_cluster
from slicewise.cost.network import AlphaBeta, Network
from tests.builders import machine

M = 1_000_000


def approx(line: AlphaBeta) -> object:
    return pytest.approx((line.latency_s, line.s_per_byte))


@pytest.mark.parametrize("ranks", [2, 3, 7, 8])
def test_a_ring_all_reduce_takes_two_rounds_of_p_minus_one_steps(ranks: int) -> None:
    network = Network(machine(ranks))
    axes = tuple(range(len(network.cluster.mesh.axes)))
    expected_s = 2 * (ranks - 1) * 4e-6 + 2 * (ranks - 1) / ranks * M / 1e9
    assert network.all_reduce(axes).seconds(M) == pytest.approx(expected_s)
    assert network.all_gather(axes).seconds(M) == pytest.approx(expected_s / 2)


def test_sixteen_p100s_reduce_inside_the_nodes_first() -> None:
    """Inside, 3 of 4 shares at 35 GB/s; between, 3 of 4 of a quarter at 11 GB/s shared by four; there and back."""
    network = Network(load_cluster("p100-4x4"))
    inside_s_per_byte = 3 / 4 / 35e9
    between_s_per_byte = 3 / 4 / 4 / (11e9 / 4)
    line = network.all_reduce((0, 1, 2, 3))
    assert (line.latency_s, line.s_per_byte) == approx(
        AlphaBeta(2 * (3 * 5e-6 + 3 * 3e-6), 2 * (inside_s_per_byte + between_s_per_byte))
    )
    assert line.seconds(61_100_840 * 4) == pytest.approx(0.043850, rel=1e-3)


def test_a_group_pays_only_for_the_tiers_it_crosses() -> None:
    network = Network(load_cluster("p100-4x4"))
    assert network.group_sizes((0, 3)) == (2, 2)
    inside, between = network.all_gather((2, 3)), network.all_gather((0, 1))
    assert (inside.latency_s, inside.s_per_byte) == approx(AlphaBeta(3 * 3e-6, 3 / 4 / 35e9))
    assert (between.latency_s, between.s_per_byte) == approx(AlphaBeta(3 * 5e-6, 3 / 4 / (11e9 / 4)))


def test_a_group_of_one_talks_to_nobody() -> None:
    network = Network(machine(4))
    assert network.all_reduce(()) == AlphaBeta(0.0, 0.0)
    assert network.all_to_all_latency_s(()) == 0.0


def test_an_all_to_all_pays_one_latency_per_peer() -> None:
    """On 2 x 4: three peers inside at 2 us, four outside at 4 us."""
    network = Network(machine(2, 4))
    assert network.all_to_all_latency_s((0, 1, 2)) == pytest.approx(3 * 2e-6 + 4 * 4e-6)
    assert network.all_to_all_latency_s((1, 2)) == pytest.approx(3 * 2e-6)
    assert network.all_to_all_latency_s((0,)) == pytest.approx(4e-6)
    assert network.all_to_all_s_per_byte(0) == pytest.approx(4 / 1e9)
    assert network.all_to_all_s_per_byte(1) == pytest.approx(1 / 2e9)


def test_a_fitted_collective_uses_its_own_link() -> None:
    network = Network(machine(2, collectives={"all_reduce": Link(1e-3, 1e6)}))
    assert network.all_reduce((0,)).seconds(M) == pytest.approx(2 * 1e-3 + M / 1e6)
    assert network.all_gather((0,)).seconds(M) == pytest.approx(4e-6 + M / 2 / 1e9)


def test_buckets_go_at_the_pace_of_an_all_reduce_unless_they_have_their_own() -> None:
    reducing = {"all_reduce": Link(1e-3, 1e6)}
    network = Network(machine(2, collectives=reducing))
    assert network.bucket((0,)) == network.all_reduce((0,))
    own = Network(machine(2, collectives={**reducing, "bucket": Link(2e-3, 4e6)}))
    assert own.bucket((0,)).seconds(M) == pytest.approx(2 * 2e-3 + M / 4e6)
    assert own.all_reduce((0,)) == network.all_reduce((0,))


def test_the_lines_of_every_set_of_axes_are_found_by_their_mask() -> None:
    """Bit k is axis k: 0b101 is the first and the third."""
    network = Network(machine(2, 4))
    for mask, axes in ((0, ()), (0b101, (0, 2)), (0b110, (1, 2)), (0b111, (0, 1, 2))):
        for lines, line in (
            (network.all_gather_lines, network.all_gather(axes)),
            (network.all_reduce_lines, network.all_reduce(axes)),
            (network.bucket_lines, network.bucket(axes)),
        ):
            assert (lines.latency_s[mask], lines.s_per_byte[mask]) == (line.latency_s, line.s_per_byte)
        assert network.all_to_all_latencies[mask] == network.all_to_all_latency_s(axes)


def test_a_network_is_equal_to_itself_alone_as_its_hash_says() -> None:
    one, other = Network(machine(2)), Network(machine(2))
    assert one == one
    assert (one == other) == (hash(one) == hash(other)) == False  # noqa: E712
