"""Pipelines on real ranks: the numbers of one device with the same micro-batches, and exactly the predicted bytes."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.pipelining import PipelineStage
from torch.utils._python_dispatch import TorchDispatchMode

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import Training
from slicewise.equality.numerics import check_numerics
from slicewise.errors import InfeasibleError, PlanError, RequestError
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.zoo import VGG, AlexNet, DenseNet, ResNet, UNet3d
from slicewise.partition.stages import Cuts
from slicewise.planning import pipeline_plan
from slicewise.plans.plan import Plan
from slicewise.runtime.memory import peak_bytes
from slicewise.runtime.pipeline import _SCHEDULES, Pipeline, pipeline
from slicewise.simulate.schedules import simulate_schedule
from tests.builders import machine, stage_cost
from tests.campaigns import sample
from tests.distributed.world import World

TOLERANCE = 1e-10
STEPS = 5
BATCH = 8

Factory = Callable[[], nn.Module]


class Scalings(nn.Sequential):
    """Stages that begin with what works in place, hands its input on, and with a view."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(4),
            nn.Dropout(0.0),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 5),
        )


class Chain(nn.Sequential):
    def __init__(self) -> None:
        layers = [layer for filters in (3, 8, 8, 8, 8) for layer in (nn.Conv2d(filters, 8, 3, padding=1), nn.ReLU())]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


# name -> the network, and the shape of a sample
NETWORKS: dict[str, tuple[Factory, tuple[int, ...]]] = {
    "alexnet": (lambda: AlexNet(classes=8, dropout=0.0, width=8, hidden=64), (3, 224, 224)),
    "vgg": (lambda: VGG([[4, 4], [8, 8], [8]], classes=6, dropout=0.0, hidden=16), (3, 32, 32)),
    "resnet": (lambda: ResNet((1, 1, 1, 1), classes=6, width=4), (3, 64, 64)),
    "densenet": (lambda: DenseNet((2, 2), classes=6, growth=4), (3, 32, 32)),
    "scalings": (Scalings, (3, 8, 8)),
    "chain": (Chain, (3, 32, 32)),
}


def _made(
    name: str, ranks: int, schedule: str, micro_batches: int = 4, training: Training | None = None
) -> tuple[nn.Module, LayerGraph, Plan]:
    torch.manual_seed(1)
    factory, shape = NETWORKS[name]
    model = factory()
    graph = capture(model, torch.zeros(2, *shape))
    made = pipeline_plan(
        graph,
        machine(ranks),
        batch=BATCH,
        schedule=schedule,
        micro_batches=micro_batches,
        training=training or Training(),
    )
    return model, graph, made


def _samples(graph: LayerGraph, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, *graph.inputs[0].shape[1:], generator=generator, dtype=dtype)
    return x, torch.randint(graph.outputs[0].shape[1], (BATCH,), generator=generator)


def _reference_step(model: nn.Module, x: Tensor, target: Tensor, micro_batches: int) -> Tensor:
    """One device, one micro-batch after the other."""
    losses = []
    for some_x, some_targets in zip(x.chunk(micro_batches), target.chunk(micro_batches), strict=True):
        loss = F.cross_entropy(model(some_x), some_targets) / micro_batches
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


def _pass(net: Pipeline, x: Tensor, target: Tensor) -> Tensor:
    """Each rank passes only what it has."""
    return net.step(x if net.first else None, target if net.last else None)


def _worst(differences: Mapping[str, float]) -> dict[str, float]:
    """Of all ranks."""
    every: list[dict[str, float]] = [{}] * dist.get_world_size()
    dist.all_gather_object(every, dict(differences))
    return {name: value for rank in every for name, value in rank.items() if not value <= TOLERANCE}


def _everything(net: Pipeline) -> dict[str, Tensor]:
    """All stages' states together."""
    every: list[dict[str, Tensor]] = [{}] * dist.get_world_size()
    dist.all_gather_object(every, dict(net.state_dict()))
    return {name: value for rank in every for name, value in rank.items()}


