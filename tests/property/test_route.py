"""Routes, carried out on real arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.partition.parts import Box, intersect, volume
from slicewise.partition.route import route, route_of
from tests.property.ranks import boxes_of, cut, deliver, numbered, terms_of
from tests.property.strategies import Shape, layouts, meshes, shapes


@st.composite
def any_boxes(draw: st.DrawFn, shape: Shape, count: int) -> list[Box]:
    """What ranks may need: any boxes at all, empty ones among them."""

    def interval(extent: int) -> tuple[int, int]:
        start = draw(st.integers(0, extent))
        return start, draw(st.integers(start, extent))

    return [tuple(interval(extent) for extent in shape) for _ in range(count)]


@given(shapes(), meshes(), st.data())
def test_every_rank_ends_up_with_exactly_its_needed_box(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    whole = numbered(shape)
    own = boxes_of(shape, data.draw(layouts(shape, mesh, partial=False, empty=True)), mesh)
    needed = data.draw(any_boxes(shape, mesh.devices))
    results, _ = deliver([cut(whole, box) for box in own], own, needed)
    for result, box in zip(results, needed, strict=True):
        assert np.array_equal(result, cut(whole, box))


@given(shapes(), meshes(), st.data())
def test_summands_add_up_to_the_needed_box(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    whole = numbered(shape)
    own = boxes_of(shape, data.draw(layouts(shape, mesh)), mesh)
    # ranks that share a position on the summed axes hold the same summand; together, each summand's holders have it all
    summed = [axis for axis in range(len(mesh.axes)) if own == boxes_without(axis, own, mesh)]
    terms = terms_of(range(mesh.devices), summed, mesh)
    needed = data.draw(any_boxes(shape, mesh.devices))
    parts = [cut((term + 1) * whole**2, box) for term, box in zip(terms, own, strict=True)]
    results, _ = deliver(parts, own, needed, terms)
    total = sum(((term + 1) * whole**2 for term in set(terms)), start=np.zeros_like(whole))
    for result, box in zip(results, needed, strict=True):
        assert np.array_equal(result, cut(total, box))


def boxes_without(axis: int, own: list[Box], mesh: Mesh) -> list[Box]:
    """Each rank's box as the first rank along `axis` has it."""
    return [own[mesh.group(rank, (axis,))[0]] for rank in range(mesh.devices)]


@given(shapes(), meshes(), st.data())
def test_no_rank_receives_from_others_what_it_owns(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    own = boxes_of(shape, data.draw(layouts(shape, mesh, partial=False)), mesh)
    needed = data.draw(any_boxes(shape, mesh.devices))
    for transfer in route(own, needed):
        if transfer.source != transfer.target:
            assert intersect(transfer.box, own[transfer.target]) is None


@given(shapes(), meshes(), st.data())
def test_replicas_share_the_sending(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    """All ranks wanting everything, the k-th holder of a box serves the k-th: loads are as even as replicas allow."""
    own = boxes_of(shape, data.draw(layouts(shape, mesh, partial=False)), mesh)
    everything: Box = tuple((0, extent) for extent in shape)
    sent = [0] * mesh.devices
    for transfer in route(own, [everything] * mesh.devices):
        sent[transfer.source] += volume(transfer.box)
    for rank, box in enumerate(own):
        assert sent[rank] == volume(box) * mesh.devices // own.count(box)


@given(shapes(), meshes(), st.data())
def test_transfers_are_ordered_by_source_then_target(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    own = boxes_of(shape, data.draw(layouts(shape, mesh, partial=False)), mesh)
    pairs = [(transfer.source, transfer.target) for transfer in route(own, data.draw(any_boxes(shape, mesh.devices)))]
    assert pairs == sorted(pairs)


@given(shapes(), meshes(), st.data())
def test_a_ranks_own_transfers_are_those_of_the_whole_route(shape: Shape, mesh: Mesh, data: st.DataObject) -> None:
    own = boxes_of(shape, data.draw(layouts(shape, mesh, partial=False)), mesh)
    summed = [axis for axis in range(len(mesh.axes)) if own == boxes_without(axis, own, mesh)]
    terms = data.draw(st.sampled_from([None, terms_of(range(mesh.devices), summed, mesh)]))
    needed = data.draw(any_boxes(shape, mesh.devices))
    whole = route(own, needed, terms)
    for rank in range(mesh.devices):
        assert route_of(rank, own, needed, terms) == [t for t in whole if rank in (t.source, t.target)]
