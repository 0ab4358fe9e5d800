"""The networks of the zoo are the published ones."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from slicewise.errors import RequestError
from slicewise.graph.kind import Kind
from slicewise.graph.sources import load_graph, shipped_names
from slicewise.graph.zoo import ZOO, DenseNet, InceptionV3, ResNet, TextCNN, WeatherSwin
from tests.campaigns import sample

DEEPER = ("resnet101", "resnet152", "vit_l_16")  # than others of their kind
PARAMETERS = {
    "alexnet": 61_100_840,
    "alexnet_optcnn": 74_732_328,
    "cosmoflow": 2_131_252,
    "densenet121": 7_978_856,
    "diffusion_unet": 30_420_611,
    "inception_v3": 23_834_568,
    "lenet5": 61_706,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "swin_t": 28_288_354,
    "swin_unetr": 70_071_980,
    "textcnn": 360_902,
    "unet3d": 1_402_003,
    "unetr": 92_811_694,
    "vgg16": 138_357_544,
    "vit_b_16": 86_567_656,
    "vit_l_16": 304_326_632,
    "weather_swin": 4_535_413,
}


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_every_network_of_the_zoo_ships_as_a_graph() -> None:
    assert shipped_names() == sorted(ZOO) == sorted(PARAMETERS)


@pytest.mark.parametrize("name", sample(ZOO, quick=[name for name in ZOO if name not in DEEPER]))
def test_parameters_and_flops_are_those_of_the_module(name: str) -> None:
    with torch.device("meta"):
        module, sample = ZOO[name].build(), torch.zeros(2, *ZOO[name].input_shape)
    with FlopCounterMode(display=False) as counter:
        module(sample)
    graph = load_graph(name)
    assert sum(weight.size for weight in graph.weights) == parameters(module) == PARAMETERS[name]
    assert {weight.name for weight in graph.weights} == {name for name, _ in module.named_parameters()}
    assert sum(layer.flops() for layer in graph.with_batch(2)) == counter.get_total_flops()


@pytest.mark.parametrize("name", ZOO)
def test_every_layer_of_the_zoo_is_one_that_can_be_sliced(name: str) -> None:
    assert not [layer.name for layer in load_graph(name) if layer.kind is Kind.OPAQUE]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alexnet", ["features.0.weight", "classifier.6.bias"]),
        ("vgg16", ["features.28.weight", "classifier.6.bias"]),
        ("resnet50", ["conv1.weight", "layer1.0.downsample.1.running_var", "layer4.2.bn3.weight", "fc.bias"]),
        (
            "densenet121",
            [
                "features.conv0.weight",
                "features.denseblock4.denselayer16.conv2.weight",
                "features.transition3.conv.weight",
                "features.norm5.bias",
                "classifier.weight",
            ],
        ),
        ("inception_v3", ["Conv2d_1a_3x3.conv.weight", "Mixed_7c.branch3x3dbl_3b.bn.running_mean", "fc.weight"]),
    ],
)
def test_state_dicts_have_the_names_that_torchvision_gives(name: str, expected: list[str]) -> None:
    with torch.device("meta"):
        held = ZOO[name].build().state_dict()
    assert set(expected) <= set(held)


def test_inceptions_auxiliary_classifier_is_there_when_asked_for() -> None:
    with torch.device("meta"):
        plain, module, sample = InceptionV3(), InceptionV3(auxiliary=True), torch.zeros(2, 3, 299, 299)
    assert not any(name.startswith("AuxLogits") for name in plain.state_dict())
    assert parameters(module) == 27_161_264
    logits, auxiliary = module(sample)
    assert logits.shape == auxiliary.shape == (2, 1000)
    assert module.eval()(sample).shape == (2, 1000)


def test_dense_layers_read_all_that_was_written_before_them() -> None:
    block = DenseNet(blocks=(3,), growth=4).eval().get_submodule("features.denseblock1")
    x = torch.randn(2, 8, 5, 5)
    written = [x]
    for layer in block.children():
        written.append(layer(torch.cat(written, dim=1))[:, -4:])
    assert torch.equal(block(x), torch.cat(written, dim=1))


def test_residual_blocks_add_their_input() -> None:
    block = ResNet(blocks=(2, 1, 1, 1), width=4).get_submodule("layer1.1").eval()
    nn.init.zeros_(block.get_parameter("bn3.weight"))
    x = torch.randn(2, 16, 5, 5)
    assert torch.equal(block(x.clone()), torch.relu(x))


def test_cosmoflows_layers_are_those_of_the_oracles_table() -> None:
    table = {
        "features.0": (16, 256),
        "features.3": (32, 128),
        "features.6": (64, 64),
        "features.9": (128, 16),
        "features.12": (256, 9),  # 8 in the table, before pooling
        "features.15": (256, 5),  # 4 in the table, before pooling
        "features.18": (128, 1),
        "regressor.0": (2048,),
        "regressor.2": (256,),
        "regressor.4": (4,),
    }
    graph = load_graph("cosmoflow")
    assert {layer.name: layer.shape[1:3] for layer in graph if layer.flops()} == table


def test_longitudes_have_no_edge() -> None:
    """What lies beyond the last column is the first: moved round the earth, the weather is the same, moved on."""
    torch.manual_seed(0)
    net = WeatherSwin(2, 8, (2, 2, 1), 2, image=(33, 32), window=2).double().eval()
    x = torch.randn(1, 2, 33, 32, dtype=torch.float64)
    moved = net(torch.roll(x, 16, 3))  # whole windows, of patches twice as wide too
    assert torch.allclose(moved, torch.roll(net(x), 16, 3), atol=1e-12)
    assert moved.shape == (1, 2, 32, 32)


def test_latitudes_have_poles() -> None:
    """Attention does not look from one pole to the other: the last rows say nothing to the first."""
    torch.manual_seed(0)
    net = WeatherSwin(1, 8, (2, 1, 1), 2, image=(65, 32), window=2).double().eval()
    x = torch.randn(1, 1, 65, 32, dtype=torch.float64, requires_grad=True)
    net(x)[:, :, :4].sum().backward()
    assert x.grad is not None
    assert x.grad[:, :, :32].abs().max() > 0
    assert x.grad[:, :, 48:].abs().max() < 1e-40  # of a score that is 100 lower


def test_textcnn_takes_sentences_of_any_length() -> None:
    net = TextCNN(embedding=6, filters=4).eval()
    assert net(torch.zeros(2, 6, 5)).shape == net(torch.zeros(2, 6, 40)).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "shape", "head"),
    [
        ("cosmoflow", (4, 512, 512, 512), 128 * 27),
        ("cosmoflow", (4, 256, 256, 256), 128),
        ("lenet5", (1, 28, 28), 16 * 16),
    ],
)
def test_heads_follow_the_input(name: str, shape: tuple[int, ...], head: int) -> None:
    graph = load_graph(name, shape)
    first = next(layer for layer in graph if layer.kind is Kind.LINEAR)
    assert graph.inputs[0].shape[1:] == shape
    assert first.input_shapes[0][-1] == head


def test_an_input_too_small_for_a_head_is_refused() -> None:
    with pytest.raises(RequestError, match="at least 152 a side"):
        load_graph("cosmoflow", (4, 64, 64, 64))
