"""Every communication operator is the adjoint of its own backward: <Ax, y> == <x, A'y>."""

import random
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from slicewise.cluster.mesh import Mesh
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.partition.layout import PARTIAL, REPLICATE, Layout, layouts
from slicewise.partition.legal import legal_slicings
from slicewise.partition.parts import box
from slicewise.partition.steps import Op, steps
from slicewise.runtime.groups import Groups
from slicewise.runtime.halo import compile_join, on_joined
from slicewise.runtime.moves import compile_moves, move
from slicewise.runtime.norm import SharedStatistics, shared_norm
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.cases import Call
from tests.distributed.comparing import whole
from tests.distributed.world import World

SHAPE = (5, 6, 7)


def test_layout_changes_are_adjoint_to_their_backward(world: World) -> None:
    products, forward_kinds, backward_kinds = world.run(layout_changes, world.ranks, 60)
    assert len(products) == 60
    assert forward_kinds == backward_kinds == set(Op)  # every kind of step there is, in both directions
    for forward, backward in products:
        assert abs(forward - backward) <= 1e-10 * max(1.0, abs(forward))


def test_halo_exchange_backward_is_its_adjoint(world: World) -> None:
    products = world.run(_halos, world.ranks)
    assert len(products) > 3
    for forward, backward in products:
        assert abs(forward - backward) <= 1e-10 * max(1.0, abs(forward))


def test_shared_statistics_backward_is_adjoint_to_their_derivative(world: World) -> None:
    """Norms are not linear: the derivative along a direction, by central differences, stands for the forward."""
    products = world.run(_norms, world.ranks)
    assert set(products) == {"with weights", "without weights", "chunk by chunk"}
    for label, (forward, backward) in products.items():
        assert abs(forward - backward) <= 1e-7 * max(1.0, abs(forward)), label


def test_gradient_sync_is_adjoint_to_handing_weights_to_all_ranks(world: World) -> None:
    for forward, backward in world.run(_syncs, world.ranks):
        assert abs(forward - backward) <= 1e-12 * max(1.0, abs(forward))


def test_the_joined_input_of_a_sliced_convolution_is_not_kept_for_backward(pair: World) -> None:
    assert pair.run(_joined_is_freed)


def layout_changes(ranks: int, count: int) -> tuple[list[tuple[float, float]], set[Op], set[Op]]:
    """Random pairs of slicings of a linear-like producer and consumer on one tensor."""
    mesh = Mesh.of({"local": ranks})
    groups = Groups(mesh, dist.get_rank())
    producer, consumer = _layer(Kind.CONV, "NCW", "NFW"), _layer(Kind.CONV, "NCW", "NFW")
    fork = _layer(Kind.FORK, "NFW", "NFW")
    chooser = random.Random(0)
    products, kinds = [], (set[Op](), set[Op]())
    for number in range(count):
        before = chooser.choice([producer, fork])
        after = chooser.choice([consumer, fork])
        source = layouts(before, chooser.choice(legal_slicings(before, mesh)))
        target = layouts(after, chooser.choice(legal_slicings(after, mesh)))
        x = _part(SHAPE, source.output, groups, seed=number).requires_grad_()
        gradient = _part(SHAPE, target.input_gradients[0], groups, seed=number + 1000)
        forward = compile_moves(SHAPE, source.output, target.inputs[0], groups)
        backward = compile_moves(SHAPE, target.input_gradients[0], source.output_gradient, groups)
        for found, path in zip(
            kinds, [(source.output, target.inputs[0]), (target.input_gradients[0], source.output_gradient)], strict=True
        ):
            found.update(step.op for step in steps(SHAPE, *path, mesh))
        y = move(x, forward, backward, "test")
        (dx,) = torch.autograd.grad(y, x, gradient)
        products.append(
            (
                _product(y.detach(), gradient, target.inputs[0], target.input_gradients[0], mesh),
                _product(x.detach(), dx, source.output, source.output_gradient, mesh),
            )
        )
    return products, *kinds


def _layer(kind: Kind, before: str, after: str) -> Layer:
    sizes = dict(zip("NCW", SHAPE, strict=True)) | {"F": SHAPE[1]}
    return Layer(
        name=kind.value,
        kind=kind,
        inputs=(),
        input_shapes=(SHAPE,),
        input_dims=(before,),
        shape=tuple(sizes[letter] for letter in after),
        dims=after,
    )


def _part(shape: tuple[int, ...], layout: Layout, groups: Groups, seed: int) -> Tensor:
    """This rank's part of a random tensor; summands of a Partial axis differ, copies of a Replicate axis agree."""
    place = 0
    for axis, placement in enumerate(layout):
        if placement == PARTIAL:
            place = place * groups.mesh.sizes[axis] + int(groups.mesh.coordinates[groups.rank, axis])
    generator = torch.Generator().manual_seed(seed * 100 + place)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    part = box(shape, layout, groups.mesh, groups.rank)
    return values[tuple(slice(start, stop) for start, stop in part)].clone()


def _product(value: Tensor, gradient: Tensor, layout: Layout, gradient_layout: Layout, mesh: Mesh) -> float:
    """The inner product of the whole tensors; an axis on which both are repeated counts once."""
    total = (value * gradient).sum()
    dist.all_reduce(total)
    repeated = [
        size for size, one, other in zip(mesh.sizes, layout, gradient_layout, strict=True) if one == other == REPLICATE
    ]
    return float(total) / float(torch.tensor(repeated).prod() if repeated else 1)


