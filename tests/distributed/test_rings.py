"""Keys and values that are passed round, against one device in float64, and against what was predicted."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicewise.cluster.mesh import Mesh
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.rings import with_rings
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_slicings
from slicewise.runtime.sliced_module import SlicedModule
from tests.builders import machine
from tests.distributed.cases import CASES, Call, heads
from tests.distributed.comparing import Truth, compare, counted_bytes
from tests.distributed.world import World

TOLERANCE = 1e-10
BATCH = 5


def crossed(x: Tensor) -> Tensor:
    """More keys than queries, and both divide by four."""
    return F.scaled_dot_product_attention(heads(x)[:, :, :8], heads(torch.cat([x, x], 2))[:, :, 4:16], heads(x.tanh()))


def per_row(x: Tensor) -> Tensor:
    """A mask with one column for all keys hides nothing and still has a gradient."""
    return F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=x.mean(1)[:, None, :, None])


def hiding(x: Tensor) -> Tensor:
    """Each query sees the keys that are larger than it: the largest sees itself alone."""
    seen = x.mean(1)[:, None, None, :] >= x.mean(1)[:, None, :, None]
    return F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=seen)


MORE = {
    "attention to more keys": (lambda: Call(crossed), (8, 12)),
    "attention with a mask per row": (lambda: Call(per_row), (8, 9)),
    "attention that hides keys": (lambda: Call(hiding), (8, 9)),
}
NAMES = (
    "attention", "attention to the past", "attention with a learned bias", "attention with a mask",
    "attention with shared keys", "multi-head attention", *MORE,
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_passing_keys_round_computes_what_one_device_computes(name: str, world: World) -> None:
    walked, wrong = world.run(_walk, name, world.ranks)
    assert walked
    assert wrong == []


def test_so_it_does_over_two_axes_beside_heads_and_samples(quartet: World) -> None:
    assert quartet.run(_walk, "attention with shared keys", quartet.ranks, {"outer": 2, "inner": 2})[1] == []


def _walk(name: str, ranks: int, axes: dict[str, int] | None = None) -> tuple[int, list[str]]:
    """Every slicing by query of every attention layer."""
    model, graph = _case(name)
    mesh = Mesh.of(axes or {"local": ranks})
    whole: dict[str, Slicing] = {layer.name: (None,) * len(mesh.axes) for layer in graph}
    truth = Truth.of(model, graph)
    walked, wrong = 0, []
    for layer in (layer for layer in graph if layer.passes_keys):
        for slicing in (slicing for slicing in legal_slicings(layer, mesh) if Dim.Q in slicing):
            difference = compare(model, graph, {**whole, layer.name: slicing}, mesh, truth=truth)
            walked += 1
            if not difference.below(TOLERANCE):
                wrong.append(f"{layer.name} {slicing}: {difference}")
    return walked, wrong


@cache
def _case(name: str) -> tuple[nn.Module, LayerGraph]:
    build, (channels, *space) = (CASES | MORE)[name]
    torch.manual_seed(0)
    before = (nn.Conv1d, nn.Conv2d)[len(space) - 1](channels, channels, 1)
    model = nn.Sequential(before, build())
    graph = capture(model, torch.zeros(2, channels, *space)).with_batch(BATCH)
    return model, with_rings(graph, [layer.name for layer in graph if layer.kind is Kind.ATTENTION])


@pytest.mark.parametrize("name", ["attention", "attention to more keys", "attention with shared keys"])
def test_what_goes_round_is_counted_to_the_byte(name: str, quartet: World) -> None:
    for counted, predicted, gathered in quartet.run(_bytes, name):
        assert counted == predicted
        assert predicted > gathered  # keys and values travel twice, their gradients once


def _bytes(name: str) -> list[tuple[int, int, int]]:
    model, graph = _case(name)
    cluster = machine(2, 2)
    attention = next(layer for layer in graph if layer.passes_keys)
    found = []
    for slicing in (slicing for slicing in legal_slicings(attention, cluster.mesh) if slicing.count(Dim.Q) == 2):
        slicings = {layer.name: _followed(layer, slicing, cluster.mesh) for layer in graph}
        counted = counted_bytes(model, graph, slicings, cluster.mesh)
        predicted, gathered = (
            sum(cost.bytes_moved for cost in AnalyticModel(made, cluster).plan_costs(slicings).values())
            for made in (graph, with_rings(graph, ()))
        )
        found.append((counted, predicted, gathered))
    return found


def _followed(layer: Layer, slicing: Slicing, mesh: Mesh) -> Slicing:
    """Tokens are rows elsewhere."""
    legal = legal_slicings(layer, mesh)
    rows = [tuple(dim if sliced is Dim.Q else sliced for sliced in slicing) for dim in (Dim.Q, Dim.H, Dim.W)]
    return next((wish for wish in rows if wish in legal), (None,) * len(slicing))


def test_dropout_drops_the_same_in_backward(pair: World) -> None:
    """Of a linear function of the values, the gradient is the function itself."""
    for difference in pair.run(_dropped):
        assert difference < 1e-12


def _dropped() -> list[float]:
    def half(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(heads(x.detach()), heads(x.detach()), heads(x), dropout_p=0.5)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(8, 8, 1, bias=False), Call(half)).double()
    graph = capture(model, torch.zeros(1, 8, 9, dtype=torch.float64))
    graph = with_rings(graph, [layer.name for layer in graph if layer.kind is Kind.ATTENTION])
    slicings: dict[str, Slicing] = {layer.name: (Dim.Q,) if layer.passes_keys else (None,) for layer in graph}
    net = SlicedModule(model, graph, slicings, Mesh.of({"local": 2}))
    y = net(torch.randn(1, 8, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    y.to_local().sum().backward()
    weight = next(net.parameters())
    gradient = weight.grad.full_tensor()  # type: ignore[union-attr]
    linear = float((gradient * weight.detach().full_tensor()).sum())  # type: ignore[attr-defined]
    zeros = float((y.detach().full_tensor() == 0).double().mean())
    assert zeros < 1
    return [abs(linear - float(y.detach().full_tensor().sum())) / abs(linear)]
