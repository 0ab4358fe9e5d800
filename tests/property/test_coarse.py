"""Machines with merged axes, against every pair of slicings of the machine they stand for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices
from slicewise.partition.legal import Space, legal_choices
from slicewise.search.coarse import merged
from tests.builders import machine
from tests.campaigns import examples
from tests.property.strategies import DEEP_SIZES, clusters, graphs

WIDE = Space(dims_per_layer=5, dims_per_tier=4)


@examples(80)
@given(graphs(max_layers=2), clusters(DEEP_SIZES), st.integers(0, 2**32 - 1))
def test_a_layout_change_between_groups_is_no_dearer_than_between_their_members(
    graph: LayerGraph, cluster: Cluster, seed: int
) -> None:
    """Whatever the tiers' links, also where an inner one is the slower."""
    model = AnalyticModel(graph, cluster)
    chooser = np.random.default_rng(seed)
    held = []
    for layer in graph:
        choices = legal_choices(layer, cluster.mesh, WIDE)
        held.append(choices.rows(np.sort(chooser.permutation(len(choices))[:60])))
    for axes in range(1, len(cluster.mesh.axes)):
        coarse = AnalyticModel(graph, merged(cluster, axes))
        groups = [Choices(choices.labels[:, :axes], coarse.cluster.mesh) for choices in held]
        for i, j, slot in graph.edges:
            layer = graph.layers[j]
            fine_s = model.edge_seconds(layer, slot, held[i], held[j])
            coarse_s = coarse.edge_seconds(layer, slot, groups[i], groups[j])
            assert np.all(coarse_s <= fine_s * (1 + 1e-9))


@examples(30)
@given(clusters(DEEP_SIZES))
def test_a_merged_machine_keeps_the_first_axes(cluster: Cluster) -> None:
    for axes in range(len(cluster.mesh.axes) + 1):
        assert merged(cluster, axes).mesh.axes == cluster.mesh.axes[:axes]


def test_a_merged_device_has_the_links_of_all_its_members() -> None:
    """2 nodes of 4, which share 1 GB/s; 2 GB/s inside. Two by two they have 0.5 GB/s of it, and 4 GB/s inside."""
    coarse = merged(machine(2, 4), 2)
    assert coarse.devices == 4
    assert [coarse.bytes_per_s(tier, "all_gather") for tier in (0, 1)] == [0.5e9, 4e9]
