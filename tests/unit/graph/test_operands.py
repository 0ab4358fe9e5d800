"""A graph file whose operands do not fit together is refused."""

from dataclasses import replace
from typing import Any

import pytest

from slicewise.errors import GraphError
from slicewise.graph.layer_graph import LayerGraph
from tests.builders import Net


def network(**changes: Any) -> LayerGraph:
    """Attention, then a product, as a file has them; `changes` are fields of one or the other."""
    net = Net()
    heads = net.fork(net.conv(net.input(4, 3, 6, 6), 8))
    net.output(net.matmul(net.attention(heads, heads, heads), heads))
    layers = [
        replace(layer, **changes[layer.kind.value]) if layer.kind.value in changes else layer for layer in net.layers
    ]
    return LayerGraph(name="net", layers=tuple(layers))


def test_operands_that_fit_survive_their_file() -> None:
    assert LayerGraph.from_json(network().to_json()) == network()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"attention": {"inputs": ("fork0",) * 2, "input_shapes": ((4, 8, 6, 6),) * 2, "input_dims": ("NAQ.", "NA..")}},
         "2 inputs; attention reads query, key and value"),
        ({"attention": {"input_dims": ("NAQ.", "NAK.", "NA..")}}, "keys and values are sliced alike"),
        ({"attention": {"dims": "NAQF"}}, "channels of a head are never sliced"),
        ({"attention": {"shape": (4, 8, 6, 5)}}, "gives no [4, 8, 6, 5]"),
        ({"matmul": {"input_dims": ("NAQC", "NA.K")}}, "1 operands have C"),
        ({"matmul": {"input_dims": ("NAQ.", "NA.K")}}, "0 operands have C"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(GraphError) as caught:
        LayerGraph.from_json(network(**changes).to_json())
    assert complaint in str(caught.value)
