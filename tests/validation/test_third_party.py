"""Networks that nobody here wrote: captured without opaque layers in the trunk, and planned on four devices."""

import warnings
from functools import cache

import pytest

import slicewise as sw
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.dims import SPACE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import sliceable_dims
from tests.campaigns import sample
from tests.third_party import ATTENTION, NETWORKS

EVERY = NETWORKS | ATTENTION


# few of each family; the others wait for the long run
QUICK = ("ResNet", "ConvNeXt V2", "UNet", "ViT", "Swin", "DETR")


@cache
def captured(name: str) -> LayerGraph:
    """What is opaque is told by the graph."""
    network = EVERY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)
        return capture(network.build(), network.sample(), name=name)


@pytest.mark.parametrize("name", sample(EVERY, quick=QUICK))
def test_only_what_is_listed_is_opaque(name: str) -> None:
    opaque = {layer.options["op"].split(".")[1] for layer in captured(name) if layer.kind is Kind.OPAQUE}
    assert opaque == EVERY[name].opaque


@pytest.mark.parametrize("name", sample(EVERY, quick=QUICK))
def test_every_layer_that_samples_pass_through_can_be_sliced_by_sample(name: str) -> None:
    whole = [layer.name for layer in captured(name) if Dim.N not in sliceable_dims(layer) and not _apart(layer)]
    assert whole == []


@pytest.mark.parametrize("name", sample(NETWORKS, quick=[name for name in QUICK if name in NETWORKS]))
def test_every_convolution_pool_and_norm_over_space_can_be_sliced_by_space(name: str) -> None:
    kinds = (Kind.CONV, Kind.POOL, Kind.PAD, Kind.NORM, Kind.REDUCE)
    spatial = [layer for layer in captured(name) if layer.kind in kinds and set("HW") <= set(layer.input_dims[0])]
    assert len(spatial) > 3
    assert [layer.name for layer in spatial if not sliceable_dims(layer) & set(SPACE)] == []


@pytest.mark.parametrize("name", sample(EVERY, quick=QUICK))
def test_weights_are_the_models_own(name: str) -> None:
    shapes = {key: tuple(value.shape) for key, value in EVERY[name].build().named_parameters()}
    assert all(shapes[weight.name] == weight.shape for weight in captured(name).weights)


@pytest.mark.parametrize("name", sample(EVERY, quick=QUICK))
def test_what_is_captured_can_be_saved_and_read_with_any_batch(name: str) -> None:
    for graph in (captured(name), captured(name).with_batch(6)):
        assert LayerGraph.from_json(graph.to_json()) == graph


@pytest.mark.parametrize("name", sample(EVERY, quick=QUICK))
def test_every_network_is_planned_on_four_devices(name: str) -> None:
    plan = sw.plan(captured(name), "p100-4x4", devices=4, batch=8)
    assert plan.devices == 4
    assert set(plan.slicings) == {layer.name for layer in captured(name)}


@pytest.mark.parametrize("name", sample(ATTENTION, quick=[name for name in QUICK if name in ATTENTION]))
def test_attention_and_products_can_be_sliced_by_head_and_query(name: str) -> None:
    found = [layer for layer in captured(name) if layer.kind in (Kind.ATTENTION, Kind.MATMUL)]
    assert len(found) > 1
    assert [layer.name for layer in found if not {Dim.N, Dim.A, Dim.Q} <= sliceable_dims(layer)] == []


def _apart(layer: Layer) -> bool:
    """Made of weights alone, or listed as opaque, or a fork of such."""
    return layer.kind in (Kind.DERIVED, Kind.OPAQUE) or "N" not in layer.dims + "".join(layer.input_dims)
