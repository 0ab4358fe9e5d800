"""Whether the operands of attention, or of a product of two tensors, fit together."""

from collections.abc import Iterator

from slicewise.graph.dims import WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer


def operand_complaints(layer: Layer) -> Iterator[str]:
    if layer.kind is Kind.ATTENTION:
        yield from _attention_complaints(layer)
    if layer.kind is Kind.MATMUL:
        held = [weight.dims for weight in (*layer.weights, *layer.buffers)]
        summed = [dims for dims in (*layer.input_dims, *held) if Dim.C in dims]
        if len(summed) != 2 or Dim.C not in layer.input_dims[0]:
            yield f"{len(summed)} operands have C; a product sums over C of two, its first input among them"


def _attention_complaints(layer: Layer) -> Iterator[str]:
    if len(layer.inputs) < 3:
        yield f"{len(layer.inputs)} inputs; attention reads query, key and value"
    (query, key, value), letters = layer.input_shapes[:3], layer.input_dims[:3]
    if not len(query) == len(key) == len(value) == len(layer.shape) >= 3:
        yield "query, key, value and output must have as many dims as each other, three at least"
    keys, channels = ({dims[-2] for dims in letters[1:]}, {dims[-1] for dims in letters})
    if layer.dims != letters[0] or channels != {WHOLE} or keys not in ({Dim.K}, {WHOLE}) or Dim.K in layer.dims:
        yield "keys and values are sliced alike, along K, and channels of a head are never sliced"
    if query[-1] != key[-1] or key[-2] != value[-2] or layer.shape != (*query[:-1], value[-1]):
        yield f"{list(query)} x {list(key)} x {list(value)} gives no {list(layer.shape)}"
