"""Which ranks share a host, against what a plan assumes."""

from itertools import permutations

import pytest

from slicewise.runtime.hosts import misnumbered, numbered, own_host

BLOCK = [0, 0, 0, 0, 1, 1, 1, 1]
CYCLIC = [0, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("hosts", "groups"),
    [
        (BLOCK, [4]),
        ([0] * 8, [4]),  # two nodes, emulated on one host
        (list(range(8)), [4]),  # a rank per host: no order helps
        ([0, 0, 1, 1, 2, 2, 3, 3], [4]),  # smaller hosts than planned
        (BLOCK, [2, 4]),
        ([0, 0, 0, 0, 1, 1], [2]),
        (CYCLIC, []),  # one tier: nobody is nearer than another
    ],
)
def test_orders_that_keep_neighbours_together_are_taken(hosts: list[int], groups: list[int]) -> None:
    assert misnumbered(hosts, groups) is None


@pytest.mark.parametrize(
    ("hosts", "groups"), [(CYCLIC, [4]), ([0, 0, 1, 1, 0, 0, 1, 1], [4]), ([0, 0, 1, 1, 0, 0, 1, 1], [2, 4])]
)
def test_orders_that_part_neighbours_are_told(hosts: list[int], groups: list[int]) -> None:
    told = misnumbered(hosts, groups)
    assert told is not None
    assert "the plan takes ranks 0 to 3 for devices of one node" in told
    assert "--distribution=block" in told


def test_four_times_eight_numbered_host_after_host_in_turn_is_told() -> None:
    told = misnumbered([rank % 4 for rank in range(32)], [8])
    assert told is not None
    assert "ranks 0 to 7 for devices of one node, but the host of rank 0 has ranks 0, 4, 8, 12, 16, 20, 24, 28;" in told


def test_only_the_best_orders_of_all_are_taken() -> None:
    """Every order of 2 hosts x 2 ranks: right are those where both pairs of neighbours share a host."""
    for order in set(permutations([0, 0, 1, 1])):
        right = order[0] == order[1] and order[2] == order[3]
        assert (misnumbered(order, [2]) is None) is right


def test_hosts_are_numbered_as_they_appear() -> None:
    assert numbered(["x", "y", "x", "z"]) == [0, 1, 0, 2]
    assert own_host() == own_host()
