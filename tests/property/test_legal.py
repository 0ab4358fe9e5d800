"""The list of legal slicings, against every assignment of dims to axes."""

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.partition.choices import CANONICAL
from slicewise.partition.halo import needed_boxes
from slicewise.partition.layout import Layout, Slicing, layouts
from slicewise.partition.legal import Space, legal_slicings, refusal
from slicewise.partition.parts import boxes
from tests.campaigns import examples
from tests.property.strategies import layers, meshes


def spaces() -> st.SearchStrategy[Space]:
    return st.builds(
        Space,
        dims_per_layer=st.integers(1, 4),
        dims_per_tier=st.integers(1, 3),
        reductions=st.booleans(),
        uneven=st.booleans(),
    )


def is_canonical(layer: Layer, slicing: Slicing, mesh: Mesh) -> bool:
    """Within each tier samples, space, nothing, channels: of linear layers and products, F or C first."""
    turned = {Dim.F: Dim.C, Dim.C: Dim.F} if layer.kind in (Kind.LINEAR, Kind.MATMUL) else {}
    for tier in {axis.tier for axis in mesh.axes}:
        labels = [dim for dim, axis in zip(slicing, mesh.axes, strict=True) if axis.tier == tier]
        orders = [[CANONICAL.index(order.get(dim, dim) if dim else dim) for dim in labels] for order in ({}, turned)]
        if all(order != sorted(order) for order in orders):
            return False
    return True


def is_within(space: Space, layer: Layer, slicing: Slicing, mesh: Mesh) -> bool:
    per_tier: dict[int, set[Dim]] = {}
    for dim, axis in zip(slicing, mesh.axes, strict=True):
        if dim is not None:
            per_tier.setdefault(axis.tier, set()).add(dim)
    used = set().union(*per_tier.values())
    if not space.reductions and not all(dim in layer.dims for dim in used):
        return False
    if not space.uneven and not all(
        size % prod(axis.size for axis, dim in zip(mesh.axes, slicing, strict=True) if dim == letter) == 0
        for letter, size in zip(layer.dims, layer.shape, strict=True)
    ):
        return False
    return len(used) <= space.dims_per_layer and all(len(dims) <= space.dims_per_tier for dims in per_tier.values())


@examples(300)
@given(layers(), meshes(), spaces())
def test_legal_slicings_are_all_that_are_canonical_within_the_space_and_not_refused(
    layer: Layer, mesh: Mesh, space: Space
) -> None:
    everything = product([None, *Dim], repeat=len(mesh.axes))
    expected = {
        slicing
        for slicing in everything
        if is_canonical(layer, slicing, mesh)
        and is_within(space, layer, slicing, mesh)
        and refusal(layer, slicing, mesh) is None
    }
    listed = legal_slicings(layer, mesh, space)
    assert len(listed) == len(set(listed))
    assert set(listed) == expected


@given(layers(), meshes())
def test_no_legal_slicing_leaves_a_part_empty(layer: Layer, mesh: Mesh) -> None:
    for slicing in legal_slicings(layer, mesh):
        placed = layouts(layer, slicing)
        tensors: list[tuple[tuple[int, ...], Layout]] = [
            *zip(layer.input_shapes, placed.inputs, strict=True),
            (layer.shape, placed.output),
            *((weight.shape, held) for weight, held in zip(layer.weights, placed.weights, strict=True)),
        ]
        for shape, layout in tensors:
            start, stop = boxes(shape, layout, mesh)
            assert (start < stop).all()
        read = [dim for dim in layer.windows if dim in slicing]
        if read:
            start, stop = needed_boxes(layer, slicing, mesh, read)
            assert (start < stop).all()


@given(layers(), meshes(), spaces())
def test_lifting_limits_only_adds_slicings(layer: Layer, mesh: Mesh, space: Space) -> None:
    wide = Space(dims_per_layer=space.dims_per_layer + 1, dims_per_tier=space.dims_per_tier + 1)  # and any parts
    assert set(legal_slicings(layer, mesh, space)) <= set(legal_slicings(layer, mesh, wide))


@examples(40)
@given(layers(), meshes())
def test_slicing_nothing_is_always_legal(layer: Layer, mesh: Mesh) -> None:
    assert (None,) * len(mesh.axes) in legal_slicings(layer, mesh, Space(dims_per_layer=1, dims_per_tier=1))
