"""Real networks become layer graphs; the only torch in the unit tests."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from slicewise.cluster.mesh import Mesh
from slicewise.errors import GraphError
from slicewise.graph.capture import OpaqueLayerWarning, capture, capture_as_is
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.graph.zoo import ZOO, AlexNet, UNet3d
from slicewise.partition.legal import legal_slicings, sliceable_dims
from tests.campaigns import sample

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


@pytest.mark.parametrize("name", sample(ZOO, quick=["alexnet", "resnet50", "unet3d", "vit_b_16", "swin_t"]))
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


def test_layers_that_share_weights_are_tied_and_slice_none_of_them() -> None:
    shared = nn.Linear(4, 4)
    graph = capture(nn.Sequential(shared, nn.ReLU(), shared), torch.zeros(2, 4))
    assert [weight.name for weight in graph.weights] == ["0.weight", "0.bias"]  # as named_parameters() has them
    assert all(weight.shared for weight in graph.weights)
    assert graph.ties == ((1, 3),)
    assert sliceable_dims(graph["0"]) == {Dim.N}


def test_norms_that_share_only_running_statistics_keep_their_channels_whole() -> None:
    shared = nn.BatchNorm2d(3, affine=False)
    graph = capture(nn.Sequential(shared, shared), IMAGE)
    assert graph.ties == ()
    assert [layer.dims for layer in graph if layer.kind is Kind.NORM] == ["N.HW", "N.HW"]


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
            return torch.logcumsumexp(self.conv(x), 1)

    with pytest.warns(OpaqueLayerWarning, match=r"does not know how to slice aten.logcumsumexp.*1.02 kB per sample"):
        graph = capture(Odd(), IMAGE)
    layer = graph["logcumsumexp"]
    assert layer.kind is Kind.OPAQUE
    assert legal_slicings(layer, Mesh.of({"all": 2})) == [(None,)]
    assert graph["output"].dims == "N..."  # each rank still gets the outputs of its own samples
    assert graph.with_batch(8)["logcumsumexp"].shape == (8, 4, 8, 8)


def test_a_residual_around_an_opaque_operator_scales_with_the_batch() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.logcumsumexp(x, 1) + x

    with pytest.warns(OpaqueLayerWarning):
        graph = capture(Odd(), IMAGE)
    assert graph["add"].dims == "NFHW"
    assert graph.with_batch(8)["add"].shape == (8, 3, 8, 8)


class _Scaled(nn.Module):
    """A convolution, and a factor per channel that is a parameter or a buffer."""

    scale: Tensor

    def __init__(self, trained: bool, *shape: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        if trained:
            self.scale = nn.Parameter(torch.ones(shape))
        else:
            self.register_buffer("scale", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return self.scale.view(-1, 1, 1) * y


@pytest.mark.parametrize("shape", [(4,), (4, 1, 1), (1, 4)])
def test_a_factor_is_a_weight_of_the_layer_whatever_dims_of_size_one_are_put_around_it(shape: tuple[int, ...]) -> None:
    layer = capture(_Scaled(True, *shape), IMAGE)["mul"]
    assert layer.kind is Kind.ELEMENTWISE
    assert layer.input_dims == ("NFHW",)
    (weight,) = layer.weights
    assert (weight.name, weight.shape, weight.dims.replace(".", "")) == ("scale", shape, "F")


def test_constant_factors_are_held_whole_and_known_to_the_layer() -> None:
    layer = capture(_Scaled(False, 4), IMAGE)["mul"]
    assert layer.weights == ()
    assert [(buffer.name, buffer.dims, buffer.trained) for buffer in layer.buffers] == [("scale", "F", False)]
    assert LayerGraph.from_json(capture(_Scaled(False, 4), IMAGE).to_json())["mul"] == layer


def test_a_convolution_with_a_computed_weight_reads_it_like_an_input() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 3, 3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.conv2d(x, self.weight * 2)

    graph = capture(Normalised(), IMAGE)
    assert graph["mul"].kind is Kind.DERIVED
    assert graph["conv2d"].inputs == ("x", "mul")
    assert graph["conv2d"].input_dims == ("NCHW", "FC..")
    assert graph["conv2d"].factor == ("FC..", (4, 3, 3, 3))
    assert graph["conv2d"].flops() == 2 * (4 * 3 * 3 * 3) * (2 * 6 * 6)


def test_several_inputs_and_outputs_are_kept_apart() -> None:
    class Pair(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
            return torch.relu(left), left + right

    graph = capture(Pair(), (IMAGE, IMAGE))
    assert [layer.name for layer in graph.inputs] == ["left", "right"]
    assert [layer.inputs for layer in graph.outputs] == [("relu",), ("add",)]
    assert [layer.name for layer in graph.outputs] == ["output", "output#2"]


@dataclass
class Scores:
    first: Tensor
    second: Tensor


class ReturnsScores(nn.Module):
    def forward(self, x: Tensor) -> Scores:
        return Scores(x.relu(), x.tanh())


def test_a_dataclass_that_is_returned_has_to_be_registered() -> None:
    with pytest.raises(GraphError, match=r"returns a Scores, .* call torch.export.register_dataclass\(Scores\) first"):
        capture(ReturnsScores(), IMAGE)
    torch.export.register_dataclass(Scores, serialized_type_name="Scores")
    assert [layer.inputs for layer in capture(ReturnsScores(), IMAGE).outputs] == [("relu",), ("tanh",)]


def test_a_model_that_export_cannot_follow_is_refused_with_the_reason() -> None:
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(GraphError, match=r"mine: forward\(\) decides by the value of a tensor \(.*branches on tensor"):
        capture(Branching(), IMAGE, name="mine")


def _called(function: Callable[..., Any]) -> nn.Module:
    class Called(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x)

    return Called()


def test_a_model_that_takes_more_than_it_was_given_is_told_how_to_pass_it() -> None:
    with pytest.raises(GraphError, match=r"missing a required argument: 'input2'.*as a tuple, or as a dict by name"):
        capture(nn.Bilinear(3, 3, 2), torch.zeros(2, 3))


def test_a_sample_that_does_not_fit_is_told_apart_from_a_model_that_does_not() -> None:
    with pytest.raises(GraphError, match=r"forward\(\) fails on samples of shape \(3, 8, 8\)"):
        capture(nn.Conv2d(4, 4, 3), IMAGE)


def test_parts_under_autocast_are_refused_with_what_would_work() -> None:
    def partly(x: Tensor) -> Tensor:
        with torch.autocast("cpu"):
            y = torch.nn.functional.conv2d(x, torch.ones(3, 3, 1, 1))
        return x + y

    with pytest.raises(GraphError, match=r"switches autocast on.*move it out"):
        capture(_called(partly), IMAGE)


def test_inputs_come_by_name_and_outputs_in_whatever_they_are_wrapped() -> None:
    class Pair(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> dict[str, Any]:
            return {"sum": left + right, "parts": [torch.relu(left), None, 3]}

    graph = capture(Pair(), {"right": IMAGE, "left": IMAGE})
    assert sorted(layer.name for layer in graph.inputs) == ["left", "right"]
    assert sorted(layer.inputs[0] for layer in graph.outputs) == ["add", "relu"]


def test_an_input_without_a_batch_is_the_same_for_all_samples() -> None:
    class Shifted(nn.Module):
        def forward(self, x: Tensor, shift: Tensor) -> Tensor:
            return x + shift

    graph = capture(Shifted(), (IMAGE, torch.zeros(3, 1, 1)))
    assert [layer.dims for layer in graph.inputs] == ["NFHW", "..."]
    assert graph["add"].input_dims == ("NFHW", "F..")
    assert graph.with_batch(8)["shift"].shape == (3, 1, 1)


def test_chunks_are_crops_of_what_they_are_cut_from() -> None:
    graph = capture(_called(lambda x: x.chunk(3, 1)[0] + x.split([1, 2], 1)[0] + x.unbind(1)[2].unsqueeze(1)), IMAGE)
    crops = [layer for layer in graph if layer.kind is Kind.CROP]
    assert [layer.options["arguments"].get("start") for layer in crops] == [0, 0, None]
    assert {layer.inputs for layer in crops} == {("x.fork",)}


def test_the_largest_values_of_a_pool_are_a_pool_and_their_positions_opaque() -> None:
    with pytest.warns(OpaqueLayerWarning, match=r"max_pool2d_with_indices"):
        graph = capture(nn.MaxPool2d(2, return_indices=True), IMAGE)
    assert [layer.kind for layer in graph][2:4] == [Kind.POOL, Kind.OPAQUE]
    assert graph.layers[2].options["op"] == "aten.max_pool2d.default"
    assert graph.layers[3].options["output"] == 1


def test_copies_vanish() -> None:
    graph = capture(_called(lambda x: torch.relu(x.contiguous().clone().float()).view(x.shape)), IMAGE)
    assert names(graph) == ["x", "relu", "output"]


def test_gradients_stop_at_what_is_detached_and_at_whole_numbers() -> None:
    graph = capture(nn.Sequential(nn.Conv2d(3, 3, 1), _called(lambda x: x * x.detach() + x.argmax(1, True))), IMAGE)
    stopped = {"1.detach", "1.argmax"}
    assert {layer.name for layer in graph if not layer.differentiable} == stopped
    assert graph.gradients == set(graph.index) - stopped - {"input"}


def test_a_layer_that_reaches_no_output_gets_no_gradient() -> None:
    graph = capture(nn.Sequential(nn.Conv2d(3, 3, 1), _called(lambda x: x.detach() * 2)), IMAGE)
    assert graph.gradients == frozenset()


def test_layers_whose_result_nobody_reads_are_left_out_unless_they_keep_statistics() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main, self.norm, self.unread = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.main(x)
            self.unread(self.norm(y))
            return y

    assert names(capture(Heads(), IMAGE)) == ["x", "main", "main.fork", "norm", "output"]


@pytest.mark.parametrize(
    "drop",
    [
        lambda x: x.div(0.75) * torch.floor(0.75 + torch.rand((x.shape[0], 1, 1, 1))),
        lambda x: x / 0.75 * (torch.rand((x.shape[0], 1, 1, 1)) + 0.75).floor_(),
        lambda x: x * x.new_empty((x.shape[0], 1, 1, 1)).bernoulli_(0.75).div_(0.75),
        lambda x: torch.empty((x.shape[0], 1, 1, 1)).bernoulli_(0.75).div_(0.75) * x,
    ],
)
def test_stochastic_depth_is_one_layer_however_it_is_written(drop: Callable[[Tensor], Tensor]) -> None:
    graph = capture(_called(drop), IMAGE)
    assert [layer.kind for layer in graph] == [Kind.INPUT, Kind.ELEMENTWISE, Kind.OUTPUT]
    assert graph.layers[1].options["op"] == "slicewise.drop_path"
    assert graph.layers[1].options["mask"] == "N111"
    assert graph.layers[1].options["arguments"] == {"p": 0.25, "scale": 1 / 0.75, "train": True}


def test_random_numbers_that_are_no_mask_are_drawn_alike_on_every_device() -> None:
    graph = capture(_called(lambda x: x + torch.rand((x.shape[0], 1, 1, 1))), IMAGE)
    assert (graph["rand"].kind, graph["rand"].dims) == (Kind.DERIVED, "n...")
    assert graph.with_batch(8)["rand"].shape == (8, 1, 1, 1)
    assert graph["add"].input_dims == ("NFHW", "N...")


def test_a_write_reaches_every_name_of_the_tensor() -> None:
    def aliased(x: Tensor) -> Tensor:
        y = x * 2
        z = y.add_(1)
        z.relu_()
        return y

    graph = capture(_called(aliased), IMAGE)
    assert graph["output"].inputs == ("relu_",)


def test_a_write_through_a_view_of_what_is_read_later_is_refused() -> None:
    def viewed(x: Tensor) -> Tensor:
        y = x * 2
        y.flatten(1).relu_()
        return y + 1

    with pytest.raises(GraphError, match=r"relu_ writes in place into memory that add reads under another shape"):
        capture(_called(viewed), IMAGE)


def test_a_write_into_one_chunk_leaves_the_others_alone() -> None:
    def gated(x: Tensor) -> Tensor:
        left, right = torch.cat([x, x], 1).chunk(2, 1)
        left *= 2
        return left + right

    graph = capture(_called(gated), IMAGE)
    assert graph["add"].inputs == ("mul_", "getitem_1")


def test_a_model_that_returns_nothing_it_computes_is_refused() -> None:
    with pytest.raises(GraphError, match=r"forward\(\) returns no tensor that it computes"):
        capture(_called(lambda x: None), IMAGE)


def test_a_buffer_that_forward_changes_is_refused_by_name() -> None:
    class Average(nn.Module):
        average: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("average", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.average.mul_(0.9)
            return x + self.average

    with pytest.raises(GraphError, match=r"forward\(\) changes average; slicewise keeps running statistics of norms"):
        capture(Average(), IMAGE)


class Marked(nn.Module):
    """Writes into its buffer in some other way than by an operator on all of it."""

    mark: Tensor

    def __init__(self, write: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.register_buffer("mark", torch.zeros(3, 8))
        self.write = write

    def forward(self, x: Tensor) -> Tensor:
        self.write(self.mark, x.detach().mean((0, 1, 2)))
        return x.exp()


@pytest.mark.parametrize(
    "write",
    [
        lambda mark, value: mark[0].copy_(value),
        lambda mark, value: mark.detach().add_(value),
        lambda mark, value: mark.t()[:, 1].mul_(value),
    ],
)
def test_a_part_of_a_buffer_that_forward_changes_is_refused_by_name(write: Callable[[Tensor, Tensor], object]) -> None:
    with pytest.raises(GraphError, match=r"forward\(\) changes mark"):
        capture(Marked(write), IMAGE)


def test_a_cast_of_a_buffer_may_be_changed() -> None:
    graph = capture(Marked(lambda mark, value: mark.to(torch.float64).mul_(2)), IMAGE)
    assert names(graph) == ["x", "exp", "output"]


def test_ways_round_torchs_record_are_refused() -> None:
    with pytest.raises(GraphError, match=r"copy_: forward\(\) goes through the .data of a tensor"):
        capture(Marked(lambda mark, value: mark.data.copy_(mark + value)), IMAGE)
    with pytest.raises(GraphError, match=r"_foreach_add_: .* writes into tensors that it is given"):
        capture(Marked(lambda mark, value: torch._foreach_add_([mark, mark], 1.0)), IMAGE)


def test_numbers_and_shapes_that_values_decide_are_refused_by_layer() -> None:
    with pytest.raises(GraphError, match=r"mul: forward\(\) takes a number out of a tensor"):
        capture(_called(lambda x: x * x.mean().item()), IMAGE)
    with pytest.raises(GraphError, match=r"index: aten.index.Tensor gives as many items as the values of a tensor ask"):
        capture(_called(lambda x: x[x > 0].sum()), IMAGE)


def test_a_number_of_groups_that_is_the_batch_follows_it() -> None:
    """As in networks that make a weight for every sample."""

    def modulated(x: Tensor) -> Tensor:
        weight = x.mean((2, 3))[:, :, None, None].expand(-1, -1, 1, 1).reshape(-1, 1, 1, 1)
        return F.conv2d(x.reshape(1, -1, 8, 8), weight, groups=len(x) * 3).view_as(x)

    with pytest.warns(OpaqueLayerWarning, match="conv2d"):
        graph = capture(_called(modulated), IMAGE)
    assert graph["conv2d"].options["arguments"]["groups"] == {"batch": 3}


def test_whose_dtype_a_tensor_takes_has_no_part_in_its_dims() -> None:
    graph = capture(_called(lambda x: x + torch.ones(1, 3, 8, 8, dtype=torch.float64).type_as(x)), IMAGE)
    assert [layer.kind for layer in graph if layer.shape[:1] == (1,)] == [Kind.DERIVED] * 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.multiply(2).subtract(x).divide(3).negative().absolute().clip(0, 1),
        lambda x: x * ((x > 0) & (x < 1) | (x < -1)),
        lambda x: torch.concatenate([x, x.sinh()], 1).broadcast_to(len(x), 6, 8, 8).mT,
        lambda x: F.normalize(x, p=1) * x.prod(1, keepdim=True),
        lambda x: F.one_hot(x.argmax(1), 3) * F.cosine_similarity(x, x.exp(), dim=1)[..., None],
        lambda x: x.scatter_add(1, x.argsort(1), x),
    ],
)
def test_other_names_and_kin_of_known_operators_are_sliced_by_sample(function: Callable[[Tensor], Tensor]) -> None:
    graph = capture(_called(function), IMAGE)
    assert all(Dim.N in sliceable_dims(layer) for layer in graph)


def test_a_mask_that_is_changed_in_place_is_changed_under_all_its_names() -> None:
    def masked(x: Tensor) -> Tensor:
        mask = x > 0
        same = mask
        mask &= x < 1
        return x * same

    graph = capture(_called(masked), IMAGE)
    assert "bitwise_and" in graph[graph["mul"].inputs[1]].options["op"]


def test_numbers_for_dims_apart_put_the_batch_elsewhere() -> None:
    numbers = torch.tensor([0, 1])
    with pytest.warns(OpaqueLayerWarning, match="index"):
        graph = capture(_called(lambda x: x[:, numbers, :, numbers].transpose(0, 1)), IMAGE)
    assert graph["index"].dims == ".n."


def test_a_concat_of_one_tensor_is_the_tensor() -> None:
    assert names(capture(_called(lambda x: torch.cat([x.exp()])), IMAGE)) == ["x", "exp", "output"]


def test_widths_that_look_like_the_batch_that_capture_uses_are_no_batch() -> None:
    graph = capture(nn.Sequential(nn.Conv2d(3, 211, 1), nn.Conv2d(211, 422, 1)), IMAGE)
    assert graph.with_batch(4)["1"].shape == (4, 422, 8, 8)


def test_a_size_that_comes_from_the_batch_follows_it_through_an_unknown_operator() -> None:
    with pytest.warns(OpaqueLayerWarning, match=r"aten.as_strided"):
        graph = capture(_called(lambda x: x.as_strided((x.shape[0], 3, 4), (192, 64, 1))), IMAGE)
    assert graph["as_strided"].options["arguments"]["size"] == [{"batch": 1}, 3, 4]
    assert graph.with_batch(8)["as_strided"].shape == (8, 3, 4)


def test_a_channel_shuffle_keeps_samples_and_space_sliceable() -> None:
    class Shuffle(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            n, c, h, w = x.shape
            return x.view(n, 2, c // 2, h, w).transpose(1, 2).flatten(1, 2)

    graph = capture(Shuffle(), torch.zeros(2, 4, 6, 6))
    assert [layer.dims for layer in graph] == ["NFHW", "NF.HW", "N.FHW", "N.HW", "N.HW"]
    assert graph.with_batch(8)["view"].shape == (8, 2, 2, 6, 6)


def test_a_batch_mixed_with_other_dims_is_refused_in_the_users_own_sizes() -> None:
    class Merge(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            n, c, h, w = x.shape
            return torch.relu(x.transpose(0, 1).reshape(c * n, h, w)).view(c, n, h, w).transpose(0, 1)

    with pytest.raises(GraphError, match=r"view \(aten.view.default\): a dim of 4 mixes the batch with other dims"):
        capture(Merge(), torch.zeros(2, 4, 6, 6))

    class Returned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x.flatten(0, 1))

    with pytest.raises(GraphError, match=r"relu: forward\(\) returns a dim of 4 x the batch"):
        capture(Returned(), torch.zeros(2, 4, 6, 6))


def test_samples_that_are_compared_with_each_other_are_refused() -> None:
    with pytest.raises(GraphError, match=r"matmul .* compares samples with each other: .* in the loss"):
        capture(_called(lambda x: x @ x.t()), torch.zeros(2, 6))


@pytest.mark.parametrize("mode", ["nearest-exact", "nearest"])
@pytest.mark.parametrize("space", [(4,), (4, 4), (4, 4, 4)])
def test_nearest_upsampling_is_known_under_the_name_that_torch_gives_it(mode: str, space: tuple[int, ...]) -> None:
    graph = capture(nn.Upsample(scale_factor=2, mode=mode), torch.zeros(2, 3, *space))
    assert graph.layers[1].kind is Kind.UPSAMPLE
    assert len(graph.layers[1].windows) == len(space)


@pytest.mark.parametrize(
    ("function", "dims"),
    [
        (lambda x: x.topk(2, dim=2)[0], "NF.W"),
        (lambda x: x.sort(-1)[0], "NFH."),
        (lambda x: torch.fft.rfft2(x).real, "NF.."),
        (lambda x: torch.fft.fft(x, dim=1).real, "N.HW"),
        (lambda x: x.unfold(2, 2, 2), "NF.W."),
        (lambda x: nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True), "NF.."),
    ],
)
def test_what_mixes_dims_of_a_sample_is_sliced_along_the_others(
    function: Callable[[Tensor], Tensor], dims: str
) -> None:
    assert capture(_called(function), IMAGE).layers[1].dims == dims


@pytest.mark.parametrize("function", [lambda x: x.sort(0)[0], lambda x: torch.fft.fftn(x).real])
def test_what_mixes_samples_is_opaque(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.warns(OpaqueLayerWarning):
        assert capture(_called(function), IMAGE).layers[1].kind is Kind.OPAQUE


def test_complex_numbers_have_gradients_and_a_size_of_their_own() -> None:
    model = nn.Sequential(nn.Linear(6, 6), _called(lambda x: torch.view_as_real(torch.fft.rfft(x)).flatten(1)))
    graph = capture(model, torch.zeros(2, 6))
    assert graph["1.fft_rfft"].own_bytes == 8
    assert "1.fft_rfft" in graph.gradients


def test_repeated_heads_are_sliced_with_the_heads_they_repeat() -> None:
    graph = capture(_called(lambda x: x.repeat_interleave(3, dim=1)), IMAGE)
    assert [layer.dims for layer in graph] == ["NFHW", "NF.HW", "NF.HW", "NFHW", "N.HW"]
    assert graph.layers[3].shape == (2, 9, 8, 8)


def test_windows_of_an_image_stand_in_the_batchs_place_and_scale_with_it() -> None:
    class Windows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            n, c, h, w = x.shape
            windows = x.view(n, c, 2, h // 2, w).transpose(1, 2).reshape(n * 2, c, h // 2, w)
            return torch.relu(windows).view(n, 2, c, h // 2, w)

    graph = capture(Windows(), torch.zeros(3, 4, 6, 6))
    assert [layer.dims for layer in graph] == ["NFHW", "NFH.W", "NHF.W", "NF.W", "NF.W", "N.F.W", "N...W"]
    assert [layer.shape[0] for layer in graph.with_batch(5)] == [5, 5, 5, 10, 10, 5, 5]
    assert LayerGraph.from_json(graph.to_json()) == graph


def test_the_first_reader_of_an_input_says_where_its_channels_are() -> None:
    sequence = capture(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4)), torch.zeros(2, 6, 8))
    assert [layer.dims for layer in sequence] == ["NWF", "NWF", "NWF", "NW."]
    assert capture(nn.Conv1d(6, 4, 1), torch.zeros(2, 6, 8)).layers[0].dims == "NFW"
    words = capture(nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 4)), torch.zeros(2, 6, dtype=torch.long))
    assert [layer.dims for layer in words] == ["NW", "NWF", "NWF", "NW."]
    assert words["0"].weights[0].dims == "CF"


@pytest.mark.parametrize("training", [True, False])
def test_torchs_attention_keeps_samples_in_a_dim_of_their_own(training: bool) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train(training)
    graph = (capture if training else capture_as_is)(model, torch.zeros(3, 6, 8))
    kinds = Counter(layer.kind for layer in graph)
    assert (kinds[Kind.ATTENTION], kinds[Kind.LINEAR], kinds[Kind.OPAQUE]) == (1, 4, 0)
    assert graph["self_attn.scaled_dot_product_attention"].shape == (3, 2, 6, 4)
    assert F.multi_head_attention_forward.__module__ == "torch.nn.functional"


def test_capture_leaves_every_module_in_its_own_mode_and_sees_frozen_parts() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1))
    model[1].eval()
    model[0].requires_grad_(False)
    graph = capture(model, IMAGE)
    assert [module.training for module in model] == [True, False, True]
    assert graph["1"].options["arguments"]["training"] is False
    assert [weight.trained for weight in graph.weights] == [False, False, True, True, True, True]
    assert graph.gradients == {"1", "2", "output"}


def test_a_large_constant_is_refused_with_what_would_work() -> None:
    with pytest.raises(GraphError, match=r"reads a large constant; make it a buffer \(register_buffer\)"):
        capture(_called(lambda x: x + torch.tensor([1.0] * 70_000).sum()), IMAGE)


def test_a_constant_number_is_a_number() -> None:
    graph = capture(_called(lambda x: x - torch.tensor([1.5])), IMAGE)
    assert graph["sub"].options["arguments"]["other"] == 1.5


def test_a_roll_is_a_window_of_one_position_that_goes_round() -> None:
    class Rolled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.roll(torch.roll(x, (3, -2, 9), (2, 3, 1)), 7, 2)

    graph = capture(Rolled(), torch.zeros(2, 8, 10, 6))
    first, second = (layer for layer in graph if layer.kind is Kind.ROLL)
    assert first.dims == second.dims == "NFHW"
    assert {dim: window.padding for dim, window in first.windows.items()} == {"F": 1, "H": 3, "W": -2}
    assert {dim: window.padding for dim, window in second.windows.items()} == {"H": -3}  # the nearer way round
    assert all(window.wraps and window.kernel == 1 for layer in (first, second) for window in layer.windows.values())


def test_a_roll_by_whole_turns_is_nothing() -> None:
    class Rolled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.roll(torch.roll(x, 20, 2), 1, 1) * 2

    graph = capture(Rolled(), torch.zeros(2, 8, 10))
    (roll,) = (layer for layer in graph if layer.kind is Kind.ROLL)
    assert roll.options["arguments"] == {"dims": [1], "shifts": [1]}
