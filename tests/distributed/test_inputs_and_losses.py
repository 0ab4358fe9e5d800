"""Models with several inputs, a loss of their own, or weights under several names."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.errors import PlanError, SlicingError
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.partition.layout import Slicing
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.comparing import random_slicings, whole
from tests.distributed.world import World

TOLERANCE = 1e-12


class WithLoss(nn.Module):
    """Scores per position and their loss; some targets are ignored, so the mean is over fewer than all."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, image: Tensor, labels: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.conv(image + shift)
        return F.cross_entropy(scores, labels), scores


@pytest.mark.parametrize("batch", [4, 3])
def test_a_loss_inside_the_model_is_that_of_the_whole_batch_on_every_rank(batch: int, pair: World) -> None:
    assert pair.run(_loss_differences, batch, 12) < TOLERANCE


def test_inputs_that_are_missing_or_too_many_are_refused_with_the_names(pair: World) -> None:
    assert pair.run(_refusals) == [
        "model takes image, labels, shift (got 1 inputs and ['labels'])",
        "model: inputs of different numbers of samples ([2, 3])",
    ]


def test_a_weight_under_two_names_keeps_both_and_is_trained_once(pair: World) -> None:
    names, parameters, difference = pair.run(_tied)
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert parameters == ["0.weight", "0.bias"]
    assert difference < TOLERANCE


def test_layers_that_share_weights_cannot_be_sliced_differently(pair: World) -> None:
    assert pair.run(_torn) == "2 shares weights with 0 and must be sliced like it"


def _batch(batch: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(batch, 3, 6, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(5, (batch, 6, 6), generator=generator)
    labels[0, :4] = -100
    return image, labels, torch.randn(3, 1, 1, generator=generator, dtype=torch.float64)


def _loss_differences(batch: int, seeds: int) -> float:
    torch.manual_seed(0)
    model = WithLoss().double()
    mesh = Mesh.of({"local": 2})
    image, labels, shift = _batch(batch)
    graph = capture(model, (image[:2], labels[:2], shift)).with_batch(batch)
    expected, _ = model(image, labels, shift)
    expected.backward()
    worst = 0.0
    for seed in range(seeds):
        net = SlicedModule(copy.deepcopy(model), graph, random_slicings(graph, mesh, seed), mesh)
        mine = (
            slice(dist.get_rank() * batch // 2, (dist.get_rank() + 1) * batch // 2)
            if net.local_samples
            else slice(None)
        )
        loss, _ = net(image[mine], labels=labels[mine], shift=shift)
        loss.backward()
        value = loss if net.local_samples else loss.to_local()
        differences = [(value - expected).detach().abs()]
        weights = dict(net.named_parameters())
        differences += [(whole(weights[name].grad) - p.grad).abs().max() for name, p in model.named_parameters()]  # type: ignore[operator]
        worst = max(worst, float(torch.stack(differences).max()))
    return worst


def _refusals() -> list[str]:
    mesh = Mesh.of({"local": 2})
    image, labels, shift = (x.float() if x.is_floating_point() else x for x in _batch(3))
    graph = capture(WithLoss(), (image[:2], labels[:2], shift)).with_batch(3)
    net = SlicedModule(WithLoss(), graph, dict.fromkeys(graph.index, (None,)), mesh)
    messages = []
    for arguments, named in (((image,), {"labels": labels}), ((image, labels[:2], shift), {})):
        try:
            net(*arguments, **named)
        except PlanError as error:
            messages.append(str(error))
    return messages


def _shared_net(slicings: dict[str, Slicing]) -> tuple[nn.Module, SlicedModule]:
    torch.manual_seed(0)
    linear = nn.Linear(4, 4).double()
    model = nn.Sequential(linear, nn.Tanh(), linear)
    graph = capture(model, torch.zeros(4, 4, dtype=torch.float64))
    chosen: dict[str, Slicing] = {**dict.fromkeys(graph.index, (Dim.N,)), **slicings}
    return model, SlicedModule(copy.deepcopy(model), graph, chosen, Mesh.of({"local": 2}))


def _tied() -> tuple[list[str], list[str], float]:
    model, net = _shared_net({})
    x = torch.arange(16, dtype=torch.float64).reshape(4, 4) / 16
    model(x).square().mean().backward()
    mine = slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2)
    net(x[mine]).square().mean().backward()
    weights = dict(net.named_parameters())
    differences = [(whole(weights[name].grad) - p.grad).abs().max() for name, p in model.named_parameters()]  # type: ignore[operator]
    return list(net.state_dict()), list(weights), float(torch.stack(differences).max())


def _torn() -> str:
    try:
        _shared_net({"0": (None,), "2": (Dim.N,)})
    except SlicingError as error:
        return str(error)
    return "accepted"
