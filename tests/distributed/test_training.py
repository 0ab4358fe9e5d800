"""Five optimizer steps of every network of the zoo on two ranks: the losses and weights of one device."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

import slicewise as sw
from slicewise.cluster.cluster import Tier
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.zoo import (
    VGG,
    ZOO,
    AlexNet,
    CosmoFlow,
    DenseNet,
    DiffusionUNet,
    InceptionV3,
    LeNet5,
    ResNet,
    Swin,
    SwinUNETR,
    TextCNN,
    UNet3d,
    UNETR3d,
    ViT,
    WeatherSwin,
)
from slicewise.graph.zoo.resnet import RESNET101, RESNET152
from slicewise.partition.layout import Slicing
from slicewise.runtime.sliced_module import SlicedModule
from tests.builders import machine
from tests.distributed.comparing import LAST_BIT, random_slicings, relative, whole
from tests.distributed.world import World

# Losses and weights in float64, each relative to its tensor's largest value. Steps of a deep network amplify the last
# bit of its input: what they make of that on one device is the measure of what rounding may do. Once that is CHAOTIC,
# an activation next to zero may fall on the other side of it, and weights differ by more than any multiple.
TOLERANCE = 1e-11
AMPLIFIED = 100
CHAOTIC = 1e-9
STEPS, FEWEST = 5, 2
NARROW = ((2,) * 2, (4,) * 2, (8,) * 3, (8,) * 3, (8,) * 3)

# name -> (build, shape of a sample, batch): the zoo's own layers, with fewer channels and no dropout
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "alexnet": (partial(AlexNet, classes=5, dropout=0.0, width=4, hidden=32), (3, 128, 128), 4),
    "alexnet_optcnn": (partial(AlexNet, classes=5, dropout=0.0, width=4, hidden=32, pool_padding=1), (3, 96, 96), 4),
    "cosmoflow": (partial(CosmoFlow, inputs=1, width=2, hidden=256, volume=(152,) * 3), (1, 152, 152, 152), 1),
    "densenet121": (partial(DenseNet, classes=5, growth=4), (3, 64, 64), 4),
    "diffusion_unet": (partial(DiffusionUNet, (32, 32), (0, 2), blocks=1), (4, 16, 16), 4),
    "inception_v3": (partial(InceptionV3, classes=5, dropout=0.0), (3, 107, 107), 4),
    "lenet5": (LeNet5, (1, 32, 32), 4),
    "resnet50": (partial(ResNet, classes=5, width=8), (3, 64, 64), 4),
    "resnet101": (partial(ResNet, RESNET101, classes=5, width=8), (3, 64, 64), 4),
    "resnet152": (partial(ResNet, RESNET152, classes=5, width=8), (3, 64, 64), 4),
    "swin_t": (partial(Swin, (8, (2, 2), (2, 4)), classes=5, image=32, patch=2, window=4), (3, 32, 32), 4),
    "swin_unetr": (partial(SwinUNETR, 12, (2, 1), (3, 3), classes=2, volume=16, window=4), (1, 16, 16, 16), 1),
    "textcnn": (partial(TextCNN, embedding=20, filters=8, dropout=0.0), (20, 24), 4),
    "unet3d": (partial(UNet3d, width=4), (1, 16, 16, 16), 1),
    "unetr": (partial(UNETR3d, (4, 4, 16, 32), 4, classes=2, volume=32), (1, 32, 32, 32), 1),
    "vgg16": (partial(VGG, NARROW, classes=5, dropout=0.0, hidden=32), (3, 64, 64), 4),
    "vit_b_16": (partial(ViT, (2, 4, 32, 64), classes=5, image=64), (3, 64, 64), 4),
    "vit_l_16": (partial(ViT, (4, 8, 64, 128), classes=5, image=64), (3, 64, 64), 4),
    "weather_swin": (partial(WeatherSwin, 3, 16, (2, 2, 1), 2, image=(33, 32), window=2), (3, 33, 32), 1),
}
# links so quick that slicing pays even for networks this narrow
QUICK = replace(machine(2), tiers=(Tier(name="local", size=2, latency_s=1e-9, bytes_per_s=1e13),))
HEAVY = (
    "alexnet_optcnn",
    "vgg16",
    "cosmoflow", "densenet121", "diffusion_unet", "inception_v3", "resnet50", "resnet101", "resnet152", "swin_t",
    "swin_unetr", "unet3d", "unetr", "vit_l_16", "weather_swin",
)  # fmt: skip


def test_the_whole_zoo_is_trained() -> None:
    assert set(NETWORKS) == set(ZOO)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] if n in HEAVY else []) for n in NETWORKS])
def test_five_steps_give_the_losses_and_weights_of_one_device(name: str, pair: World) -> None:
    graph = _network(name)[1]
    best = dict(sw.plan(graph, QUICK, gap=0.1).slicings)
    assert sum(slicing != (None,) for slicing in best.values()) > len(graph) / 2  # not the work of one device, twice
    plans = {"layerwise": best, "random": random_slicings(graph, QUICK.mesh, 1)}
    found = pair.run(_trained, name, plans)
    rounding = found.pop("one device, last bit")
    assert max(rounding[FEWEST - 1]) > 0, "nothing of the input reaches the weights"
    judged = [step for step in range(STEPS) if step < FEWEST or max(rounding[step]) < CHAOTIC]
    for label, distances in ("one device, last bit", rounding), *found.items():
        loss, weights = distances[judged[-1]]
        print(f"{name}, {label}, step {judged[-1] + 1}: loss {loss:.0e}, weights {weights:.0e}")
        for step in judged:
            for distance, amplified in zip(distances[step], rounding[step], strict=True):
                assert distance <= max(TOLERANCE, AMPLIFIED * amplified), f"{label}, step {step + 1}"


def _network(name: str) -> tuple[nn.Module, LayerGraph]:
    build, shape, batch = NETWORKS[name]
    torch.manual_seed(0)
    model = build().double()
    return model, capture(model, torch.zeros(2, *shape, dtype=torch.float64), name=name).with_batch(batch)


def _trained(name: str, plans: dict[str, dict[str, Slicing]]) -> dict[str, list[tuple[float, float]]]:
    """Per plan and step, how far losses and weights are from one device's."""
    model, graph = _network(name)
    generator = torch.Generator().manual_seed(1)
    batches = [
        tuple(
            torch.randn(layer.shape, generator=generator, dtype=torch.float64)
            for layer in (graph.inputs[0], graph.outputs[0])
        )
        for _ in range(STEPS)
    ]
    reference, moved = copy.deepcopy(model), copy.deepcopy(model)
    truth = list(_train(reference, lambda x, target: F.mse_loss(reference(x), target), batches))
    amplified = _train(moved, lambda x, target: F.mse_loss(moved(x * (1 + LAST_BIT)), target), batches)
    result = {"one device, last bit": _distances(amplified, truth)}
    for label, slicings in plans.items():
        net = SlicedModule(copy.deepcopy(model), graph, slicings, QUICK.mesh)
        result[label] = _distances(_train(net, partial(_loss, net), batches), truth)
    return result


