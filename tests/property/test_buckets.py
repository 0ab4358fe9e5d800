"""Gradients travel in buckets: each once, within capacity, as backward produces them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import buckets
from slicewise.partition.layout import layouts
from slicewise.partition.parts import box, volume
from tests.campaigns import examples
from tests.property.strategies import graphs, meshes, slicings


@examples(60)
@given(graphs(), meshes(), st.integers(1, 300), st.data())
def test_every_gradient_that_must_be_summed_is_in_one_bucket_over_its_own_axes(
    graph: LayerGraph, mesh: Mesh, capacity: int, data: st.DataObject
) -> None:
    chosen = data.draw(slicings(graph, mesh))
    made = buckets(graph, chosen, mesh, capacity)
    expected: dict[str, tuple[int, ...]] = {}
    for layer in graph:
        axes = layouts(layer, chosen[layer.name]).sync_axes
        expected |= {weight.name: axes for weight in layer.weights if axes}
    assert {name: bucket.axes for bucket in made for name in bucket.weights} == expected
    assert max(Counter(name for bucket in made for name in bucket.weights).values(), default=1) == 1


@examples(60)
@given(graphs(), meshes(), st.integers(1, 300), st.data())
def test_a_bucket_holds_what_fits_and_at_least_one_weight(
    graph: LayerGraph, mesh: Mesh, capacity: int, data: st.DataObject
) -> None:
    chosen = data.draw(slicings(graph, mesh))
    sizes = {
        weight.name: volume(box(weight.shape, layout, mesh, 0))
        for layer in graph
        for weight, layout in zip(layer.weights, layouts(layer, chosen[layer.name]).weights, strict=True)
    }
    for bucket in buckets(graph, chosen, mesh, capacity):
        assert bucket.items == sum(sizes[name] for name in bucket.weights)
        assert bucket.items <= capacity or len(bucket.weights) == 1


@examples(60)
@given(graphs(), meshes(), st.integers(1, 300), st.data())
def test_buckets_over_the_same_axes_fill_from_the_last_layer(
    graph: LayerGraph, mesh: Mesh, capacity: int, data: st.DataObject
) -> None:
    made = buckets(graph, data.draw(slicings(graph, mesh)), mesh, capacity)
    order = {weight.name: position for position, weight in enumerate(graph.weights)}
    user = {weight.name: layer.name for layer in graph for weight in layer.weights}
    for axes in {bucket.axes for bucket in made}:
        filled = [name for bucket in made if bucket.axes == axes for name in bucket.weights]
        assert filled == sorted(filled, key=order.__getitem__, reverse=True)
    for bucket in made:
        assert list(bucket.layers) == list(dict.fromkeys(user[name] for name in bucket.weights))
