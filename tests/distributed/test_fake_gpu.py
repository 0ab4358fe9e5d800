"""The runtime on a device that is not the CPU: every tensor on it, and no step makes the host wait.

One rank at a time on torch's fake process group, with tensors of no content (tests/fake_gpu.py), in a process of its
own: a process that has an accelerator has it for good.
"""

import multiprocessing as mp
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import slicewise as sw
from slicewise.cluster.cluster import Cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.zoo import VGG, AlexNet, CosmoFlow, DenseNet, InceptionV3, LeNet5, ResNet, TextCNN, UNet3d, ViT
from slicewise.graph.zoo.diffusion_unet import DiffusionUNet
from slicewise.graph.zoo.swin import Swin
from slicewise.graph.zoo.swin_unetr import SwinUNETR
from slicewise.graph.zoo.unetr import UNETR3d
from slicewise.graph.zoo.weather_swin import WeatherSwin
from slicewise.partition.layout import Slicing
from slicewise.runtime.kernels import Context
from slicewise.runtime.sliced_module import SlicedModule
from slicewise.search.baselines import BASELINES
from tests import fake_gpu
from tests.builders import machine
from tests.distributed.comparing import random_slicings

# narrow: shapes and operators matter; the layers are all there
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lenet5": (LeNet5, (1, 32, 32)),
    "alexnet": (lambda: AlexNet(classes=8, width=8, hidden=64), (3, 224, 224)),
    "vgg": (lambda: VGG(((16,), (32,), (64,), (64,), (64,)), classes=8, hidden=64), (3, 224, 224)),
    "resnet": (lambda: ResNet(blocks=(1, 1, 1, 1), classes=8, width=8), (3, 128, 128)),
    "densenet": (lambda: DenseNet((2, 2, 2, 2), classes=8, growth=8), (3, 128, 128)),
    "inception_v3": (lambda: InceptionV3(classes=8), (3, 299, 299)),
    "textcnn": (TextCNN, (300, 64)),
    "unet3d": (lambda: UNet3d(width=4), (1, 32, 32, 32)),
    "cosmoflow": (lambda: CosmoFlow(width=4, hidden=64, volume=(160, 160, 160)), (4, 160, 160, 160)),
    "tokens": (lambda: _Tokens(), (16, 32)),
    "vit": (lambda: ViT((2, 4, 16, 32), classes=8, image=64), (3, 64, 64)),
    "swin": (lambda: Swin((32, (2, 2), (16, 16)), classes=8, image=256, patch=2, window=4), (3, 256, 256)),
    "unetr": (lambda: UNETR3d((4, 4, 16, 32), 4, classes=2, volume=32), (1, 32, 32, 32)),
    "swin_unetr": (lambda: SwinUNETR(12, (2, 1), (3, 3), classes=2, volume=32, window=4), (1, 32, 32, 32)),
    "weather_swin": (lambda: WeatherSwin(3, 16, (2, 2, 1), 2, image=(33, 32), window=2), (3, 33, 32)),
    "diffusion_unet": (lambda: DiffusionUNet((32, 32), (0, 2), blocks=1), (4, 16, 16)),
}
STRATEGIES = (*BASELINES, "layerwise", "random")
WAYS = ("recomputed", "autocast", "bf16", "local norms", "trained")


class _Tokens(nn.Module):
    """Attention that drops scores, looks at the past alone, and a norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.join = nn.Linear(32, 96), nn.Linear(32, 8)
        self.norm, self.drop = nn.LayerNorm(32), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.embed(x).view(len(x), 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        joined: Tensor = self.join(self.drop(self.norm(y.transpose(1, 2).flatten(2)))).mean(1)
        return joined


@pytest.fixture(scope="module")
def device() -> Iterator[Callable[..., Any]]:
    """Calls a function of this file in a process that has the device."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed.tensor"])
    with ProcessPoolExecutor(1, mp_context=context, initializer=_install) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def _install() -> None:
    torch.set_num_threads(1)
    fake_gpu.install()
    # torch 2.13 has no generators for a backend in Python
    Context.generator = lambda context, stream: None  # type: ignore[assignment, method-assign, return-value]


def test_the_device_refuses_what_waits_and_what_lies_elsewhere(device: Callable[..., Any]) -> None:
    assert device(_refused) == [*["Synchronisation"] * 3, *["WrongDevice"] * 2, "RuntimeError"]


def _refused() -> list[str]:
    x = torch.empty(4, device=fake_gpu.NAME)
    mixed = torch.zeros(4)
    attempts: list[Callable[[], object]] = [
        x.sum().item,
        x.cpu,
        lambda: x[x > 0],
        lambda: torch.zeros(4),
        _go_back,
        lambda: x + mixed,
    ]
    return [_kind_of_failure(attempt) for attempt in attempts]


