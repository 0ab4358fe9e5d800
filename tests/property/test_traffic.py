"""Bytes and seconds of layout changes and halos, against the routes they stand for."""

from collections import Counter
from unittest.mock import patch

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost import transitions
from slicewise.cost.compute import ITEM_BYTES
from slicewise.cost.exchange import received
from slicewise.cost.model import CostModel
from slicewise.cost.network import Network
from slicewise.cost.transitions import transition_seconds
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.halo import halo
from slicewise.partition.layout import layouts as layer_layouts
from slicewise.partition.legal import Space, legal_slicings
from slicewise.partition.parts import Box, as_box, boxes, volume
from slicewise.partition.route import Transfer, route
from slicewise.partition.steps import Op, steps
from tests.property.ranks import boxes_of, groups, routes_of, summed_axes
from tests.property.strategies import WINDOWED, Shape, clusters, layers, layouts, meshes, shapes


def model_of(cluster: Cluster) -> CostModel:
    return CostModel(LayerGraph(name="none", layers=()), cluster)


def sent_items(transfers: list[Transfer]) -> int:
    return sum(volume(transfer.box) for transfer in transfers if transfer.source != transfer.target)


@settings(max_examples=120)
@given(shapes(max_dims=4), clusters(), st.data())
def test_transition_tables_hold_what_moves_cost_one_by_one(shape: Shape, cluster: Cluster, data: st.DataObject) -> None:
    some = st.lists(layouts(shape, cluster.mesh), min_size=1, max_size=6)
    sources, targets = data.draw(some), data.draw(some)
    model = model_of(cluster)
    with patch.object(transitions, "_PAIRS_AT_ONCE", data.draw(st.sampled_from([1, 20, 2_000_000]))):
        table = transition_seconds(shape, sources, targets, Network(cluster))
    one_by_one = [[model.move(shape, source, target).seconds for target in targets] for source in sources]
    assert np.allclose(table, one_by_one, rtol=1e-9, atol=0)


@settings(max_examples=150)
@given(shapes(), clusters(), st.data())
def test_an_all_to_all_sends_the_bytes_of_its_route(shape: Shape, cluster: Cluster, data: st.DataObject) -> None:
    mesh, model = cluster.mesh, model_of(cluster)
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    moves = [step for step in steps(shape, source, target, mesh) if step.op is Op.ALL_TO_ALL]
    assume(moves)
    for step in moves:
        assert model.step(shape, step).sent_bytes == sent_items(routes_of(shape, step, mesh)) * ITEM_BYTES


@settings(max_examples=150)
@given(shapes(), meshes(), st.data())
def test_what_each_rank_receives_over_each_tier_is_what_its_route_brings(
    shape: Shape, mesh: Mesh, data: st.DataObject
) -> None:
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    moves = [step for step in steps(shape, source, target, mesh) if step.op is Op.ALL_TO_ALL]
    assume(moves)
    for step in moves:
        tiers = 1 + max(axis.tier for axis in mesh.axes)
        summed = tuple(summed_axes(step))
        items = received(shape, step.source, boxes(shape, step.target, mesh), mesh, tiers, summed)
        brought: Counter[tuple[int, int]] = Counter()
        for transfer in routes_of(shape, step, mesh):
            if transfer.source != transfer.target:
                brought[crossed_tier(transfer, mesh), transfer.target] += volume(transfer.box)
        for tier in range(tiers):
            assert items[tier].tolist() == [brought[tier, rank] for rank in range(mesh.devices)]


def crossed_tier(transfer: Transfer, mesh: Mesh) -> int:
    """The outermost tier on which the two ranks sit apart."""
    differs = mesh.coordinates[transfer.source] != mesh.coordinates[transfer.target]
    return min(axis.tier for axis, apart in zip(mesh.axes, differs, strict=True) if apart)


@settings(max_examples=150)
@given(layers(WINDOWED), clusters(), st.data())
def test_a_halo_exchange_sends_the_bytes_of_its_route(layer: Layer, cluster: Cluster, data: st.DataObject) -> None:
    mesh, model = cluster.mesh, model_of(cluster)
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh, Space(dims_per_tier=3))))
    traffic = model.halo_traffic(layer, slicing)
    exchange = halo(layer, slicing, mesh)
    if exchange is None:
        assert (traffic.seconds, traffic.sent_bytes) == (0.0, 0)
        return
    own = boxes_of(layer.input_shapes[0], layer_layouts(layer, slicing).inputs[0], mesh)
    needed: list[Box] = [as_box(a, b) for a, b in zip(exchange.start, exchange.stop, strict=True)]
    items = sum(
        sent_items(route([own[rank] for rank in group], [needed[rank] for rank in group]))
        for group in groups(mesh, exchange.axes)
    )
    assert traffic.sent_bytes == items * ITEM_BYTES
    assert traffic.seconds > 0


@given(shapes(), clusters(), st.data())
def test_collectives_send_what_a_ring_sends(shape: Shape, cluster: Cluster, data: st.DataObject) -> None:
    """An all-gather brings each rank the rest of its result; an all-reduce is two such rounds."""
    mesh, model = cluster.mesh, model_of(cluster)
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    for step in steps(shape, source, target, mesh):
        own = sum(volume(box) for box in boxes_of(shape, step.source, mesh))
        result = sum(volume(box) for box in boxes_of(shape, step.target, mesh))
        ranks = mesh.group_size(step.axes)
        if step.op is Op.ALL_GATHER:
            assert model.step(shape, step).sent_bytes == ITEM_BYTES * (result - own)
        elif step.op is Op.ALL_REDUCE:
            assert model.step(shape, step).sent_bytes == ITEM_BYTES * 2 * (ranks - 1) * result // ranks
        elif step.op is Op.LOCAL:
            assert model.step(shape, step).sent_bytes == 0


@given(shapes(), clusters(), st.data())
def test_moving_costs_nothing_exactly_where_nothing_is_sent(
    shape: Shape, cluster: Cluster, data: st.DataObject
) -> None:
    source, target = (data.draw(layouts(shape, cluster.mesh)) for _ in "st")
    traffic = model_of(cluster).move(shape, source, target)
    assert (traffic.seconds == 0) == (traffic.sent_bytes == 0)
