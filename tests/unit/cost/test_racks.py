"""Racks that do not divide the machine, by hand: 6 nodes of 2 devices, racks of 4 nodes.

node        0 1 2 3 | 4 5         axes of the nodes: 2 x 3
axis 0      {0 3} {1 4} {2 5}     two of the three pairs leave their rack, two nodes of each rack
axis 1      {0 1 2} {3 4 5}       one of the two groups does: one node of the first rack, two of the second
both        all six               all nodes do: four of the first rack
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster, Tier
from slicewise.cluster.racks import RackSpan, span
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.network import Network
from slicewise.cost.recost import recost
from slicewise.errors import ClusterError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning import plan
from slicewise.simulate.predicting import predicted_step
from tests.builders import Net, machine
from tests.campaigns import examples
from tests.property.strategies import clusters, graphs, slicings

UPLINK = Tier(name="racks", size=4, latency_s=1e-5, bytes_per_s=1e9, ports=1)


def racked(uplink: Tier = UPLINK) -> Cluster:
    """A node has 1 GB/s for its two devices, a rack 1 GB/s for its eight."""
    plain = machine(6, 2)
    return replace(plain, tiers=(replace(plain.tiers[0], racks=uplink), plain.tiers[1]))


@pytest.mark.parametrize(
    ("along", "expected"), [((0,), RackSpan(2, 1, 2, 1)), ((1,), RackSpan(2, 2, 2, 2)), ((0, 1), RackSpan(2, 4, 4, 4))]
)
def test_where_the_members_of_a_group_stand(along: tuple[int, ...], expected: RackSpan) -> None:
    assert racked().mesh.sizes == (2, 3, 2)
    assert span((2, 3), along, 4) == expected


@pytest.mark.parametrize(
    ("axes", "latency_s", "s_per_byte"),
    [
        # pairs: half of the message over the uplink, which 2 nodes of 2 devices share
        ((0,), 1e-5, 1 / 2 / (1e9 / 4)),
        # threes: 2 racks with 2 members each; 1/4 over the uplink, 1/2 over the node's own link
        ((1,), 1e-5 + 4e-6, 1 / 4 / (1e9 / 4) + 1 / 2 / (1e9 / 2)),
        # everybody: 2 racks of 4 nodes of 2 devices; all 8 devices of a rack share the uplink
        ((0, 1, 2), 1e-5 + 3 * 4e-6 + 2e-6, 1 / 16 / (1e9 / 8) + 3 / 8 / (1e9 / 2) + 1 / 2 / 2e9),
        ((2,), 2e-6, 1 / 2 / 2e9),
    ],
)
def test_a_gather_pays_for_the_racks_that_it_leaves(axes: tuple[int, ...], latency_s: float, s_per_byte: float) -> None:
    line = Network(racked()).all_gather(axes)
    assert (line.latency_s, line.s_per_byte) == pytest.approx((latency_s, s_per_byte))


def test_an_all_to_all_counts_peers_in_other_racks_and_goes_at_the_pace_of_the_uplink() -> None:
    network = Network(racked())
    # of a node in the second rack four nodes with two devices each are elsewhere, one is beside it
    assert network.all_to_all_latency_s((0, 1, 2)) == pytest.approx(2e-6 + 1 * 2 * 4e-6 + 4 * 2 * 1e-5)
    assert network.all_to_all_s_per_byte(0) == pytest.approx(8 / 1e9)
    assert network.all_to_all_s_per_byte(1) == pytest.approx(1 / 2e9)


def test_an_uplink_is_never_quicker_than_the_nodes_below_it() -> None:
    wide = Network(racked(replace(UPLINK, bytes_per_s=1e12, ports=99)))
    assert wide.all_gather((0,)).s_per_byte == pytest.approx(1 / 2 / (1e9 / 2))
    assert wide.all_to_all_s_per_byte(0) == pytest.approx(2 / 1e9)


def test_racks_that_do_divide_are_priced_as_a_tier_of_their_own() -> None:
    tiers = machine(2, 4, 2)
    outer, inner = replace(tiers.tiers[0], size=4), replace(tiers.tiers[1], size=8)
    folded = replace(tiers, tiers=(replace(inner, racks=outer), tiers.tiers[2]))
    for lines in ("all_gather_lines", "all_reduce_lines"):
        one, other = getattr(Network(folded), lines), getattr(Network(tiers), lines)
        # over the racks alone only pairs talk, over both all do; the same share of the uplink either way
        assert one.latency_s == pytest.approx(other.latency_s)
        assert one.s_per_byte == pytest.approx(other.s_per_byte)
    assert folded.unfolded.tiers == tiers.tiers


def test_devices_that_do_not_fill_the_last_rack_are_planned() -> None:
    cluster = machine(2, 3, 2)
    grown = cluster.with_devices(8)
    assert [(tier.size, tier.racks and tier.racks.size) for tier in grown.tiers] == [(4, 3), (2, None)]
    assert grown.mesh.sizes == (2, 2, 2)
    assert grown.with_devices(12).tiers == cluster.tiers
    assert grown.with_devices(4).tiers == cluster.with_devices(4).tiers
    with pytest.raises(ClusterError, match="9 devices do not fill whole groups of 2"):
        cluster.with_devices(9)
    with pytest.raises(ClusterError, match="6 devices do not fill whole groups of 4"):
        machine(4, 4).with_devices(6)


def test_only_the_outermost_tier_can_have_racks() -> None:
    plain = machine(6, 4)
    with pytest.raises(ClusterError, match="only the outermost tier, tier0, can have racks"):
        replace(plain, tiers=(plain.tiers[0], replace(plain.tiers[1], racks=UPLINK)))


def network() -> LayerGraph:
    net = Net("small")
    hidden = net.conv(net.input(24, 12, 8, 8), 24)
    net.output(net.linear(net.flatten(hidden), 48))
    return net.graph


def test_a_plan_on_racks_is_the_same_when_it_is_read_again() -> None:
    made = plan(network(), racked())
    again = type(made).from_dict(made.to_dict(), "plan.json")
    assert again.machine == made.machine
    assert again.machine is not None
    assert again.machine.tiers[0].racks == UPLINK


@examples(40)
@given(graphs(max_layers=2), clusters(), st.sampled_from([0.5, 0.1]), st.data())
def test_a_tighter_uplink_never_makes_a_step_shorter(
    graph: LayerGraph, cluster: Cluster, share: float, data: st.DataObject
) -> None:
    """Of racks, and of the outermost tier where there are none."""
    chosen = data.draw(slicings(graph, cluster.mesh))
    outer = cluster.tiers[0]
    uplink = outer.racks or outer
    slower = replace(
        uplink,
        bytes_per_s=uplink.bytes_per_s * share,
        collectives={
            name: replace(link, bytes_per_s=link.bytes_per_s * share) for name, link in uplink.collectives.items()
        },
    )
    tighter = replace(outer, racks=slower) if outer.racks else slower
    narrow = replace(cluster, tiers=(tighter, *cluster.tiers[1:]))
    before, after = (predicted_step(AnalyticModel(graph, machine), chosen) for machine in (cluster, narrow))
    assert after.additive_s >= before.additive_s * (1 - 1e-9)
    assert after.simulated_s >= before.simulated_s * (1 - 1e-9)
    assert recost(graph, narrow, chosen) == pytest.approx(after.additive_s)