def _go_back() -> None:
    """Backward runs on a thread of the engine, as on GPUs; what is refused there is raised here."""
    x = torch.empty(4, device=fake_gpu.NAME, requires_grad=True)
    y = x * 2
    refused: list[fake_gpu.WrongDevice] = []

    def make(_: Tensor) -> None:
        try:
            torch.zeros(4)
        except fake_gpu.WrongDevice as error:
            refused.append(error)

    y.register_hook(make)
    y.sum().backward()
    raise refused[0]


def _kind_of_failure(attempt: Callable[[], object]) -> str:
    try:
        with fake_gpu.hot():
            attempt()
    except (AssertionError, RuntimeError) as error:
        return type(error).__name__
    return "nothing"


QUICK = [
    ("lenet5", "owt", "trained"),
    ("resnet", "data", "local norms"),
    ("resnet", "spatial", "autocast"),
    ("tokens", "layerwise", "plain"),
    ("tokens", "random", "bf16"),
    ("unet3d", "spatial", "recomputed"),
]


@pytest.mark.parametrize(("name", "strategy", "way"), QUICK)
def test_a_step_stays_on_the_device_and_never_waits_for_it(
    name: str, strategy: str, way: str, device: Callable[..., Any]
) -> None:
    assert device(_steps, name, strategy, way, 4, (1,))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("ranks", [2, 8, 64])
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_of_all_networks_and_strategies_do_on_2_to_64_ranks(
    name: str, ranks: int, device: Callable[..., Any]
) -> None:
    chosen = (0, ranks - 1) if ranks < 64 else (ranks // 3,)
    done = [strategy for strategy in STRATEGIES if device(_steps, name, strategy, "plain", ranks, chosen)]
    assert {"filter", "layerwise", "random"} <= set(done)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NETWORKS)
def test_all_networks_and_strategies_do_in_every_way(name: str, way: str, device: Callable[..., Any]) -> None:
    done = [strategy for strategy in STRATEGIES if device(_steps, name, strategy, way, 8, (5,))]
    assert {"filter", "layerwise", "random"} <= set(done)


def _steps(name: str, strategy: str, way: str, ranks: int, chosen: tuple[int, ...]) -> bool:
    """Two steps on each chosen rank, the second watched; whether the strategy exists for the network."""
    training = Training(batchnorm="local") if way == "local norms" else Training()
    graph, cluster = training.normalised(_graph(name).with_batch(ranks), ranks), machine(ranks)
    try:
        slicings = _slicings(strategy, graph, cluster)
    except InfeasibleError:
        return False
    for rank in chosen:
        with fake_gpu.rank_of(rank, ranks):
            _step(name, graph, slicings, cluster, way)
    return True


@cache
def _graph(name: str) -> LayerGraph:
    build, shape = NETWORKS[name]
    return capture(build(), torch.zeros(2, *shape), name=name)


def _slicings(strategy: str, graph: LayerGraph, cluster: Cluster) -> dict[str, Slicing]:
    if strategy == "random":
        return random_slicings(graph, cluster.mesh, 0)
    if strategy == "layerwise":
        return dict(sw.plan(graph, cluster, gap=0.1, time_limit=10).slicings)
    return BASELINES[strategy](AnalyticModel(graph, cluster))


def _step(name: str, graph: LayerGraph, slicings: dict[str, Slicing], cluster: Cluster, way: str) -> None:
    dtype = torch.bfloat16 if way == "bf16" else torch.float32
    with torch.device("meta"):  # weights are not looked at; drawing them takes longer than a step
        model = NETWORKS[name][0]()
    model = model.to_empty(device=fake_gpu.NAME).to(dtype)
    net = SlicedModule(model, graph, slicings, cluster.mesh, recompute=way == "recomputed")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    batch = graph.batch // cluster.devices if net.local_samples else graph.batch
    x = torch.empty(batch, *graph.inputs[0].shape[1:], dtype=dtype, device=fake_gpu.NAME)
    target = torch.zeros((batch, *graph.outputs[0].shape[2:]), dtype=torch.int64, device=fake_gpu.NAME)

    def step() -> None:
        with torch.autocast(fake_gpu.NAME, torch.bfloat16) if way == "autocast" else nullcontext():
            output = net(x)
            loss = F.cross_entropy(output, target if net.local_samples else net.shard(target))
        loss.backward()
        if way == "trained":
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        optimizer.zero_grad()

    def look() -> None:
        with torch.no_grad():
            net(x)

    step()
    with fake_gpu.hot():
        step()
    net.eval()
    look()
    with fake_gpu.hot():
        look()