Step = tuple[float, dict[str, Tensor]]  # its loss, and the weights after it


def _distances(steps: Iterable[Step], truth: list[Step]) -> list[tuple[float, float]]:
    return [
        (abs(loss - wanted) / wanted, max(relative(held[name], weight) for name, weight in weights.items()))
        for (loss, held), (wanted, weights) in zip(steps, truth, strict=True)
    ]


def _train(
    model: nn.Module, loss_of: Callable[[Tensor, Tensor], Tensor], batches: list[tuple[Tensor, ...]]
) -> Iterator[Step]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for x, target in batches:
        loss = loss_of(x, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if isinstance(model, SlicedModule):
            dist.all_reduce(total)
            total /= dist.get_world_size() if model.local_samples else model.output_copies
        sliced = isinstance(model, SlicedModule)
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        yield float(total), {name: whole(weight) if sliced else weight.clone() for name, weight in weights.items()}


def _loss(net: SlicedModule, x: Tensor, target: Tensor) -> Tensor:
    """A mean over the rank's own samples, or its share of the whole batch's."""
    if net.local_samples:
        share = len(x) // dist.get_world_size()
        mine = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
        return F.mse_loss(net(x[mine]), target[mine])
    part: Tensor = net.shard(target)
    part = part.to_local() if isinstance(part, DTensor) else part
    output: Tensor = net(x).to_local()
    return (output - part).square().sum() / target.numel()
