"""What a training script may rely on."""

import warnings

import torch
import torch.distributed as dist
from torch import nn

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.equality.numerics import check_numerics
from slicewise.errors import PlanError
from slicewise.graph.capture import OpaqueLayerWarning, capture
from slicewise.graph.dims import Dim
from slicewise.partition.layout import Slicing
from slicewise.planning import describe
from slicewise.plans.plan import Plan
from slicewise.runtime.clock import Clock, running
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.gradient_sync import GradientSync
from slicewise.runtime.parallel import parallelize
from slicewise.runtime.sliced_module import SlicedModule
from tests.builders import machine
from tests.distributed.world import World
from tests.pricing import cost_of


def test_a_plan_for_another_world_size_is_refused_with_what_would_work(pair: World) -> None:
    assert pair.run(_refusal, 4, "0") == (
        "the plan is for 4 devices, this world has 2 ranks; start 4 ranks, or plan again with `devices=2`"
    )


def test_a_plan_for_another_network_is_refused_by_layer_name(pair: World) -> None:
    assert "no slicing for: 0; unknown layers: other" in pair.run(_refusal, 2, "other")


def test_every_rank_starts_from_the_weights_of_rank_zero(pair: World) -> None:
    assert pair.run(_starts_equal)


def test_dropout_masks_agree_where_work_is_repeated_and_differ_between_slices(pair: World) -> None:
    repeated, sliced, kept = pair.run(_dropout)
    assert repeated
    assert not sliced
    assert abs(kept - 0.5) < 0.05


def test_eval_runs_without_dropout(pair: World) -> None:
    assert pair.run(_evaluates)


def test_frozen_weights_and_weights_the_loss_does_not_reach_get_no_gradient(pair: World) -> None:
    assert pair.run(_partly_trained) == ["first.weight"]


def test_an_input_that_wants_a_gradient_is_refused(pair: World) -> None:
    assert "gradients of the input are not computed" in pair.run(_wants_input_gradient)


def test_samples_of_another_shape_are_refused(pair: World) -> None:
    assert "the network does not take samples of shape [(5,)]" in pair.run(_other_shape)


def test_moving_or_casting_a_sliced_network_is_refused(pair: World) -> None:
    assert "do that to the model before parallelize" in pair.run(_cast)


def test_an_opaque_random_layer_agrees_between_ranks_and_rests_in_eval(pair: World) -> None:
    agree, rests = pair.run(_opaque)
    assert agree
    assert rests


def test_ranks_record_the_same_spans_even_where_only_some_cut_their_input(pair: World) -> None:
    assert pair.run(_spans) == [["halo"] * 3, ["halo"] * 3]  # two forward, one backward


def test_gradients_that_somebody_keeps_are_not_overwritten(pair: World) -> None:
    kept, overwritten = pair.run(_kept_gradients)
    assert kept == ["first.weight", "right.weight", "right.bias"]
    assert overwritten == []


def test_the_output_can_be_changed_in_place_and_state_keeps_the_models_own_names(pair: World) -> None:
    assert pair.run(_own_names) == ["linear.weight", "linear.bias"]


def test_a_dropout_that_is_off_in_training_stays_off(pair: World) -> None:
    assert pair.run(_dropout_off) == 1.0


def test_frozen_weights_are_neither_predicted_nor_sent(pair: World) -> None:
    predicted, counted = pair.run(_frozen_bytes)
    assert counted == predicted > 0


def test_the_check_fails_on_gradients_that_are_not_numbers(pair: World) -> None:
    passed, worst = pair.run(_poisoned_check)
    assert not passed
    assert worst == "0.weight"


def test_a_norm_of_one_value_per_channel_is_refused_in_training_as_torch_does(pair: World) -> None:
    assert "0: one value per channel has no variance; train with a larger batch" in pair.run(_one_value)


