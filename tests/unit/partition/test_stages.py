from dataclasses import replace

import pytest

from slicewise.errors import InfeasibleError, PlanError
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.partition.stages import Cuts, held_names
from tests.builders import Net, residual_net, small_cnn


def names(graph: LayerGraph) -> list[str]:
    return [graph.layers[cut].name for cut in Cuts(graph).legal]


def test_a_chain_can_be_cut_behind_every_layer_that_leaves_something_to_compute() -> None:
    assert names(small_cnn()) == ["conv0", "elementwise0", "pool0", "flatten0"]


def test_a_residual_block_is_cut_before_its_fork_and_behind_its_sum() -> None:
    net = Net()
    trunk = net.fork(net.conv(net.input(4, 3, 8, 8), 8))
    net.output(net.relu(net.add(net.conv(trunk, 8), trunk)))
    assert names(net.graph) == ["conv0", "elementwise0"]


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ("input0", "a stage would have nothing to compute"),
        ("fork0", "that is a fork; cut behind conv0, before it"),
        ("conv1", "later layers also read fork0"),
        ("elementwise0", "a stage would have nothing to compute"),
    ],
)
def test_a_cut_that_is_not_legal_says_why(layer: str, reason: str) -> None:
    graph = residual_net()
    assert Cuts(graph).refusal(graph.index[layer]) == reason


def test_weights_are_not_shared_across_a_cut() -> None:
    net = Net()
    first = net.conv(net.input(4, 8, 8, 8), 8)
    second = net.conv(net.relu(first), 8)
    third = net.conv(second, 8)
    net.share(first, second)
    net.output(third)
    assert names(net.graph) == [second]
    assert Cuts(net.graph).refusal(1) == "layers on both sides share conv0.weight"


def test_all_inputs_belong_to_the_first_stage_and_all_outputs_to_the_last() -> None:
    net = Net()
    one = net.conv(net.input(4, 3, 8, 8), 4)
    joined = net.concat(one, net.input(4, 4, 8, 8))
    net.output(net.relu(joined))
    assert names(net.graph) == ["concat0"]
    assert Cuts(net.graph).refusal(1) == "input1 is an input of the network, and those are the first stage's"
    net = Net()
    trunk = net.fork(net.conv(net.input(4, 3, 8, 8), 4))
    net.output(trunk)
    net.output(net.conv(net.conv(trunk, 4), 4))
    assert Cuts(net.graph).refusal(net.graph.index["conv1"]) == "an output of the network comes from before"


def test_what_no_weight_has_touched_is_not_sent() -> None:
    """Its dtype is the input's, which may be whole numbers: no graph tells."""
    net = Net()
    net.output(net.conv(net.relu(net.input(4, 3, 8, 8)), 4))
    assert names(net.graph) == []


def test_stages_are_networks_that_hand_on_one_tensor() -> None:
    graph = residual_net()
    trunk = graph.index["conv0"]
    first, second = (Cuts(graph).stage([trunk], number) for number in range(2))
    assert [layer.kind for layer in first] == [Kind.INPUT, Kind.CONV, Kind.OUTPUT]
    assert [layer.name for layer in second] == ["conv0", "fork0", "conv1", "norm0", "elementwise0", "output0"]
    assert second["conv0"].kind is Kind.INPUT
    assert first.outputs[0].shape == second.inputs[0].shape == graph["conv0"].shape


def test_what_was_received_is_not_written_in_place() -> None:
    net = Net()
    conv = net.conv(net.input(4, 3, 8, 8), 4)
    net.output(net.conv(net.relu(net.relu(conv)), 4))
    _, second = (Cuts(net.graph).stage([1], number) for number in range(2))
    assert "in_place" not in second["elementwise0"].options
    assert second["elementwise1"].options["in_place"]  # writes into the first one's output


def test_a_dropout_hands_on_what_was_received() -> None:
    net = Net()
    drop = net.relu(net.conv(net.input(4, 3, 8, 8), 4))
    net.output(net.conv(net.relu(drop), 4))
    layers = [
        replace(layer, options={"op": "aten.dropout.default"}) if layer.name == drop else layer for layer in net.layers
    ]
    second = Cuts(LayerGraph(name="net", layers=tuple(layers))).stage([1], 1)
    assert "in_place" not in second["elementwise1"].options


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        (["conv9"], "cannot cut behind 'conv9': small_cnn has no layer of that name"),
        (["linear0"], "cannot cut behind linear0: a stage would have nothing to compute; near it: .*, pool0, flatten0"),
        (["pool0", "conv0"], "stages overlap: conv0 does not come after pool0"),
        (["pool0", "pool0"], "stages overlap: pool0 does not come after pool0"),
    ],
)
def test_cuts_given_by_name_are_checked(cuts: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Cuts(small_cnn()).positions(cuts)


def test_too_many_stages_are_refused_with_the_number_possible() -> None:
    with pytest.raises(InfeasibleError, match=r"small_cnn cuts into 5 stages at most, .*; 8 devices need 8"):
        Cuts(small_cnn()).check_stages(8)
    with pytest.raises(InfeasibleError, match=r"a pipeline needs two devices or more \(got 1\)"):
        Cuts(small_cnn()).check_stages(1)


@pytest.mark.parametrize(
    ("model", "inside", "between"),
    [
        ("resnet50", "layer2.0.conv1", "layer2.0.relu#3"),
        ("densenet121", "features.denseblock2.denselayer1.norm1", "features.transition1.pool"),
        ("unet3d", "down.1.0", "merge.0.0"),
    ],
)
def test_networks_of_blocks_are_cut_between_them(model: str, inside: str, between: str) -> None:
    graph = load_graph(model)
    assert inside not in names(graph)
    assert between in names(graph)


def test_running_statistics_are_among_what_a_layer_holds() -> None:
    held = set(held_names(load_graph("resnet50")["bn1"]))
    assert held == {"bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"}