@pytest.mark.parametrize(
    ("name", "schedule"),
    sample(
        product([name for name in NETWORKS if name != "chain"], ["gpipe", "1f1b"]),
        quick=[("resnet", "1f1b"), ("scalings", "gpipe")],
    ),
)
def test_a_pipeline_trains_as_one_device_does_with_micro_batches(world: World, name: str, schedule: str) -> None:
    assert world.run(_train, name, world.ranks, schedule) == {}


def test_so_do_four_stages(quartet: World) -> None:
    assert quartet.run(_train, "vgg", 4, "1f1b") == {}


def _train(name: str, ranks: int, schedule: str, training: Training | None = None) -> dict[str, float]:
    """Losses, gradients, running statistics and weights over five steps; what differs too much, by name."""
    model, graph, plan = _made(name, ranks, schedule, training=training)
    reference = copy.deepcopy(model).double().train()
    net = pipeline(copy.deepcopy(reference), plan, loss=F.cross_entropy, graph=graph)
    optimizers = [torch.optim.SGD(held, lr=0.05, momentum=0.9) for held in (reference.parameters(), _weights(net))]
    differences = {}
    for step in range(STEPS):
        x, target = _samples(graph, seed=step)
        for optimizer in optimizers:
            optimizer.zero_grad()
        expected, given = _reference_step(reference, x, target, 4), _pass(net, x, target)
        differences[f"loss {step}"] = abs(float(given - expected) / float(expected))
        gradients = {held: p.grad for held, p in reference.named_parameters() if p.grad is not None}
        scale = max(float(gradient.abs().max()) for gradient in gradients.values())
        for held, parameter in net.named_parameters():
            assert parameter.grad is not None, held
            differences[f"{held}.grad {step}"] = float((parameter.grad - gradients[held]).abs().max()) / scale
        for optimizer in optimizers:
            optimizer.step()
    wanted = reference.state_dict()
    for held, value in net.state_dict().items():
        differences[held] = float((value - wanted[held]).abs().max())
    assert set(_everything(net)) == set(wanted), "the stages together are not the model"
    return _worst(differences)


def _weights(net: Pipeline) -> list[nn.Parameter]:
    return list(net.parameters()) or [nn.Parameter(torch.zeros(1))]  # a stage may have none


def test_computing_again_in_backward_changes_nothing(pair: World) -> None:
    assert pair.run(_train, "densenet", 2, "1f1b", Training(recompute=True)) == {}


def test_evaluation_gives_the_last_rank_the_whole_batch_in_any_size(pair: World) -> None:
    assert pair.run(_evaluate) == {}


def _evaluate() -> dict[str, float]:
    model, graph, plan = _made("densenet", 2, "1f1b")
    reference = copy.deepcopy(model).double().train()
    net = pipeline(copy.deepcopy(reference), plan, loss=F.cross_entropy, graph=graph)
    x, target = _samples(graph)
    differences = {}
    for turn in range(2):  # training and evaluation in turn
        _reference_step(reference, x, target, 4)
        _pass(net, x, target)
        reference.eval()
        net.eval()
        for samples in (8, 3, 4):
            output = net.evaluate(x[:samples] if net.first else None, batch=samples)
            assert (output is not None) == net.last
            if output is not None:
                differences[f"{turn} {samples}"] = float((output - reference(x[:samples]).detach()).abs().max())
        reference.train()
        net.train()
    return _worst(differences)