def _one_value() -> str:
    model = nn.Sequential(nn.BatchNorm1d(4))
    graph = capture(model, torch.zeros(4, 4)).with_batch(1)
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (None,))
    net = SlicedModule(model, graph, slicings, Mesh.of({"local": 2}))
    with torch.no_grad():
        net.eval()(torch.zeros(1, 4))
    try:
        net.train()(torch.zeros(1, 4))
    except PlanError as error:
        return str(error)
    return "accepted"


class _TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        return self.left(x), self.right(x)


def _two_heads() -> tuple[SlicedModule, nn.Module]:
    torch.manual_seed(0)
    model = _TwoHeads()
    model.first.bias.requires_grad_(False)
    model.left.requires_grad_(False)
    graph = capture(model, torch.zeros(2, 4)).with_batch(4)
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    return SlicedModule(model, graph, slicings, Mesh.of({"local": 2})), model


def _partly_trained() -> list[str]:
    net, model = _two_heads()
    x = torch.arange(16.0).reshape(4, 4)
    share = x[2 * dist.get_rank() : 2 * dist.get_rank() + 2]
    net(share)[0].square().mean().backward()
    model(x)[0].square().mean().backward()
    weights = dict(net.named_parameters())
    with_gradient = [name for name, weight in weights.items() if weight.grad is not None]
    for name in with_gradient:
        expected = dict(model.named_parameters())[name].grad
        torch.testing.assert_close(weights[name].grad.full_tensor(), expected)  # type: ignore[union-attr]
    return with_gradient


def _wants_input_gradient() -> str:
    net, _ = _two_heads()
    try:
        net(torch.zeros(2, 4, requires_grad=True))
    except PlanError as error:
        return str(error)
    return "accepted"


def _other_shape() -> str:
    net, _ = _two_heads()
    try:
        net(torch.zeros(2, 5))
    except PlanError as error:
        return str(error)
    return "accepted"


def _cast() -> str:
    net, _ = _two_heads()
    try:
        net.double()
    except PlanError as error:
        return str(error)
    return "accepted"


def _opaque() -> tuple[bool, bool]:
    model = nn.Sequential(nn.Conv2d(2, 8, 1), nn.Dropout2d(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpaqueLayerWarning)
        graph = capture(model, torch.zeros(2, 2, 4, 4)).with_batch(3)
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (None,))
    net = SlicedModule(model, graph, slicings, Mesh.of({"local": 2}), seed=123_456_789)
    x = torch.ones(3, 2, 4, 4)
    torch.manual_seed(dist.get_rank())
    mine = net(x).to_local().detach()
    both = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(both, mine)
    with torch.no_grad():
        return torch.equal(*both), torch.equal(net.eval()(x).to_local(), model[0](x))


def _spans() -> list[list[str]]:
    """A strided pointwise convolution cuts its input on some ranks only; the 3x3 one before it exchanges on all."""
    model = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 1, stride=2))
    graph = capture(model, torch.zeros(1, 2, 14, 8))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.H,))
    slicings[graph.inputs[0].name] = (None,)
    net = SlicedModule(model, graph, slicings, Mesh.of({"local": 2}))
    clock = Clock()
    with running(clock):
        net(torch.randn(1, 2, 14, 8)).to_local().sum().backward()
    halos = [span.term for span in clock.spans if span.term == "halo"]
    lists: list[list[str]] = [[], []]
    dist.all_gather_object(lists, halos)
    return lists


def _kept_gradients() -> tuple[list[str], list[str]]:
    """The weights whose gradients were kept, and those of them whose kept gradient another pass has changed."""
    net, _ = _two_heads()
    net(torch.ones(2, 4))[1].sum().backward()
    kept = {name: p.grad.to_local() for name, p in net.named_parameters() if p.grad is not None}  # type: ignore[attr-defined]
    before = {name: gradient.clone() for name, gradient in kept.items()}
    net.zero_grad()
    net(torch.full((2, 4), 7.0))[1].sum().backward()
    return list(kept), [name for name, gradient in kept.items() if not torch.equal(gradient, before[name])]


