"""Dropout and stochastic depth: one mask where ranks share what is dropped, different ones where they do not."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.equality.numerics import check_numerics
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.partition.layout import Slicing
from slicewise.planning import describe
from slicewise.runtime.sliced_module import SlicedModule
from tests.builders import machine
from tests.distributed.world import World

BATCH = 63  # divides over no mesh here


class DropPath(nn.Module):
    """As transformers has it."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x.div(0.5) * torch.floor(0.5 + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype))


@pytest.mark.parametrize("dim", [None, Dim.N, Dim.F, Dim.H])
def test_stochastic_depth_drops_samples_whole_however_they_are_sliced(dim: Dim | None, pair: World) -> None:
    whole, kept, rests = pair.run(_dropped, "sample", dim)
    assert whole
    assert abs(kept - 0.5) < 0.2
    assert rests


@pytest.mark.parametrize("dim", [None, Dim.N, Dim.F, Dim.H])
def test_channel_dropout_drops_channels_whole_however_they_are_sliced(dim: Dim | None, pair: World) -> None:
    whole, kept, rests = pair.run(_dropped, "channel", dim)
    assert whole
    assert abs(kept - 0.5) < 0.1
    assert rests


@pytest.mark.parametrize("dim", [Dim.N, Dim.F])
def test_slices_that_share_no_mask_draw_different_ones(dim: Dim, pair: World) -> None:
    first, second = pair.run(_masks, dim)
    assert first != second


class DroppedScores(nn.Module):
    """Attention to values of one: what comes out is how much of its scores a query has kept."""

    def forward(self, x: Tensor) -> Tensor:
        drop = 0.5 if self.training else 0.0
        return F.scaled_dot_product_attention(x, x, torch.ones_like(x), dropout_p=drop)


@pytest.mark.parametrize("dim", [None, Dim.N, Dim.A, Dim.Q])
def test_scores_are_dropped_however_attention_is_sliced_and_rest_in_eval(dim: Dim | None, pair: World) -> None:
    mean, spread, rests = pair.run(_dropped_scores, dim)
    assert abs(mean - 1) < 0.1
    assert spread > 0.2
    assert rests


def _dropped_scores(dim: Dim | None) -> tuple[float, float, bool]:
    _, dropped, resting = _outputs("scores", dim)
    return float(dropped.mean()), float(dropped.std()), bool(torch.allclose(resting, torch.ones_like(resting)))


def test_the_check_compares_networks_with_stochastic_depth(pair: World) -> None:
    assert pair.run(_checked)


def _model(what: str) -> nn.Module:
    torch.manual_seed(0)
    dropping: dict[str, nn.Module] = {"sample": DropPath(), "channel": nn.Dropout2d(0.5), "scores": DroppedScores()}
    return nn.Sequential(nn.Conv2d(2, 8, 1), dropping[what])


def _outputs(what: str, dim: Dim | None) -> tuple[Tensor, Tensor, Tensor]:
    """Without a mask, with one, and in eval mode."""
    model = _model(what)
    graph = capture(model, torch.zeros(2, 2, 4, 4)).with_batch(BATCH)
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (None,))
    random = next(layer.name for layer in graph if "drop" in str(layer.options) or layer.kind is Kind.ATTENTION)
    slicings[random] = (dim,)
    net = SlicedModule(copy.deepcopy(model), graph, slicings, Mesh.of({"local": 2}))
    x = torch.randn(BATCH, 2, 4, 4)
    with torch.no_grad():
        return model[0](x), net(x).full_tensor(), net.eval()(x).full_tensor()  # type: ignore[index]


def _dropped(what: str, dim: Dim | None) -> tuple[bool, float, bool]:
    plain, masked, resting = _outputs(what, dim)
    spread = (1, 2, 3) if what == "sample" else (2, 3)
    kept = (masked != 0).any(2).any(2)
    kept = kept.any(1) if what == "sample" else kept
    expected = plain * 2 * kept.view(*kept.shape, *[1] * len(spread))
    return bool(torch.allclose(masked, expected)), float(kept.float().mean()), torch.equal(resting, plain)


def _masks(dim: Dim) -> tuple[list[bool], list[bool]]:
    _, masked, _ = _outputs("channel", dim)
    kept = (masked != 0).any(2).any(2)
    first, second = (kept[:31], kept[32:]) if dim is Dim.N else (kept[:, :4], kept[:, 4:])
    return first.flatten().tolist(), second.flatten().tolist()


def _checked() -> bool:
    model = nn.Sequential(nn.Conv2d(2, 8, 1), DropPath(), nn.Flatten(), nn.Linear(8 * 16, 3))
    graph = capture(model, torch.zeros(4, 2, 4, 4))
    slicings: dict[str, Slicing] = dict.fromkeys(graph.index, (Dim.N,))
    return check_numerics(model, graph, describe(AnalyticModel(graph, machine(2)), slicings)).passed