class _CountSent(TorchDispatchMode):
    """Bytes that this rank hands to the process group, sends and broadcasts alike."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_bytes = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            name = func._schema.name.removeprefix("c10d::").strip("_")
            assert name in ("send", "recv_", "recv", "broadcast"), name
            if name != "recv":
                share = (dist.get_world_size() - 1) / dist.get_world_size() if name == "broadcast" else 1
                self.sent_bytes += share * sum(tensor.numel() * tensor.element_size() for tensor in args[0])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("frozen", sample(["nothing", "first", "stem"], quick=["stem"]))
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_bytes_that_are_sent_are_those_predicted(world: World, schedule: str, frozen: str) -> None:
    counted, predicted = world.run(_bytes, world.ranks, schedule, frozen)
    assert counted == predicted


def _bytes(ranks: int, schedule: str, frozen: str) -> tuple[int, int]:
    """A gradient goes back only where something before the cut is trained."""
    torch.manual_seed(1)
    factory, shape = NETWORKS["vgg"]
    model = factory()
    for name, parameter in model.named_parameters():
        if name.startswith({"nothing": " ", "first": "features.0", "stem": "features"}[frozen]):
            parameter.requires_grad_(False)
    graph = capture(model, torch.zeros(2, *shape))
    plan = pipeline_plan(graph, machine(ranks), batch=BATCH, schedule=schedule, micro_batches=4)
    net = pipeline(model, plan, loss=F.cross_entropy, graph=graph)
    x, target = _samples(graph, torch.float32)
    _pass(net, x, target)  # the first step also agrees on how to begin
    with _CountSent() as counting:
        _pass(net, x, target)
    for name, parameter in net.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    total = torch.tensor([counting.sent_bytes], dtype=torch.float64)
    dist.all_reduce(total)
    return round(total.item()), plan.predicted["bytes_moved"]


def test_narrow_plans_send_narrow_tensors_and_keep_wide_weights(pair: World) -> None:
    counted, predicted, made = pair.run(_narrow)
    assert counted == predicted
    assert made == 0, "a stage is one device's: it needs no process group"


def _narrow() -> tuple[int, int, int]:
    torch.manual_seed(1)
    factory, shape = NETWORKS["vgg"]
    model = factory()
    graph = capture(model, torch.zeros(2, *shape))
    cluster = load_cluster("dgx-a100").with_devices(2)
    plan = pipeline_plan(graph, cluster, batch=BATCH, micro_batches=4, training=Training(dtype="bf16"))
    groups = len(dist.distributed_c10d._world.pg_map)
    net = pipeline(model, plan, loss=F.cross_entropy, graph=graph)
    x, target = _samples(graph, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        first = _pass(net, x, target)
        with _CountSent() as counting:
            _pass(net, x, target)
    assert all(parameter.grad is not None and parameter.grad.dtype == torch.float32 for parameter in net.parameters())
    assert abs(float(first - _reference_step(model, x, target, 4))) < 0.01
    total = torch.tensor([counting.sent_bytes], dtype=torch.float64)
    dist.all_reduce(total)
    made = len(dist.distributed_c10d._world.pg_map) - groups
    return round(total.item()), plan.predicted["bytes_moved"], made


def test_gradients_add_up_over_steps_as_they_do_without_a_pipeline(pair: World) -> None:
    assert pair.run(_accumulate) == {}


def _accumulate() -> dict[str, float]:
    model, graph, plan = _made("vgg", 2, "1f1b")
    reference = copy.deepcopy(model).double().train()
    net = pipeline(copy.deepcopy(reference), plan, loss=F.cross_entropy, graph=graph)
    for seed in range(2):
        _reference_step(reference, *_samples(graph, seed=seed), 4)
        _pass(net, *_samples(graph, seed=seed))
    wanted = dict(reference.named_parameters())
    return _worst(
        {name: float((p.grad - wanted[name].grad).abs().max()) for name, p in net.named_parameters()}  # type: ignore[operator]
    )


class TwoInputs(nn.Module):
    """Two inputs, one convolution that is used twice and has two names, and a head with a running state."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)
        self.twice = nn.Conv2d(4, 4, 3, padding=1)
        self.again = self.twice
        self.unused = nn.Linear(2, 2)
        self.head = nn.Sequential(nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        joined = self.left(a) * self.right(b)
        result: Tensor = self.head(torch.tanh(self.again(torch.tanh(self.twice(joined)))))
        return result


def test_several_inputs_and_shared_weights_stay_within_a_stage(pair: World) -> None:
    assert pair.run(_two_inputs) == {}


def _two_inputs() -> dict[str, float]:
    torch.manual_seed(1)
    model = TwoInputs()
    graph = capture(model, (torch.zeros(2, 3, 8, 8), torch.zeros(2, 2, 8, 8)))
    plan = pipeline_plan(graph, machine(2), batch=BATCH, micro_batches=4)
    reference = copy.deepcopy(model).double().train()
    net = pipeline(copy.deepcopy(reference), plan, loss=F.cross_entropy, graph=graph)
    a, b = (torch.randn(BATCH, channels, 8, 8, dtype=torch.float64) for channels in (3, 2))
    target = torch.arange(BATCH) % 5
    for some in range(4):
        part = slice(2 * some, 2 * some + 2)
        (F.cross_entropy(reference(a[part], b[part]), target[part]) / 4).backward()
    net.step((a, b) if net.first else None, target if net.last else None)
    wanted = dict(reference.named_parameters())
    assert set(_everything(net)) == set(reference.state_dict())
    return _worst(
        {
            name: float((p.grad - wanted[name].grad).abs().max())  # type: ignore[operator]
            for name, p in net.named_parameters()
            if not name.startswith("unused")
        }
    )


def test_micro_batches_draw_different_masks_and_steps_too(pair: World) -> None:
    assert pair.run(_masks) == (True, True, True)


def _masks() -> tuple[bool, bool, bool]:
    """A network that is its dropout: equal samples come out alike only under equal masks."""
    model = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.Dropout(0.5), nn.Conv2d(1, 1, 1, bias=False))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    graph = capture(model, torch.zeros(1, 1, 8, 8))
    plan = pipeline_plan(graph, machine(2), batch=2, schedule="gpipe", micro_batches=2)
    seen: list[Tensor] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        seen.append(output.detach().clone())
        return output.sum() * 0

    net = pipeline(model, plan, loss=loss, graph=graph, seed=3)
    for _ in range(2):
        net.step(torch.ones(2, 1, 8, 8), torch.zeros(2))
    told: list[Any] = [None]
    if net.last:
        others = [bool((seen[0] != other).any()) for other in seen[1:3]]
        told = [(*others, set(seen[0].unique().tolist()) == {0.0, 2.0})]
    dist.broadcast_object_list(told, src=1)
    result: tuple[bool, bool, bool] = told[0]
    return result


