"""Each contradiction in a saved graph is refused, with the layer, the field, its value and what would fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import GraphError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph, shipped_names
from tests.builders import Net, small_cnn

V1 = Path(__file__).parents[2] / "formats" / "v1"


def everything() -> dict[str, Any]:
    """A captured network with one of nearly each kind of layer."""
    document: dict[str, Any] = json.loads((V1 / "graph.json").read_text())
    return document


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(GraphError) as caught:
        LayerGraph.from_dict(document, "mine.json")
    message = str(caught.value)
    assert message.startswith("mine.json: ")
    assert "\n" not in message
    return message.removeprefix("mine.json: ")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("shape.1", -4, "layers[1].shape[1] is -4; must be a whole number of at least 1"),
        ("shape.1", 8.5, "layers[1].shape[1] is 8.5; must be a whole number of at least 1"),
        ("shape.1", True, "layers[1].shape[1] is true; must be a whole number of at least 1"),
        ("shape.1", 10**16, "layers[1].shape[1] is 10000000000000000; must be a whole number of at most"),
        ("weights.0.trained", "no", "layers[1].weights[0].trained is 'no'; must be true or false"),
        ("weights.0.treined", True, "layers[1].weights[0]: unknown field 'treined' (did you mean trained?); choose"),
        ("windows.H.stride", 0, "layers[1].windows.H.stride is 0; must be a whole number of at least 1"),
        ("windows.Q", {}, "layers[1].windows: unknown field 'Q'; choose from F, D, H, W"),
        ("groups", 0, "layers[1].groups is 0; must be a whole number of at least 1"),
        ("kind", "teapot", "layers[1].kind is 'teapot'; must be one of input, output, conv"),
        ("name", "a\nb", "layers[1].name is 'a\\nb'; must be text on one line"),
        ("options.arguments", {"a\nb": 1}, "layers[1].options.arguments: the name 'a\\nb' must be text on one line"),
        ("options.in_place", "yes", "layers[1].options.in_place is 'yes'; must be true or false"),
    ],
)
def test_a_field_that_has_no_meaning_is_refused(path: str, value: Any, complaint: str) -> None:
    document = json.loads(small_cnn().to_json())
    place = document["layers"][1]
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[int(last) if isinstance(place, list) else last] = value
    assert complaint in refused(document)


Edit = Callable[[dict[str, dict[str, Any]]], Any]


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda g: g["norm"].update(dims="NFH"), "norm: dims is 'NFH', 3 letters for the 4 dims of shape"),
        (lambda g: g["norm"].update(dims="NFHX"), "norm: dims has the letter 'X'; choose from N, F, C"),
        (lambda g: g["norm"].update(dims="NFHH"), "norm: dims is 'NFHH': a letter stands for one dim only"),
        (lambda g: g["stem"].update(dims="NCHW"), "stem: dims is 'NCHW': C is summed over"),
        (lambda g: g["norm"].update(input_shapes=[[4, 8, 9, 16]]), "input_shapes[0] is [4, 8, 9, 16], but stem writes"),
        (lambda g: g["norm"].update(input_shapes=[]), "norm: 1 inputs, 0 input_shapes and 1 input_dims; there must be"),
        (lambda g: g["cumsum"].update(input_dims=[".."]), "input_dims[0] is '..', but out_norm writes 'NF': the batch"),
        (lambda g: g["x"].update(dims=".FHW"), "stem: input_dims[0] is 'NCHW', but x writes '.FHW': the batch must"),
        (lambda g: g["x"].update(shape=[5, 3, 16, 16]), "stem: input_shapes[0] is [4, 3, 16, 16], but x writes [5,"),
        (lambda g: g["stem"]["windows"]["H"].update(stride=2), "stem: windows.H: makes 8 of 16, but the output has 16"),
        (lambda g: g["stem"]["windows"]["H"].update(kernel=9), "stem: windows.H: makes 10 or 11 of 16, but the output"),
        (lambda g: g["tied"]["windows"]["H"].update(padding=-2), "tied: windows.H: padding is -2; must be at least 0"),
        (lambda g: g["tied"]["windows"]["H"].update(output_padding=1), "output_padding is 1; must be 0 unless trans"),
        (
            lambda g: g["up"]["windows"]["H"].update(output_padding=0),
            "up: windows.H: makes 15 of 8, but the output has",
        ),
        (lambda g: g["up"]["windows"]["H"].update(transposed=False), "up: windows: transposed must be the same for"),
        (lambda g: g["pool"]["options"]["arguments"].update(ceil_mode=False), "pool: windows.H: makes 7 of 16, but"),
        (lambda g: g["norm"].update(windows={"H": {"kernel": 1}}), "norm: windows must be empty for a layer of kind"),
        (lambda g: g["slice_1"]["windows"]["H"].update(padding=-2), "slice_1: windows.H: reads the positions 2 to 19"),
        (lambda g: g["pad"]["windows"]["H"].update(padding=19), "pad: windows.H: padding is 19, which leaves nothing"),
        (lambda g: g["depthwise"].update(groups=3), "depthwise: groups is 3, which does not divide the 8 channels"),
        (lambda g: g["depthwise"].update(groups=4), "depthwise: weight of shape [8, 1, 3, 3]: [1, 3, 3] must be [2, 3"),
        (lambda g: g["relu_"].update(groups=2), "relu_: groups is 2; a layer of kind elementwise has 1"),
        (
            lambda g: g["stem"]["weights"][0].update(shape=[9, 3, 4, 4]),
            "stem.weight: F is 9 in shape [9, 3, 4, 4]; must",
        ),
        (
            lambda g: g["stem"]["weights"][0].update(shape=[8, 2, 4, 4]),
            "stem.weight: C is 2 in shape [8, 2, 4, 4]; must",
        ),
        (lambda g: g["stem"]["weights"][0].update(shape=[8, 3, 4, 5]), "[4, 5] must be [4, 4], as windows and groups"),
        (lambda g: g["norm"]["weights"][0].update(dims="D"), "norm.weight: D is 8 in shape [8]; must be the extent of"),
        (lambda g: g["stem"]["weights"].append(g["stem"]["weights"][0]), "stem: stem.weight stands twice in weights"),
        (lambda g: g["stem"]["weights"][0].update(again=True), "stem: stem.weight: again must be false: no layer"),
        (lambda g: g["tied#2"]["weights"][0].update(again=False), "tied#2: tied.weight: again must be true: a layer"),
        (lambda g: g["stem"].update(weights=[]), "stem: weights is empty; a layer of kind conv multiplies its input"),
        (lambda g: g["head"].update(kind="input"), "head: an input reads no layers and no weights"),
        (lambda g: g["softmax"].update(inputs=[], input_shapes=[], input_dims=[]), "softmax: inputs is empty; a layer"),
        (
            lambda g: g["output"].update(shape=[4, 1, 5], dims="N.."),
            "output: shape and dims must be those of its input",
        ),
        (lambda g: g["cat"].update(shape=[4, 13]), "cat: shape [4, 13] has not as many items as its inputs together"),
        (lambda g: g["norm"]["options"].update(statistics="ND"), "norm: options.statistics has D, which dims, 'NFHW'"),
        (
            lambda g: g["drop"]["options"].update(mask="NF"),
            "drop: options.mask is 'NF'; it must have a letter for each",
        ),
        (lambda g: g["norm"]["options"].update(ranks=2), "norm: options.ranks needs options.statistics, without N"),
        (lambda g: g["relu_"]["options"].update(ranks=2), "relu_: options.ranks is for norms over samples; a layer of"),
        (
            lambda g: g["norm"]["options"]["arguments"].update(training="no"),
            "norm: options.arguments.training is 'no'; must be true or false",
        ),
        (
            lambda g: g["tied"]["options"]["arguments"].update(stride=[2, 1]),
            "tied: options.arguments.stride is [2, 1], but the windows have [1, 1]",
        ),
        (
            lambda g: g["tied"]["options"]["arguments"].update(groups=2),
            "tied: options.arguments.groups is 2, but groups is 1",
        ),
        (
            lambda g: g["tied"]["options"]["arguments"].update(input={"input": 1}),
            "tied: options.arguments.input: input is 1, but the layer has 1",
        ),
        (
            lambda g: g["tied"]["options"]["arguments"].update(bias={"weight": "other.bias"}),
            "tied: options.arguments.bias: weight is 'other.bias', which is none of the layer's weights",
        ),
        (
            lambda g: g["relu_"]["options"]["arguments"].update(self=json.loads("[" * 20 + "]" * 20)),
            "relu_: options.arguments.self: tables and lists nested more than 16 deep",
        ),
    ],
)
def test_fields_that_contradict_each_other_are_refused_by_layer(edit: Edit, complaint: str) -> None:
    document = everything()
    edit({layer["name"]: layer for layer in document["layers"]})
    assert complaint in refused(document)


def test_what_would_overflow_is_refused_with_any_batch() -> None:
    with pytest.raises(
        GraphError,
        match=r"input0: shape \[1000000000000, 3, 8, 8\] has 1\.92e\+14 items; at most 1e\+13 have a meaning",
    ):
        small_cnn().with_batch(10**12)
    net = Net()
    net.output(net.conv(net.input(1000, 10**4, 10**3, 10**2), 10**5))
    assert "conv0: computes 1.8e+18 operations; at most 1e+18" in refused(json.loads(net.graph.to_json()))


@pytest.mark.parametrize(
    ("kinds", "dims", "complaint"),
    [
        (("input", "elementwise"), "N.", "no layer is an output"),
        (("derived", "output"), "..", "no layer is an input"),
        (("input", "output"), "..", "no input has a batch: one of its dims must be N"),
    ],
)
def test_a_graph_needs_an_input_with_a_batch_and_an_output(kinds: tuple[str, str], dims: str, complaint: str) -> None:
    plain = {"shape": [4, 5], "dims": dims, "weights": [], "windows": {}, "options": {}, "groups": 1}
    first = {"name": "a", "kind": kinds[0], "inputs": [], "input_shapes": [], "input_dims": [], **plain}
    last = {"name": "b", "kind": kinds[1], "inputs": ["a"], "input_shapes": [[4, 5]], "input_dims": [dims], **plain}
    assert refused({"schema_version": 1, "name": "two", "layers": [first, last]}) == complaint


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_graph_passes_and_says_the_same_again(name: str) -> None:
    graph = load_graph(name)
    assert LayerGraph.from_json(graph.with_batch(6).to_json()) == graph.with_batch(6)