def _halos(ranks: int) -> list[tuple[float, float]]:
    mesh = Mesh.of({"local": ranks})
    groups = Groups(mesh, dist.get_rank())
    products = []
    windows: tuple[nn.Module, ...] = (
        nn.Conv2d(2, 2, 3, padding=1),
        nn.Conv2d(2, 2, 5, stride=2, padding=2),
        nn.MaxPool2d(3, 2),
        nn.ZeroPad2d((1, 2, 0, 3)),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        Call(lambda x: x[:, :, 1::2]),
    )
    for window in windows:
        graph = capture(window, torch.zeros(1, 2, 19, 16))
        layer = graph.layers[1]
        for slicing in legal_slicings(layer, mesh):
            if not set(slicing) & {Dim.H, Dim.W}:
                continue
            join = compile_join(layer, slicing, groups, [d for d in layer.windows if d in slicing], fill=0.0)
            if join is None:
                continue
            shape, layout = layer.input_shapes[0], layouts(layer, slicing).inputs[0]
            x = _part(shape, layout, groups, seed=3).requires_grad_()
            captured: list[Tensor] = []

            def keep(joined: Tensor, captured: list[Tensor] = captured) -> Tensor:
                captured.append(joined)
                return joined.sum()

            on_joined(x, join, keep)
            joined = captured[0]
            generator = torch.Generator().manual_seed(7 + dist.get_rank())
            direction = torch.randn(joined.shape, generator=generator, dtype=torch.float64)
            (dx,) = torch.autograd.grad(joined, x, direction)
            both = torch.stack([(joined.detach() * direction).sum(), (x.detach() * dx).sum()])
            dist.all_reduce(both)
            products.append((float(both[0]), float(both[1])))
    return products


def _norms(ranks: int) -> dict[str, tuple[float, float]]:
    """Parts of different sizes: 3, 4, 5 ... positions of 5 channels for 3 samples."""
    rank, channels = dist.get_rank(), 5
    generator = torch.Generator().manual_seed(rank)
    x, v, y = (torch.randn(3, channels, 3 + rank, generator=generator, dtype=torch.float64) for _ in range(3))
    weight, bias = torch.linspace(0.5, 2, channels, dtype=torch.float64), torch.ones(channels, dtype=torch.float64)
    whole = tuple((len(x) * (3 + other),) for other in range(ranks))
    statistics = SharedStatistics(layer="norm", group=None, counts=whole)
    by_chunk = SharedStatistics(
        layer="norm",
        group=None,
        counts=tuple((2 * (3 + other), 3 + other) for other in range(ranks)),
        chunks=(2, 1),
    )
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "with weights": lambda x: shared_norm(x, weight, bias, 1e-5, statistics)[0],
        "without weights": lambda x: shared_norm(x, None, None, 1e-5, statistics)[0],
        "chunk by chunk": lambda x: shared_norm(x, weight, bias, 1e-5, by_chunk)[0],
    }
    products = {}
    for label, function in functions.items():
        leaf = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(function(leaf), leaf, y)
        step = 1e-6
        derivative = (function(x + step * v) - function(x - step * v)) / (2 * step)
        both = torch.stack([(derivative * y).sum(), (v * dx).sum()])
        dist.all_reduce(both)
        products[label] = (float(both[0]), float(both[1]))
    return products


def _syncs(ranks: int) -> list[tuple[float, float]]:
    """A linear layer by sample, filter and input channel: its weight is held by all ranks, or in parts."""
    mesh = Mesh.of({"local": ranks})
    products = []
    for dim in (Dim.N, Dim.F, Dim.C):
        torch.manual_seed(0)
        model = nn.Linear(8, 4, bias=False, dtype=torch.float64)
        graph = capture(model, torch.zeros(2, 8, dtype=torch.float64)).with_batch(2 * ranks)
        samples, chosen = (Dim.N,) * len(mesh.axes), (dim,) * len(mesh.axes)
        slicings = {layer.name: chosen if layer.kind is Kind.LINEAR else samples for layer in graph}
        net = SlicedModule(model, graph, slicings, mesh)
        direction = torch.randn(4, 8, dtype=torch.float64)
        generator = torch.Generator().manual_seed(dist.get_rank())
        x, y = (torch.randn(2, size, generator=generator, dtype=torch.float64) for size in (8, 4))
        net(x).backward(y)
        forward = (torch.nn.functional.linear(x, direction) * y).sum() / ranks
        dist.all_reduce(forward)
        (parameter,) = net.parameters()
        products.append((float(forward), float((direction * whole(parameter.grad)).sum())))
    return products


def _joined_is_freed() -> bool:
    mesh = Mesh.of({"local": 2})
    groups = Groups(mesh, dist.get_rank())
    layer = capture(nn.Conv2d(2, 2, 3, padding=1), torch.zeros(1, 2, 8, 8)).layers[1]
    join = compile_join(layer, (Dim.H,), groups, [Dim.H], fill=0.0)
    x = torch.randn(1, 2, 4, 8, requires_grad=True)
    weight = torch.randn(2, 2, 3, 3, requires_grad=True)
    storages: list[StorageWeakRef] = []

    def convolve(joined: Tensor) -> Tensor:
        storages.append(StorageWeakRef(joined.untyped_storage()))
        return torch.nn.functional.conv2d(joined, weight, padding=(0, 1))

    y = on_joined(x, join, convolve)
    freed = bool(storages[0].expired())
    y.sum().backward()
    assert weight.grad is not None
    return freed