def test_a_state_goes_into_the_model_and_back(pair: World) -> None:
    pair.run(_states)


def _states() -> None:
    model, graph, plan = _made("densenet", 2, "gpipe")
    net = pipeline(copy.deepcopy(model), plan, loss=F.cross_entropy, graph=graph)
    _pass(net, *_samples(graph, torch.float32))
    merged = _everything(net)
    model.load_state_dict(merged)
    other = pipeline(NETWORKS["densenet"][0](), plan, loss=F.cross_entropy, graph=graph)
    other.load_state_dict(model.state_dict())
    for name, value in other.state_dict().items():
        assert torch.equal(value, merged[name])
    held = sum(p.numel() for p in net.parameters())
    assert 0 < held < sum(p.numel() for p in model.parameters())
    with pytest.raises(PlanError, match=r"stage \d misses .* in the given state"):
        other.load_state_dict({})


def test_a_checkpoint_is_read_by_a_pipeline_with_other_cuts(pair: World, tmp_path: Path) -> None:
    pair.run(_checkpoint, str(tmp_path))


def _checkpoint(folder: str) -> None:
    model, graph, plan = _made("densenet", 2, "1f1b")
    net = pipeline(model, plan, loss=F.cross_entropy, graph=graph)
    _pass(net, *_samples(graph, torch.float32))
    save(net.state_dict(), checkpoint_id=folder)
    cuts = Cuts(graph)
    assert plan.pipeline is not None
    first, second = plan.pipeline.stages
    moved = {**first, "last": graph.layers[cuts.legal[1]].name}
    other_plan = replace(plan, pipeline=replace(plan.pipeline, stages=(moved, second)))
    other = pipeline(NETWORKS["densenet"][0](), other_plan, loss=F.cross_entropy, graph=graph)
    assert set(other.state_dict()) != set(net.state_dict())
    state = other.state_dict()
    load(state, checkpoint_id=folder)
    other.load_state_dict(state)
    wanted, given = _everything(net), _everything(other)
    assert all(torch.equal(given[name], value) for name, value in wanted.items())


def test_a_model_on_the_meta_device_never_exists_as_a_whole(pair: World) -> None:
    pair.run(_meta)


