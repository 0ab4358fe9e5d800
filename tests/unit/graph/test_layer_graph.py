import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import GraphError
from slicewise.graph.layer_graph import LayerGraph
from tests.builders import Net, residual_net, small_cnn


def test_two_layers_of_one_name_are_refused() -> None:
    layer = small_cnn().layers[0]
    with pytest.raises(GraphError, match="two layers are called 'input0'"):
        LayerGraph(name="twins", layers=(layer, layer))


def test_reading_what_no_earlier_layer_writes_is_refused() -> None:
    graph = small_cnn()
    with pytest.raises(GraphError, match="conv0 reads 'input0', which no layer before it writes"):
        LayerGraph(name="headless", layers=graph.layers[1:])


def test_several_consumers_need_a_fork() -> None:
    net = Net("forkless")
    source = net.input(2, 3, 8, 8)
    net.add(net.relu(source), source)
    with pytest.raises(GraphError, match="'input0' has several consumers and needs a fork"):
        _ = net.graph


def tied(*, marked: bool) -> LayerGraph:
    """Three convolutions that use the first one's weights."""
    net = Net("tied")
    last = net.conv(net.input(2, 3, 8, 8), 3)
    own = tuple(replace(weight, shared=marked) for weight in net[last].weights)
    net.layers[-1] = replace(net[last], weights=own)
    for _ in range(2):
        last = net.conv(net.relu(last), 3)
        net.layers[-1] = replace(net[last], weights=own)
    net.output(last)
    return net.graph


def test_weights_that_layers_share_must_be_marked() -> None:
    with pytest.raises(GraphError, match=r"tied: conv0 and conv1 and conv2 share conv0\.weight"):
        tied(marked=False)


def test_layers_that_share_weights_are_tied() -> None:
    graph = tied(marked=True)
    assert graph.ties == ((1, 3, 5),)
    assert graph.readers == {"conv0.weight": (1, 3, 5), "conv0.bias": (1, 3, 5)}
    assert small_cnn().ties == ()


def test_layers_are_found_by_name_and_edges_by_position() -> None:
    graph = residual_net()
    assert graph["conv1"].inputs == ("fork0",)
    assert graph.index["fork0"] == 2
    names = [layer.name for layer in graph]
    spelled = [(names[producer], names[consumer], slot) for producer, consumer, slot in graph.edges]
    assert ("norm0", "elementwise0", 0) in spelled
    assert ("fork0", "elementwise0", 1) in spelled
    assert len(graph) == len(names)


def test_gradients_flow_from_the_first_weight_on() -> None:
    net = Net()
    net.output(net.conv(net.pool(net.input(2, 3, 8, 8)), 4))
    assert net.graph.gradients == {"conv0", "output0"}


def test_weights_are_listed_once_in_order_of_use() -> None:
    assert [weight.name for weight in small_cnn().weights] == [
        "conv0.weight",
        "conv0.bias",
        "linear0.weight",
        "linear0.bias",
    ]


def test_inputs_and_outputs_are_known() -> None:
    graph = small_cnn()
    assert [layer.name for layer in graph.inputs] == ["input0"]
    assert [layer.name for layer in graph.outputs] == ["output0"]


@pytest.mark.parametrize("batch", [0, -3])
def test_a_batch_without_samples_is_refused(batch: int) -> None:
    with pytest.raises(GraphError, match=f"batch must be positive \\(got {batch}\\)"):
        small_cnn().with_batch(batch)


def test_a_graph_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    residual_net().save(path)
    assert LayerGraph.load(path) == residual_net()


def test_a_graph_of_another_release_is_refused() -> None:
    fields = {**json.loads(small_cnn().to_json()), "schema_version": 99}
    with pytest.raises(GraphError, match=r"old.json: schema_version is 99; this release reads 1"):
        LayerGraph.from_json(json.dumps(fields), "old.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "mine.json: not JSON"),
        ("[]", "mine.json: no schema_version; this release reads 1"),
        ("{}", "mine.json: no schema_version; this release reads 1"),
        ('{"schema_version": 1, "schema_version": 1}', "mine.json: field 'schema_version' stands twice"),
        ('{"schema_version": true}', "mine.json: schema_version is true; this release reads 1"),
        ('{"schema_version": 1, "name": "\\ud800", "layers": []}', "name is '\\ud800'; must be text on one line"),
        ('{"schema_version": 1, "name": "x", "layers": []}', "layers is a list of 0; must be a list of at least 1"),
        ('{"schema_version": 1, "\\ud800": 1}', "mine.json: has text that is not Unicode"),
        ("[" * 10_000, "mine.json: nested too deeply"),
    ],
)
def test_what_is_not_a_saved_graph_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(GraphError) as refused:
        LayerGraph.from_json(text, "mine.json")
    assert reason in str(refused.value)


@pytest.mark.parametrize("field", ["kind", "inputs", "shape", "dims", "weights", "windows", "groups"])
def test_a_missing_field_is_named(field: str) -> None:
    fields = json.loads(small_cnn().to_json())
    del fields["layers"][1][field]
    with pytest.raises(GraphError, match=rf"layers\[1\].{field} is missing; must be "):
        LayerGraph.from_json(json.dumps(fields))


LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def _returning(tree: object, leaves: int = 1) -> dict[str, Any]:
    return small_cnn().to_dict() | {"returns": {"tree": json.dumps([1, tree]), "leaves": [0] * leaves}}


@pytest.mark.parametrize(
    ("tree", "leaves"),
    [
        (LEAF, 1),
        ({"type": "builtins.tuple", "context": "null", "children_spec": [LEAF, LEAF]}, 2),
        ({"type": "builtins.dict", "context": '["out"]', "children_spec": [LEAF]}, 1),
    ],
)
def test_plain_structures_of_outputs_survive_the_file(tree: object, leaves: int) -> None:
    graph = LayerGraph.from_dict(_returning(tree, leaves))
    assert graph.returns is not None
    assert graph.returns.build(["y"]) == {1: "y", 2: ("y", "y")}[leaves] or graph.returns.build(["y"]) == {"out": "y"}


def test_a_structure_that_names_code_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lurking.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    context = {"default_factory_module": "lurking", "default_factory_name": "make", "dict_context": ["a"]}
    tree = {"type": "collections.defaultdict", "context": json.dumps(context), "children_spec": [LEAF]}
    assert LayerGraph.from_dict(_returning(tree)).returns is None
    assert LayerGraph.from_dict(_returning({**tree, "type": "transformers.Output"})).returns is None


@pytest.mark.parametrize(
    "tree",
    [
        "nothing",
        {"type": None},
        {"type": "builtins.dict", "context": '[{"__enum__": true, "fqn": "a:b"}]', "children_spec": [LEAF]},
        {"type": "builtins.dict", "context": '["a", "b"]', "children_spec": [LEAF]},
        {"type": "builtins.tuple", "context": "null", "children_spec": [LEAF, LEAF]},
    ],
)
def test_a_structure_that_makes_no_sense_is_refused(tree: object) -> None:
    with pytest.raises(GraphError, match=r"returns\.tree"):
        LayerGraph.from_dict(_returning(tree))


def test_a_graph_that_was_edited_is_no_longer_the_models_own() -> None:
    graph = replace(small_cnn(), fingerprint="f00d")
    assert LayerGraph.from_json(graph.to_json()).fingerprint == "f00d"
    edited = graph.to_dict()
    edited["layers"][2]["options"]["op"] = "aten.tanh.default"
    assert LayerGraph.from_dict(edited).fingerprint is None
    assert LayerGraph.from_dict(graph.to_dict() | {"fingerprint": "f00d"}).fingerprint is None
