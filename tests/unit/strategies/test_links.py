"""Where the members of a group sit, and what they pay for it."""

from dataclasses import replace

import pytest

from slicewise.cluster.cluster import Cluster
from slicewise.cost.network import Network
from slicewise.partition.steps import Op
from slicewise.strategies.links import Links
from tests.builders import machine


def test_members_of_a_group_fill_inner_tiers_first() -> None:
    links = Links(machine(4, 4), 64)
    assert links.members(64) == (16, 4)
    assert links.members(3) == (1, 3)
    assert links.members(16, stride=4) == (16, 1)
    assert links.members(8, stride=2) == (4, 2)
    assert links.members(4, stride=8) == (4, 1)


def test_racks_of_17_nodes_need_not_divide() -> None:
    racks = machine(2, 17, 4)
    assert Links(racks, 256).members(256) == (4, 17, 4)
    assert Links(racks, 68).members(68) == (1, 17, 4)
    assert Links(racks, 256).members(64, stride=4) == (4, 17, 1)


@pytest.mark.parametrize("ports", [1, 2, 8])
def test_a_group_over_the_whole_machine_pays_what_the_planner_says(ports: int) -> None:
    cluster = machine(4, 4, ports=ports)
    everybody = tuple(range(len(cluster.mesh.axes)))
    planned = Network(cluster).all_gather(everybody)
    line = Links(cluster, 16).ring(Op.ALL_GATHER, 16)
    assert line.latency_s == pytest.approx(planned.latency_s)
    assert line.s_per_byte == pytest.approx(planned.s_per_byte)


def test_flows_that_leave_a_node_together_share_its_ports() -> None:
    one, two = (Links(machine(4, 4, ports=ports), 16).ring(Op.ALL_REDUCE, 4, 4) for ports in (1, 2))
    alone = Links(machine(4, 4), 16).ring(Op.ALL_REDUCE, 4, 4, 4)
    assert one.s_per_byte == pytest.approx(2 * two.s_per_byte)
    assert one.s_per_byte == pytest.approx(4 * alone.s_per_byte)  # only leaders speak
    assert one.latency_s == alone.latency_s


def test_one_ring_through_all_devices_goes_at_the_slowest_link() -> None:
    cluster: Cluster = machine(4, 4)
    line = Links(cluster, 16, flat=True).ring(Op.ALL_REDUCE, 16)
    assert line.latency_s == pytest.approx(15 * 4e-6)
    assert line.s_per_byte == pytest.approx(15 / 16 / 1e9)


@pytest.mark.parametrize(("ports", "stretch"), [(99, 1), (6, 1), (3, 2), (2, 3), (1, 6)])
def test_over_subscription_acts_on_one_ring_through_all_devices(ports: int, stretch: int) -> None:
    """The nodes come in any order: each of the six of a rack may send out of it."""
    plain = machine(2, 6, 2)
    cluster = replace(plain, tiers=(replace(plain.tiers[0], bytes_per_s=2e9, ports=ports), *plain.tiers[1:]))
    line = Links(cluster, 24, flat=True).ring(Op.ALL_REDUCE, 24)
    assert line.s_per_byte == pytest.approx(23 / 24 * stretch / 2e9)
    assert Links(cluster, 24).neighbour(24).s_per_byte == pytest.approx(1 / 2e9)  # a row follows the machine


def test_racks_that_are_not_full_are_a_tier_for_the_closed_forms() -> None:
    tiers = machine(2, 17, 4)
    assert Links(tiers.with_devices(256), 256).members(256) == Links(tiers, 256).members(256) == (4, 17, 4)


def test_over_subscription_is_fewer_ports() -> None:
    plain = machine(2, 3, 2, ports=6)
    third = replace(plain, tiers=(replace(plain.tiers[0], ports=2), *plain.tiers[1:]))
    wide, narrow = (Links(cluster, 12).ring(Op.ALL_REDUCE, 12).s_per_byte for cluster in (plain, third))
    crossing = 1 / 12 / 1e9  # s_0 - 1 of 12 parts over the outermost link
    assert narrow - wide == pytest.approx(2 * crossing)


def test_neighbours_cross_the_widest_link_between_any_two() -> None:
    links = Links(machine(4, 4), 16)
    assert links.neighbour(4).latency_s == 2e-6
    assert links.neighbour(8).latency_s == 4e-6
    assert links.neighbour(4, stride=4).s_per_byte == pytest.approx(4 / 1e9)  # four rows side by side
    assert links.neighbour(8).s_per_byte == pytest.approx(1 / 1e9)  # one at each node's border
