"""What every slicing does to a layer's tensors, as arrays: against the layouts and parts of each slicing by itself."""

from hypothesis import given

from slicewise.cluster.mesh import Mesh
from slicewise.cost.compute import shares
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Layouts, input_port, mask_of, output_port
from slicewise.partition.layout import Layout, layouts, partial_axes, sharding_axes
from slicewise.partition.legal import Space, legal_choices
from slicewise.partition.parts import volume
from tests.campaigns import examples
from tests.property.ranks import boxes_of
from tests.property.strategies import layers, meshes

WIDE = Space(dims_per_layer=4, dims_per_tier=3)


def as_masks(layout: Layout, dims: str) -> tuple[list[int], int]:
    return [mask_of(sharding_axes(layout, dim)) for dim in range(len(dims))], mask_of(partial_axes(layout))


def row_of(given: Layouts, row: int) -> tuple[list[int], int]:
    return given.by_dim[row].tolist(), int(given.partial[row])


@examples(60)
@given(layers(), meshes())
def test_ports_are_the_layouts_of_every_legal_slicing(layer: Layer, mesh: Mesh) -> None:
    choices = legal_choices(layer, mesh, WIDE)
    output = output_port(layer, choices)
    inputs = [input_port(layer, slot, choices) for slot in range(len(layer.input_dims))]
    for row in range(len(choices)):
        placed = layouts(layer, choices[row])
        assert row_of(output.value, row) == as_masks(placed.output, layer.dims)
        assert row_of(output.gradient, row) == as_masks(placed.output_gradient, layer.dims)
        for slot, (port, dims) in enumerate(zip(inputs, layer.input_dims, strict=True)):
            assert row_of(port.value, row) == as_masks(placed.inputs[slot], dims)
            assert row_of(port.gradient, row) == as_masks(placed.input_gradients[slot], dims)


@examples(60)
@given(layers(), meshes())
def test_shards_are_the_largest_boxes_of_every_legal_slicing(layer: Layer, mesh: Mesh) -> None:
    choices = legal_choices(layer, mesh, WIDE)
    part = shares(layer, choices)
    for row in range(len(choices)):
        placed = layouts(layer, choices[row])
        tensors = [
            (part.output, layer.shape, placed.output),
            *zip(part.inputs, layer.input_shapes, placed.inputs, strict=True),
            *zip(part.weights, [weight.shape for weight in layer.weights], placed.weights, strict=True),
        ]
        for items, shape, layout in tensors:
            assert items[row] == max(volume(box) for box in boxes_of(shape, layout, mesh))


@examples(60)
@given(layers(["conv", "grouped", "transposed", "dilated", "linear"]), meshes())
def test_a_part_of_a_product_multiplies_its_weights_with_every_position_it_has(layer: Layer, mesh: Mesh) -> None:
    """Positions of the output; a transposed convolution starts from those of its input."""
    choices = legal_choices(layer, mesh, WIDE)
    part = shares(layer, choices)
    transposed = any(window.transposed for window in layer.windows.values())
    for row in range(len(choices)):
        placed = layouts(layer, choices[row])
        weight = boxes_of(layer.weights[0].shape, placed.weights[0], mesh)[0]
        if transposed:
            dims, largest = layer.input_dims[0], boxes_of(layer.input_shapes[0], placed.inputs[0], mesh)[0]
        else:
            dims, largest = layer.dims, boxes_of(layer.shape, placed.output, mesh)[0]
        positions = volume(tuple(side for letter, side in zip(dims, largest, strict=True) if letter not in "FC"))
        assert part.flops[row] == 2 * volume(weight) * positions