def _meta() -> None:
    _, graph, plan = _made("densenet", 2, "1f1b")
    with torch.device("meta"):
        model = NETWORKS["densenet"][0]()
    net = pipeline(model, plan, loss=F.cross_entropy, graph=graph)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert all(not parameter.is_meta for parameter in net.parameters())
    assert torch.isfinite(_pass(net, *_samples(graph, torch.float32)))


def test_what_cannot_run_is_refused_in_one_line(pair: World) -> None:
    pair.run(_refusals)


def _refusals() -> None:
    model, graph, plan = _made("vgg", 2, "1f1b")
    assert plan.pipeline is not None
    loss = F.cross_entropy
    with pytest.raises(PlanError, match="this plan slices layers and has no pipeline"):
        pipeline(model, replace(plan, pipeline=None), loss=loss, graph=graph)
    with pytest.raises(PlanError, match="the plan is for 4 devices, this world has 2 ranks; start 4 ranks"):
        pipeline(model, _made("vgg", 4, "1f1b")[2], loss=loss, graph=graph)
    with pytest.raises(RequestError, match=r"forward\(\) fails on samples of shape \(3, 32, 32\)"):
        pipeline(nn.Linear(2, 2), plan, loss=loss, graph=graph)
    with pytest.raises(PlanError, match="the plan is not for this model"):
        pipeline(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 6)), plan, loss=loss, graph=graph)
    net = pipeline(model, plan, loss=loss, graph=graph)
    x, target = _samples(graph, torch.float32)
    with pytest.raises(PlanError, match="6 samples do not divide into the plan's 4 micro-batches"):
        net.step(x[:6], target[:6])
    with pytest.raises(PlanError, match=r"inputs and targets of different numbers of samples \(\[4, 8\]\)"):
        net.step(x, target[:4])
    with pytest.raises(PlanError, match=r"the plan is for samples of shape \(3, 32, 32\), .* has \(3, 16, 16\)"):
        net.step(x[..., :16, :16], target)
    with pytest.raises(PlanError, match="pass it detached"):
        net.step(x.clone().requires_grad_(), target)
    with pytest.raises(PlanError, match="a stage cannot be moved or cast"):
        net.module.double()
    dist.barrier()


def test_a_unet_has_too_few_cuts_for_many_stages() -> None:
    graph = capture(UNet3d(width=4, depth=1), torch.zeros(2, 1, 8, 8, 8))
    with pytest.raises(InfeasibleError, match=r"cuts into \d+ stages at most, one tensor going on behind each; 32 dev"):
        pipeline_plan(graph, machine(32), batch=32)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_torch_takes_turns_as_simulated(world: World, schedule: str) -> None:
    taken, simulated = world.run(_turns, schedule)
    assert taken == simulated


class _Turn(torch.autograd.Function):
    """Notes when a micro-batch comes by, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, taken: list[str]) -> Tensor:
        ctx.taken, ctx.index = taken, sum(name.startswith("F") for name in taken)
        taken.append(f"F{ctx.index}")
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.taken.append(f"B{ctx.index}")
        return gradients[0], None


class _Noting(nn.Linear):
    taken: list[str]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _Turn.apply(super().forward(x), self.taken)
        return y


def _turns(schedule: str) -> tuple[list[list[str]], list[list[str]]]:
    rank, ranks, count = dist.get_rank(), dist.get_world_size(), 7
    module = _Noting(2, 2)
    module.taken = []
    between = torch.empty(1, 2, device="meta", requires_grad=True)
    stage = PipelineStage(module, rank, ranks, torch.device("cpu"), input_args=between, output_args=between)
    runner = _SCHEDULES[schedule](stage, count, loss_fn=F.mse_loss)
    x = torch.zeros(count, 2)
    runner.step(*([x] if rank == 0 else []), target=x if rank == ranks - 1 else None, return_outputs=False)
    every: list[list[str]] = [[]] * ranks
    dist.all_gather_object(every, module.taken)
    costs = stage_cost(forward_s=1.0, backward_s=2.0, output_s=0.1, gradient_s=0.1)
    timeline = simulate_schedule([costs] * ranks, schedule, count)
    return every, [[turn.name for turn in timeline.turns if turn.stage == number] for number in range(ranks)]


def test_memory_is_as_predicted_within_five_percent(pair: World) -> None:
    gpipe, one_one = (pair.run(_memory, schedule) for schedule in ("gpipe", "1f1b"))
    for measured, predicted in (gpipe, one_one):
        assert measured == pytest.approx(predicted, rel=0.05)
    assert one_one[0] < gpipe[0]


def _memory(schedule: str) -> tuple[int, int]:
    """The most bytes that live on any rank in its first step, which makes torch's buffers too."""
    model, graph, plan = _made("chain", 2, schedule, micro_batches=8)
    net = pipeline(model, plan, loss=F.cross_entropy, graph=graph)
    x, target = _samples(graph, torch.float32)
    mine = peak_bytes(lambda: _pass(net, x, target), net.module.state_dict().values(), torch.device("cpu"))
    every = [0] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return max(every), plan.predicted["peak_memory_bytes"]


