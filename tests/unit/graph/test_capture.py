"""Real networks become layer graphs; the only torch in the unit tests."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from slicewise.cluster.mesh import Mesh
from slicewise.errors import GraphError
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.layer import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.graph.zoo import ZOO, AlexNet, UNet3d
from slicewise.partition.legal import legal_slicings

IMAGE = torch.zeros(2, 3, 8, 8)


def names(graph: LayerGraph) -> list[str]:
    return [layer.name for layer in graph]


@pytest.mark.parametrize(("build", "shape"), [(AlexNet, (2, 3, 64, 64)), (lambda: UNet3d(width=2), (1, 1, 16, 16, 16))])
def test_flops_agree_with_torchs_own_count(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    with torch.device("meta"):
        model, sample = build(), torch.zeros(shape)
    counter = FlopCounterMode(display=False)
    with counter:
        model(sample)
    graph = capture(model, sample)
    assert sum(layer.flops() for layer in graph) == counter.get_total_flops()
    assert {weight.name for weight in graph.weights} == set(model.state_dict())


@pytest.mark.parametrize("name", ZOO)
def test_the_shipped_graphs_are_what_capture_gives_today(name: str) -> None:
    """If not: `slicewise capture NAME -o src/slicewise/graph/captured/NAME.json`."""
    with torch.device("meta"):
        graph = capture(ZOO[name].build(), torch.zeros(2, *ZOO[name].input_shape), name=name)
    assert LayerGraph.from_json(graph.to_json()) == load_graph(name)


def test_layers_keep_the_models_own_names() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            return torch.flatten(self.body(self.body(x)), 1)

    graph = capture(Twice(), IMAGE, name="twice")
    assert graph.name == "twice"
    assert names(graph) == ["x", "body.0", "body.1", "body.0#2", "body.1#2", "flatten", "output"]


def test_a_weight_that_two_layers_share_is_refused() -> None:
    shared = nn.Linear(4, 4)
    with pytest.raises(GraphError, match=r"tied: 0 and 2 share 2\.weight, which cannot be sliced yet"):
        capture(nn.Sequential(shared, nn.ReLU(), shared), torch.zeros(2, 4), name="tied")


def test_training_mode_is_captured_and_the_models_own_mode_restored() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5)).eval()
    graph = capture(model, IMAGE)
    assert not model.training
    assert graph["2"].options["arguments"]["train"] is True
    assert names(graph) == ["input", "0", "1", "2", "output"]  # no num_batches_tracked += 1


def test_in_place_operators_are_followed_and_remembered() -> None:
    graph = capture(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3)), IMAGE)
    assert graph["1"].options["in_place"]
    assert graph["1"].options["op"] == "aten.relu.default"
    assert graph["2"].inputs == ("1",)


def test_whoever_reads_after_an_in_place_operator_reads_its_result() -> None:
    class Aliased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.conv(x)
            z = y * 2
            y.relu_()
            return y + z

    graph = capture(Aliased(), IMAGE)
    assert graph["conv.fork"].inputs == ("conv",)
    assert graph["mul"].inputs == graph["relu_"].inputs == ("conv.fork",)
    assert graph["add"].inputs == ("relu_", "mul")
    assert "in_place" not in graph["relu_"].options  # it would change what `mul` reads


def test_a_tensor_with_several_readers_goes_through_one_fork() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.conv(x)
            return y + x

    graph = capture(Residual(), IMAGE)
    assert names(graph) == ["x", "x.fork", "conv", "add", "output"]
    assert graph["x.fork"].kind is Kind.FORK
    assert graph["conv"].inputs == ("x.fork",)
    assert graph["add"].inputs == ("conv", "x.fork")


def test_an_operator_nobody_taught_us_warns_and_is_replicated() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cumsum(self.conv(x), 1)

    with pytest.warns(OpaqueLayerWarning, match=r"does not know how to slice aten.cumsum.*1.02 kB per sample"):
        graph = capture(Odd(), IMAGE)
    layer = graph["cumsum"]
    assert layer.kind is Kind.OPAQUE
    assert legal_slicings(layer, Mesh.of({"all": 2})) == [(None,)]
    assert graph["output"].dims == "N..."  # each rank still gets the outputs of its own samples
    assert graph.with_batch(8)["cumsum"].shape == (8, 4, 8, 8)


def test_a_residual_around_an_opaque_operator_scales_with_the_batch() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cumsum(x, 1) + x

    with pytest.warns(OpaqueLayerWarning):
        graph = capture(Odd(), IMAGE)
    assert graph["add"].dims == "NFHW"
    assert graph.with_batch(8)["add"].shape == (8, 3, 8, 8)


class _Scaled(nn.Module):
    """A convolution, and a factor per channel that is a parameter or a buffer."""

    scale: Tensor

    def __init__(self, trained: bool, first: bool = False) -> None:
        super().__init__()
        self.conv, self.first = nn.Conv2d(3, 4, 3), first
        if trained:
            self.scale = nn.Parameter(torch.ones(4, 1, 1))
        else:
            self.register_buffer("scale", torch.ones(1, 4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return self.scale * y if self.first else y * self.scale


@pytest.mark.parametrize("model", [_Scaled(True), _Scaled(False), _Scaled(False, first=True)])
def test_factors_that_nobody_would_cut_along_make_a_layer_opaque(model: nn.Module) -> None:
    with pytest.warns(OpaqueLayerWarning, match=r"aten.mul.Tensor"):
        graph = capture(model, IMAGE)
    assert graph["mul"].kind is Kind.OPAQUE
    assert graph["output"].inputs == ("mul",)


def test_a_convolution_with_a_computed_weight_is_opaque() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 3, 3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.conv2d(x, self.weight * 2)

    with pytest.warns(OpaqueLayerWarning):
        graph = capture(Normalised(), IMAGE)
    assert graph["conv2d"].kind is Kind.OPAQUE
    assert graph["conv2d"].inputs == ("x", "mul")


def test_several_inputs_and_outputs_are_kept_apart() -> None:
    class Pair(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
            return torch.relu(left), left + right

    graph = capture(Pair(), (IMAGE, IMAGE))
    assert [layer.name for layer in graph.inputs] == ["left", "right"]
    assert [layer.inputs for layer in graph.outputs] == [("relu",), ("add",)]
    assert [layer.name for layer in graph.outputs] == ["output", "output#2"]


def test_a_model_that_export_cannot_follow_is_refused_with_the_reason() -> None:
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(GraphError, match=r"mine: torch.export cannot capture this model \(\w+: .*branches on tensor"):
        capture(Branching(), IMAGE, name="mine")


def test_an_operator_that_returns_several_tensors_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match=r"cannot follow aten.max_pool2d_with_indices.default"):
        capture(nn.MaxPool2d(2, return_indices=True), IMAGE)


def test_a_size_that_comes_from_the_batch_follows_it_through_an_unknown_operator() -> None:
    class Shuffle(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            n, c, h, w = x.shape
            return x.view(n, 2, c // 2, h, w).transpose(1, 2).flatten(1, 2)

    with pytest.warns(OpaqueLayerWarning):
        graph = capture(Shuffle(), torch.zeros(2, 4, 6, 6))
    assert graph["view"].options["arguments"]["size"] == [{"batch": 1}, 2, 2, 6, 6]
    assert graph.with_batch(8)["view"].shape == (8, 2, 2, 6, 6)


def test_a_batch_mixed_with_other_dims_is_refused() -> None:
    class Merge(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x.flatten(0, 1))

    with (
        pytest.warns(OpaqueLayerWarning),
        pytest.raises(GraphError, match=r"flatten: a dim of size .* mixes the batch with other dims"),
    ):
        capture(Merge(), torch.zeros(2, 4, 6, 6))


def test_capture_leaves_every_module_in_its_own_mode_and_sees_frozen_parts() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1))
    model[1].eval()
    model[0].requires_grad_(False)
    graph = capture(model, IMAGE)
    assert [module.training for module in model] == [True, False, True]
    assert graph["1"].options["arguments"]["training"] is False
    assert [weight.trained for weight in graph.weights] == [False, False, True, True, True, True]
    assert graph.gradients == {"1", "2", "output"}


def test_a_constant_tensor_is_refused_with_what_would_work() -> None:
    class Shift(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - torch.tensor([1.0])

    with pytest.raises(GraphError, match=r"reads a constant tensor; make it a buffer \(register_buffer\)"):
        capture(Shift(), IMAGE)
