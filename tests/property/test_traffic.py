"""Bytes of layout changes, halos, statistics and gradients, against the routes and parts they stand for."""

from hypothesis import assume, given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.cost.volume import halo_items, move_items, statistics_items, step_items, sync_items
from slicewise.graph.layer import Layer
from slicewise.partition.halo import halo
from slicewise.partition.layout import layouts as layer_layouts
from slicewise.partition.layout import statistics_axes
from slicewise.partition.legal import Space, legal_slicings
from slicewise.partition.parts import Box, as_boxes, volume
from slicewise.partition.route import Transfer, route
from slicewise.partition.steps import Op, steps
from tests.campaigns import examples
from tests.property.ranks import boxes_of, groups, routes_of
from tests.property.strategies import WINDOWED, Shape, layers, layouts, meshes, shapes


def sent_items(transfers: list[Transfer]) -> int:
    return sum(volume(transfer.box) for transfer in transfers if transfer.source != transfer.target)


@examples(150)
@given(shapes(), meshes(), st.data())
def test_an_all_to_all_sends_the_items_of_its_route(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    moves = [step for step in steps(shape, source, target, mesh) if step.op is Op.ALL_TO_ALL]
    assume(moves)
    for step in moves:
        assert step_items(shape, step, mesh) == sent_items(routes_of(shape, step, mesh))


@given(shapes(), meshes(), st.data())
def test_collectives_send_what_a_ring_sends(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    """An all-gather brings each rank the rest of its result; an all-reduce is two such rounds."""
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    for step in steps(shape, source, target, mesh):
        own = sum(volume(box) for box in boxes_of(shape, step.source, mesh))
        result = sum(volume(box) for box in boxes_of(shape, step.target, mesh))
        ranks = mesh.group_size(step.axes)
        if step.op is Op.ALL_GATHER:
            assert step_items(shape, step, mesh) == result - own
        elif step.op is Op.ALL_REDUCE:
            assert step_items(shape, step, mesh) * ranks == 2 * (ranks - 1) * result
        elif step.op is Op.LOCAL:
            assert step_items(shape, step, mesh) == 0


@given(shapes(), meshes(), st.data())
def test_a_move_sends_what_its_steps_send(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    source, target = (data.draw(layouts(shape, mesh)) for _ in "st")
    path = steps(shape, source, target, mesh)
    assert move_items(shape, source, target, mesh) == sum(step_items(shape, step, mesh) for step in path)
    assert move_items(shape, source, source, mesh) == 0


@examples(150)
@given(layers(WINDOWED), meshes(), st.data())
def test_a_halo_exchange_sends_the_items_of_its_route(layer: Layer, mesh: Mesh, data: st.DataObject) -> None:
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh, Space(dims_per_tier=3))))
    exchange = halo(layer, slicing, mesh)
    if exchange is None:
        assert halo_items(layer, slicing, mesh) == 0
        return
    own = boxes_of(layer.input_shapes[0], layer_layouts(layer, slicing).inputs[0], mesh)
    needed: list[Box] = as_boxes((exchange.start, exchange.stop))
    items = sum(
        sent_items(route([own[rank] for rank in group], [needed[rank] for rank in group]))
        for group in groups(mesh, exchange.axes)
    )
    assert halo_items(layer, slicing, mesh) == items


@given(layers(["conv", "grouped", "transposed", "linear", "norm"]), meshes(), st.data())
def test_gradients_of_weights_are_sent_by_every_group_that_sums_them(
    layer: Layer, mesh: Mesh, data: st.DataObject
) -> None:
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh)))
    placed = layer_layouts(layer, slicing)
    ranks = mesh.group_size(placed.sync_axes)
    held = sum(
        volume(box)
        for weight, layout in zip(layer.weights, placed.weights, strict=True)
        for box in boxes_of(weight.shape, layout, mesh)
    )
    assert sync_items(layer, placed, mesh) * ranks == 2 * (ranks - 1) * held


@given(layers(["norm", "instance"]), meshes(), st.data())
def test_every_rank_gathers_two_numbers_per_channel_it_has_from_the_others(
    layer: Layer, mesh: Mesh, data: st.DataObject
) -> None:
    slicing = data.draw(st.sampled_from(legal_slicings(layer, mesh)))
    others = mesh.group_size(statistics_axes(layer, slicing)) - 1
    mine = [
        2
        * volume(
            tuple((0, 1) if letter in layer.statistics else side for letter, side in zip(layer.dims, box, strict=True))
        )
        for box in boxes_of(layer.shape, layer_layouts(layer, slicing).output, mesh)
    ]
    forward, backward = statistics_items(layer, slicing, mesh)
    assert forward == others * sum(mine)
    assert backward * (others + 1) == 2 * others * sum(mine)
