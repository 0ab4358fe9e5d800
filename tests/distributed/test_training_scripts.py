"""What training scripts do with a network beside calling it: each must work as it does under DDP."""

import copy
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils.checkpoint import checkpoint

from slicewise.errors import PlanError
from slicewise.graph.capture import capture
from slicewise.graph.chunks import with_local_statistics
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.runtime.counting import CountCollectives
from slicewise.runtime.memory import peak_bytes
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.comparing import flat_mesh, my_share, random_slicings, whole
from tests.distributed.world import World

SAMPLE = (8, 3, 12, 12)


class Net(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),  # a bias before a norm has no gradient but noise
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(inplace=True),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(dropout), nn.Linear(256, 12), nn.ReLU(), nn.Linear(12, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(self.features(x))
        return out


def _model(dropout: float = 0.0) -> Net:
    torch.manual_seed(3)
    return Net(dropout).double()


def _graph(model: nn.Module) -> LayerGraph:
    return capture(copy.deepcopy(model).float(), torch.zeros(SAMPLE))


def _sliced(model: nn.Module, seed: int, **options: Any) -> SlicedModule:
    """The network under a random plan."""
    graph = _graph(model)
    return SlicedModule(copy.deepcopy(model), graph, random_slicings(graph, flat_mesh(), seed), flat_mesh(), **options)


def _batch(samples: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, *SAMPLE[1:], generator=generator, dtype=torch.float64)
    return x, torch.randint(6, (samples,), generator=generator)


def _loss(net: nn.Module, samples: int = 8, seed: int = 0) -> Tensor:
    x, t = _batch(samples, seed)
    if isinstance(net, SlicedModule):
        x, t = my_share(x), my_share(t)
    return F.cross_entropy(net(x), t)


def _difference(net: SlicedModule, model: nn.Module, *, gradients: bool = False) -> float:
    """Of weights and running statistics, or of gradients, relative to the largest."""
    worst = 0.0
    held = dict(net.named_parameters()) | dict(net.named_buffers())
    for name, value in (*model.named_parameters(), *([] if gradients else model.named_buffers())):
        mine, wanted = (held[name].grad, value.grad) if gradients else (held[name], value)
        if wanted is None:
            assert mine is None, name
            continue
        difference = (whole(mine) - wanted).detach().abs().max() / (1 + wanted.detach().abs().max())
        worst = max(worst, float(difference))
    return worst


# ---- gradients without a sync


def test_backward_passes_under_no_sync_add_up_and_are_summed_by_the_next(world: World) -> None:
    assert max(world.run(_accumulated, seed) for seed in range(3)) < 1e-12


def _accumulated(seed: int) -> float:
    model = _model()
    net = _sliced(model, seed)
    with net.no_sync():
        _loss(net, seed=1).backward()
        _loss(net, seed=2).backward()
    _loss(net, seed=3).backward()
    with net.no_sync():  # after gradients that are complete already
        _loss(net, seed=4).backward()
    for number in range(1, 5):
        _loss(model, seed=number).backward()
    return _difference(net, model, gradients=True)  # a Partial gradient is summed when somebody asks for the whole


def test_nothing_is_sent_for_weights_under_no_sync(pair: World) -> None:
    inside, outside = pair.run(_sync_messages)
    assert inside == 0 < outside


def _sync_messages() -> tuple[int, int]:
    model = _model()
    graph = with_local_statistics(_graph(model), dist.get_world_size())
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    net = SlicedModule(model, graph, slicings, flat_mesh())
    with CountCollectives() as inside, net.no_sync():
        _loss(net).backward()
    with CountCollectives() as outside:
        _loss(net).backward()
    return sum(inside.collectives.values()), sum(outside.collectives.values())


# ---- recomputing activations


@pytest.mark.parametrize("way", ["plan", "script"])
def test_activations_computed_again_give_the_same_training(world: World, way: str) -> None:
    assert max(world.run(_recomputed, way, seed) for seed in range(3)) < 1e-12


def _recomputed(way: str, seed: int) -> float:
    model = _model()
    net = _sliced(model, seed, recompute=way == "plan")
    ours, theirs = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, t = _batch(seed=step)
        logits = checkpoint(net, my_share(x), use_reentrant=False) if way == "script" else net(my_share(x))
        F.cross_entropy(logits, my_share(t)).backward()
        F.cross_entropy(model(x), t).backward()
        for optimizer in (ours, theirs):
            optimizer.step()
            optimizer.zero_grad()
    return _difference(net, model)


def test_dropout_masks_of_a_recomputed_pass_are_those_of_the_first(pair: World) -> None:
    assert pair.run(_recomputed_masks) < 1e-12


def _recomputed_masks() -> float:
    """Two passes in flight, then their backwards: each must find its own masks again."""
    gradients = []
    for recompute in (False, True):
        net = _sliced(_model(dropout=0.5), 1, recompute=recompute)
        losses = [_loss(net, seed=1), _loss(net, seed=2)]
        for loss in losses:
            loss.backward()
        gradients.append([whole(parameter.grad) for parameter in net.parameters()])
    return max(float((one - other).abs().max()) for one, other in zip(*gradients, strict=True))


def test_recomputing_keeps_fewer_bytes(pair: World) -> None:
    for kept, recomputed in pair.run_each(_peaks):
        assert recomputed < 0.75 * kept


def _peaks() -> tuple[int, ...]:
    blocks = [(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Sigmoid()) for _ in range(6)]
    model = nn.Sequential(*(layer for block in blocks for layer in block))
    graph = capture(model, torch.zeros(4, 8, 32, 32))
    slicings: dict[str, Slicing] = {
        layer.name: (Dim.H if layer.kind in (Kind.CONV, Kind.NORM) else Dim.N,) for layer in graph
    }
    peaks = []
    for recompute in (False, True):
        net = SlicedModule(copy.deepcopy(model), graph, slicings, flat_mesh(), recompute=recompute)
        x = torch.randn(2, 8, 32, 32)
        step = partial(_backward, net, x)
        peaks.append(peak_bytes(step, net.parameters(), x.device))
    return tuple(peaks)


def _backward(net: nn.Module, x: Tensor) -> None:
    net(x).sum().backward()


# ---- moving


def test_a_network_may_be_moved_to_where_it_is_and_nowhere_else(pair: World) -> None:
    same, cast, moved = pair.run(_moved)
    assert same
    assert "before parallelize" in cast
    assert "before parallelize" in moved


def _moved() -> tuple[bool, str, str]:
    net = _sliced(_model(), 1)
    told = []
    for move in (net.float, lambda: net.to("meta")):
        try:
            move()
            told.append("")
        except PlanError as error:
            told.append(str(error))
    return net.to("cpu") is net and net.double() is net, told[0], told[1]


# ---- narrow types


def test_autocast_trains_as_it_does_on_one_device(pair: World) -> None:
    ours, theirs, dtype = pair.run(_autocast)
    assert dtype == torch.bfloat16
    # both round to bf16 at every layer, at different places: losses agree to its three digits
    assert all(abs(one - other) < 0.02 * other for one, other in zip(ours, theirs, strict=True))
    assert ours[-1] < 0.7 * ours[0]


def _autocast() -> tuple[list[float], list[float], torch.dtype]:
    model = _model().float()
    net = _sliced(model, 5)
    histories: list[list[float]] = []
    for trained, share in ((net, my_share), (model, lambda x: x)):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        history = []
        for _ in range(12):
            x, t = _batch()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = trained(share(x.float()))
                loss = F.cross_entropy(logits, share(t))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            if trained is net:
                dist.all_reduce(total)
                total /= dist.get_world_size()
                dtype = logits.dtype
            history.append(float(total))
        histories.append(history)
    return histories[0], histories[1], dtype


# ---- optimizers and clipping

TAKES = {
    "ASGD": {},
    "Adadelta": {},
    "Adagrad": {},
    "Adam": {},
    "AdamW": {"amsgrad": True},
    "Adamax": {},
    "LBFGS": {},
    "Muon": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
}


@pytest.mark.parametrize("name", TAKES)
def test_optimizers_take_the_steps_they_take_on_one_device(pair: World, name: str) -> None:
    assert pair.run(_optimized, name, TAKES[name]) < 1e-11


def _optimized(name: str, options: dict[str, Any]) -> float:
    model = _model()
    net = _sliced(model, 7)
    for trained in (net, model):
        chosen = [p for p in trained.parameters() if p.dim() == 2 or name != "Muon"]  # Muon takes matrices alone
        optimizer = getattr(torch.optim, name)(chosen, lr=0.05, **options)

        def gradients(step: int, trained: nn.Module = trained) -> float:
            trained.zero_grad()
            _loss(trained, seed=step).backward()
            nn.utils.clip_grad_norm_(trained.parameters(), 0.5)
            return 1.0  # LBFGS compares losses; ranks' own would part their ways

        for step in range(3):
            optimizer.step(partial(gradients, step))
    return _difference(net, model)


def test_an_optimizer_made_before_parallelize_is_refused(pair: World) -> None:
    told, trained_plain = pair.run(_early_optimizer)
    assert "net.parameters()" in told
    assert trained_plain


def _early_optimizer() -> tuple[str, bool]:
    """The model itself may still be trained, beside the network that was made of it."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = _graph(model)
    net = SlicedModule(model, graph, random_slicings(graph, flat_mesh(), 7), flat_mesh())
    _loss(net).backward()
    told = ""
    try:
        optimizer.step()
    except PlanError as error:
        told = str(error)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    _loss(model).backward()
    optimizer.step()
    changed = [bool((one != other).any()) for one, other in zip(before, model.parameters(), strict=True)]
    return told, all(changed)


@pytest.mark.parametrize("name", ["Adafactor", "Rprop"])
def test_optimizers_that_do_not_take_sharded_weights_are_refused_by_name(pair: World, name: str) -> None:
    told = pair.run(_refused_optimizer, name)
    assert name in told
    assert "AdamW" in told


def _refused_optimizer(name: str) -> str:
    net = _sliced(_model(), 7)
    optimizer = getattr(torch.optim, name)(net.parameters())
    _loss(net).backward()
    try:
        optimizer.step(lambda: _loss(net))
    except PlanError as error:
        return str(error)
    return ""


# ---- state


def test_a_plain_state_dict_is_loaded_by_parts(world: World) -> None:
    assert world.run(_loaded_plain) == 0.0


def _loaded_plain() -> float:
    other = _model()
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            tensor += 1
    net = _sliced(_model(), 2)
    net.load_state_dict(other.state_dict())
    return _difference(net, other)


def test_a_state_dict_with_other_shapes_or_names_is_refused_as_torch_does_it(pair: World) -> None:
    told = pair.run(_loaded_wrong)
    assert "classifier.2.weight" in told
    assert "extra" in told


def _loaded_wrong() -> str:
    state = _model().state_dict()
    state["classifier.2.weight"] = torch.zeros(3, 3)
    state["extra"] = torch.zeros(1)
    try:
        _sliced(_model(), 2).load_state_dict(state)
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_checkpoint_goes_to_another_plan_and_to_the_plain_model_and_back(world: World) -> None:
    assert world.run(_through_checkpoints) == (0.0, 0.0, 0.0, 0.0)


def _through_checkpoints() -> tuple[float, ...]:
    """Weights and optimizer state, from one plan to another to the plain model and back."""
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, src=0)
    path = Path(folder[0])
    model = _model()
    first = _sliced(model, 1)
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9)
    _loss(first).backward()
    optimizer.step()
    _save(path / "first", first.state_dict())
    trained = get_model_state_dict(first, options=StateDictOptions(full_state_dict=True))

    second = _sliced(_model(), 2)
    _load(path / "first", second)
    plain = _model()
    _load(path / "first", plain)
    from_plain = _sliced(_model(), 3)
    _save(path / "plain", plain.state_dict())
    _load(path / "plain", from_plain)
    full = _model()
    if trained:
        full.load_state_dict(trained)
    return (
        _difference(second, plain),
        _difference(from_plain, plain),
        _difference(first, plain),
        _difference(first, full),
    )


def _save(path: Path, state: dict[str, Any]) -> None:
    save({"model": state}, checkpoint_id=path)


def _load(path: Path, net: nn.Module) -> None:
    state = {"model": net.state_dict()}
    load(state, checkpoint_id=path)
    net.load_state_dict(state["model"])


def test_a_checkpoint_of_two_ranks_goes_to_four_and_to_none(worlds: dict[int, World]) -> None:
    from tests.distributed.conftest import world_of

    folder = tempfile.mkdtemp()
    trained = world_of(worlds, 2).run(_saved, folder)
    assert world_of(worlds, 4).run(_restored, folder) == trained
    plain = _model()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        _load(Path(folder), plain)
    assert float(sum(parameter.detach().sum() for parameter in plain.parameters())) == pytest.approx(trained, abs=1e-8)


def _saved(folder: str) -> float:
    net = _sliced(_model(), 4)
    _loss(net).backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    _save(Path(folder), net.state_dict())
    return _sum(net)


def _restored(folder: str) -> float:
    net = _sliced(_model(), 5)
    _load(Path(folder), net)
    return _sum(net)


def _sum(net: SlicedModule) -> float:
    return round(sum(float(whole(parameter).detach().sum()) for parameter in net.parameters()), 9)


# ---- models without memory


def test_a_model_on_the_meta_device_is_made_by_parts_equal_on_all_ranks_and_under_all_plans(world: World) -> None:
    assert world.run(_from_meta) == 0.0


def _from_meta() -> float:
    with torch.device("meta"):
        model = Net().double()
    one, other = _sliced_meta(model, 1), _sliced_meta(model, 2)
    loss = _loss(one)
    loss.backward()
    return max(
        float((whole(mine) - whole(theirs)).detach().abs().max())
        for mine, theirs in zip(one.parameters(), other.parameters(), strict=True)
    )


def _sliced_meta(model: nn.Module, seed: int, **options: Any) -> SlicedModule:
    graph = capture(Net(), torch.zeros(SAMPLE))
    return SlicedModule(model, graph, random_slicings(graph, flat_mesh(), seed), flat_mesh(), **options)


def test_no_rank_ever_holds_more_than_one_module_of_a_model_on_the_meta_device(pair: World) -> None:
    for largest, peak, total in pair.run_each(_meta_memory):
        assert peak < total / 2 + 2.5 * largest  # its own half, and the module in the making with a copy or two


def _meta_memory() -> tuple[int, int, int]:
    with torch.device("meta"):
        model = nn.Sequential(nn.Flatten(), *(nn.Linear(256, 256) for _ in range(12)))
    graph = capture(model, torch.zeros(4, 256, device="meta"))
    slicings: dict[str, Slicing] = {layer.name: (Dim.F if layer.kind is Kind.LINEAR else Dim.N,) for layer in graph}
    peak = peak_bytes(lambda: SlicedModule(model, graph, slicings, flat_mesh()), [], torch.device("cpu"))
    sizes = [sum(p.numel() * 4 for p in layer.parameters()) for layer in model]
    return max(sizes), peak, sum(sizes)


def test_a_module_that_cannot_make_its_weights_is_named(pair: World) -> None:
    told, made = pair.run(_without_reset)
    assert "Scale has no reset_parameters" in told
    assert made == 3.0


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def _without_reset() -> tuple[str, float]:
    graph = capture(Scale(), torch.zeros(4, 3, 4, 4))
    slicings = random_slicings(graph, flat_mesh(), 0)
    with torch.device("meta"):
        model = Scale()
    try:
        SlicedModule(model, graph, slicings, flat_mesh())
        told = ""
    except PlanError as error:
        told = str(error)

    def ones(module: nn.Module) -> None:
        for parameter in module.parameters(recurse=False):
            nn.init.ones_(parameter)

    made = SlicedModule(model, graph, slicings, flat_mesh(), initialize=ones)
    return told, float(whole(made.get_parameter("factor")).detach().sum())


# ---- other batches and sizes


def test_a_smaller_last_batch_and_other_image_sizes_run_under_the_same_slicings(world: World) -> None:
    assert world.run(_other_sizes) < 1e-11


def _other_sizes() -> float:
    model = _model()
    graph = _graph(model)

    worst = 0.0
    for seed in range(2):
        net = SlicedModule(copy.deepcopy(model), graph, random_slicings(graph, flat_mesh(), seed), flat_mesh())
        reference = copy.deepcopy(model)
        for shape in ((8, 3, 12, 12), (4, 3, 12, 12), (8, 3, 20, 16)):
            x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
            got, wanted = net(my_share(x)), reference(x)
            got.square().mean().backward()
            wanted.square().mean().backward()
            worst = max(worst, float((got - my_share(wanted)).detach().abs().max()))
        worst = max(worst, _difference(net, reference, gradients=True), _difference(net, reference))
    return worst


# ---- local batch norms


def test_local_running_statistics_are_those_of_ddp(pair: World) -> None:
    assert pair.run(_local_statistics) < 1e-12


def _local_statistics() -> float:
    model = _model()
    ddp = nn.parallel.DistributedDataParallel(copy.deepcopy(model))
    graph = with_local_statistics(_graph(model), dist.get_world_size())
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    net = SlicedModule(model, graph, slicings, flat_mesh())
    x, t = _batch()
    for trained in (net, ddp):
        for _ in range(3):
            F.cross_entropy(trained(my_share(x)), my_share(t)).backward()
        trained.eval()
    ours, theirs = net(my_share(x)), ddp(my_share(x))
    return float((ours - theirs).detach().abs().max()) + _difference(net, ddp.module)