def test_the_check_passes_for_a_pipeline_and_fails_for_another_network(pair: World) -> None:
    right, wrong = pair.run(_checked)
    assert right["passed"]
    assert right["max_relative_error"] < TOLERANCE
    assert right["batch"] % 4 == 0
    assert not wrong["passed"]
    assert wrong["worst"] == "classifier.bias"


def _checked() -> tuple[dict[str, Any], dict[str, Any]]:
    model, graph, plan = _made("densenet", 2, "1f1b")
    without_bias = tuple(
        replace(layer, options={**layer.options, "arguments": {**layer.options["arguments"], "bias": None}})
        if layer.name == "classifier"
        else layer
        for layer in graph
    )
    other = LayerGraph(name=graph.name, layers=without_bias)
    return check_numerics(model, graph, plan).to_dict(), check_numerics(model, other, plan).to_dict()


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("rest", "layer1: a stage is in one mode as a whole; call eval() on parts before pipeline()"),
        ("freeze", "conv1.weight: requires_grad has changed; freeze weights before slicewise.pipeline"),
    ],
)
def test_what_a_stage_cannot_follow_is_refused_by_name(pair: World, act: str, said: str) -> None:
    first, second = pair.run_each(_changed_stage, act)
    assert said in first
    assert second == "accepted"  # nothing of its own has changed


def _changed_stage(act: str) -> str:
    model, _, made = _made("resnet", 2, "gpipe")
    net = pipeline(model, made, loss=F.cross_entropy)
    stage = net.module
    if act == "rest" and net.first:
        stage.get_submodule("layer1").training = False
    if act == "freeze" and net.first:
        stage.get_parameter("conv1.weight").requires_grad_(False)
    try:
        stage._check_unchanged()
    except PlanError as error:
        return str(error)
    return "accepted"


def test_norms_that_rest_before_the_pipeline_is_made_stay_at_rest(pair: World) -> None:
    assert pair.run(_resting_norms) < 1e-6


def _resting_norms() -> float:
    model, graph, made = _made("resnet", 2, "gpipe")
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    reference = copy.deepcopy(model)
    x, target = _samples(graph, torch.float32)
    wanted = _reference_step(reference, x, target, 4)
    return float((pipeline(model, made, loss=F.cross_entropy).step(x, target) - wanted).abs())


def test_ranks_with_other_micro_batches_or_schedules_all_raise(pair: World) -> None:
    assert "the micro-batches is another on rank 1" in pair.run(_other_pipelines, {"micro_batches": 2})
    assert "the schedule is another on rank 1" in pair.run(_other_pipelines, {"schedule": "gpipe"})


def _other_pipelines(change: dict[str, Any]) -> str:
    model, graph, plan = _made("chain", 2, "1f1b")
    if dist.get_rank():
        assert plan.pipeline is not None
        plan = replace(plan, pipeline=replace(plan.pipeline, **change))
    with pytest.raises(PlanError) as told:
        pipeline(model, plan, loss=F.cross_entropy, graph=graph)
    return str(told.value)