class _WithTable(nn.Module):
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("table", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        return y


def _sliced(model: nn.Module, *shape: int) -> SlicedModule:
    graph = capture(model, torch.zeros(4, *shape))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    return SlicedModule(model, graph, slicings, Mesh.of({"local": 2}))


def _own_names() -> list[str]:
    net = _sliced(_WithTable(), 4)
    y = net(torch.ones(2, 4))
    y /= 2
    y.sum().backward()
    return list(net.state_dict())


class _DropoutOff(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(self.scale(x), 0.5, training=False)


def _dropout_off() -> float:
    model = _DropoutOff()
    nn.init.ones_(model.scale.weight)
    return float((_sliced(model, 4)(torch.ones(2, 4)) == 4).float().mean())


def _frozen_bytes() -> tuple[int, int]:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model[0].requires_grad_(False)
    graph = capture(model, torch.zeros(4, 4))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    predicted = cost_of(AnalyticModel(graph, machine(2)), slicings).bytes_moved
    net = SlicedModule(model, graph, slicings, Mesh.of({"local": 2}))
    with CountCollectives() as counted:
        net(torch.ones(2, 4)).sum().backward()
    return predicted, round(2 * counted.sent_bytes)


def _poisoned_check() -> tuple[bool, str]:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    graph = capture(model, torch.zeros(4, 4), name="poisoned")
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    plan = describe(AnalyticModel(graph, machine(2)), slicings)
    honest = GradientSync._hand_out

    def poison(self: GradientSync, name: str, gradient: torch.Tensor) -> None:
        honest(self, name, gradient * float("nan") if name == "0.weight" else gradient)

    GradientSync._hand_out = poison  # type: ignore[method-assign]
    try:
        check = check_numerics(model, graph, plan)
    finally:
        GradientSync._hand_out = honest  # type: ignore[method-assign]
    return check.passed, check.worst


def _refusal(devices: int, layer: str) -> str:
    model = nn.Sequential(nn.Linear(4, 4))
    graph = capture(model, torch.zeros(2, 4))
    slicing: Slicing = (Dim.N,) * (devices // 2)
    names = [graph.layers[0].name, layer, graph.layers[-1].name]
    plan = Plan(
        model="none",
        cluster="none",
        devices=devices,
        batch=4,
        axes={f"local{axis}": 2 for axis in range(devices // 2)},
        slicings=dict.fromkeys(names, slicing),
    )
    try:
        parallelize(model, plan, graph=graph)
    except PlanError as error:
        return str(error)
    return "accepted"


def _starts_equal() -> bool:
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(4, 4))
    graph = capture(model, torch.zeros(2, 4)).with_batch(4)
    net = SlicedModule(model, graph, dict.fromkeys(graph.index, (Dim.N,)), Mesh.of({"local": 2}))
    torch.manual_seed(0)
    expected = nn.Linear(4, 4).weight
    return torch.equal(net.state_dict()["0.weight"].full_tensor(), expected)


def _dropout() -> tuple[bool, bool, float]:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    graph = capture(model, torch.zeros(2, 4)).with_batch(63)
    mesh = Mesh.of({"local": 2})
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (None,))
    equal = []
    for choice in (None, Dim.N):
        slicings["1"] = slicings["output"] = (choice,)
        net = SlicedModule(model, graph, slicings, mesh)
        torch.manual_seed(0)
        mask = (net(torch.randn(63, 4)).to_local() != 0).float()[:31]
        masks = [torch.empty_like(mask) for _ in range(2)]
        dist.all_gather(masks, mask.contiguous())
        equal.append(torch.equal(*masks))
    return equal[0], equal[1], float(mask.mean())


def _evaluates() -> bool:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    graph = capture(model, torch.zeros(2, 4)).with_batch(4)
    net = SlicedModule(model, graph, dict.fromkeys(graph.index, (Dim.N,)), Mesh.of({"local": 2})).eval()
    x = torch.randn(2, 4)
    weights = net.state_dict()
    expected = torch.nn.functional.linear(x, weights["0.weight"].to_local(), weights["0.bias"].to_local())
    return torch.equal(net(x), expected)
