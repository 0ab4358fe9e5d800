"""Many slicings as arrays, against the same slicings one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import Dim
from slicewise.partition.choices import Choices, Ints, Layouts, axes_in
from slicewise.partition.layout import Slicing
from slicewise.partition.spelling import degrees
from tests.campaigns import examples
from tests.property.strategies import meshes


@st.composite
def many(draw: st.DrawFn, mesh: Mesh) -> list[Slicing]:
    one = st.tuples(*[st.sampled_from([None, *Dim])] * len(mesh.axes))
    return draw(st.lists(one, min_size=1, max_size=12))


@st.composite
def letters(draw: st.DrawFn) -> str:
    """Up to twelve dims, some sliceable: a window partition has six, of a volume eight."""
    sliceable = draw(st.lists(st.sampled_from(list(Dim)), unique=True, max_size=5))
    return "".join(draw(st.permutations([*sliceable, *"." * draw(st.integers(0, 7))])))


@given(meshes().flatmap(lambda mesh: st.tuples(st.just(mesh), many(mesh))))
def test_rows_are_the_slicings_with_their_axes_and_degrees(drawn: tuple[Mesh, list[Slicing]]) -> None:
    mesh, slicings = drawn
    choices = Choices.of(slicings, mesh)
    assert [choices[row] for row in range(len(choices))] == slicings
    for row, slicing in enumerate(slicings):
        assert choices.find(slicing) == slicings.index(slicing)
        for dim in Dim:
            assert axes_in(int(choices.axes_of([dim])[row])) == tuple(a for a, d in enumerate(slicing) if d is dim)
            assert choices.degrees(dim)[row] == degrees(slicing, mesh.sizes).get(dim.value, 1)


@given(meshes().flatmap(lambda mesh: st.tuples(st.just(mesh), many(mesh), many(mesh))))
def test_slicings_are_appended_where_they_are_missing(drawn: tuple[Mesh, list[Slicing], list[Slicing]]) -> None:
    mesh, present, extra = drawn
    present = list(dict.fromkeys(present))
    wider = Choices.of(present, mesh).including(extra)
    assert [wider[row] for row in range(len(wider))] == list(dict.fromkeys([*present, *extra]))


@examples(400)
@given(meshes().flatmap(lambda mesh: st.tuples(st.just(mesh), many(mesh))), letters(), st.booleans())
def test_layouts_are_told_apart_by_what_shards_each_dim_and_what_is_partial(
    drawn: tuple[Mesh, list[Slicing]], dims: str, partial: bool
) -> None:
    mesh, slicings = drawn
    layouts = Choices.of(slicings, mesh).layouts(dims, partial=partial)
    once, index = layouts.distinct
    every_row = np.arange(len(layouts)) if index is None else index
    assert np.array_equal(rows_of(once)[every_row], rows_of(layouts))
    assert len(once) == len(np.unique(rows_of(layouts), axis=0))


def rows_of(layouts: Layouts) -> Ints:
    return np.column_stack([layouts.by_dim, layouts.partial])
