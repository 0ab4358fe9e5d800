"""What properties are tried on: small machines, tensors, layouts, layers, networks and search problems."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster, Link, Tier
from slicewise.cluster.mesh import Mesh
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import PARTIAL, REPLICATE, Layout, Placement, Shard, Slicing
from slicewise.partition.legal import Space, legal_slicings
from slicewise.partition.parts import boxes
from slicewise.search.problem import Problem
from tests.builders import DEVICE, Net

Shape = tuple[int, ...]

TIER_SIZES = [(2,), (3,), (4,), (6,), (8,), (2, 2), (2, 3), (3, 2), (2, 4), (4, 2)]
DEEP_SIZES = [(6,), (12,), (2, 3), (3, 2), (2, 4), (4, 2), (5, 2), (2, 2, 2), (2, 3, 2), (3, 2, 2), (2, 2, 3)]


def meshes() -> st.SearchStrategy[Mesh]:
    return st.sampled_from(TIER_SIZES).map(
        lambda sizes: Mesh.of({f"tier{level}": size for level, size in enumerate(sizes)})
    )


@st.composite
def clusters(draw: st.DrawFn, sizes: Sequence[tuple[int, ...]] = TIER_SIZES) -> Cluster:
    """Machines of a few tiers, some with racks, with shared ports, with links fitted per collective."""

    def link() -> Link:
        return Link(draw(st.integers(1, 50)) * 1e-6, draw(st.integers(1, 50)) * 1e8)

    def tier(name: str, size: int, racks: Tier | None = None) -> Tier:
        plain = link()
        fitted = draw(
            st.sets(st.sampled_from(["all_reduce", "all_gather", "all_to_all", "bucket", "send"]), max_size=3)
        )
        return Tier(
            name=name,
            size=size,
            latency_s=plain.latency_s,
            bytes_per_s=plain.bytes_per_s,
            ports=draw(st.integers(1, 4)),
            collectives={operation: link() for operation in sorted(fitted)},
            queue_s=draw(st.sampled_from([None, 0.0, 1e-5, 1e-3])),
            racks=racks,
        )

    tiers = []
    for level, size in enumerate(draw(st.sampled_from(sizes))):
        in_racks = level == 0 and size > 2 and draw(st.booleans())
        racks = tier("racks", draw(st.integers(2, size - 1))) if in_racks else None
        tiers.append(tier(f"tier{level}", size, racks))
    return Cluster(name="random", device=DEVICE, tiers=tuple(tiers), overlap=draw(st.sampled_from([0.0, 0.5, 1.0])))


def shapes(*, min_dims: int = 0, max_dims: int = 3, max_extent: int = 9) -> st.SearchStrategy[Shape]:
    return st.lists(st.integers(1, max_extent), min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def layouts(draw: st.DrawFn, shape: Shape, mesh: Mesh, *, partial: bool = True, empty: bool = False) -> Layout:
    """A placement per axis; no part is empty, as no legal slicing leaves one, unless asked for."""
    placements: list[Placement] = [REPLICATE, *([PARTIAL] if partial else []), *map(Shard, range(len(shape)))]
    layout: Layout = (REPLICATE,) * len(mesh.axes)
    for axis in range(len(mesh.axes)):
        wider: Layout = (*layout[:axis], draw(st.sampled_from(placements)), *layout[axis + 1 :])
        if empty or _all_hold_something(shape, wider, mesh):
            layout = wider
    return layout


def _all_hold_something(shape: Shape, layout: Layout, mesh: Mesh) -> bool:
    start, stop = boxes(shape, layout, mesh)
    return bool((start < stop).all())


OF_TWO = ("matmul", "attention")  # products of computed tensors
WINDOWED = ("conv", "grouped", "transposed", "dilated", "pool")


@st.composite
def layers(draw: st.DrawFn, kinds: Sequence[str] | None = None) -> Layer:
    """One layer on a small 1-, 2- or 3-D input."""
    kind = draw(
        st.sampled_from(
            kinds or [*WINDOWED, "linear", *OF_TWO, "norm", "instance", "relu", "concat", "flatten", "fork"]
        )
    )
    net = Net()
    samples, channels = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    if kind == "matmul":
        rows, summed, columns = (draw(st.integers(1, 9)) for _ in range(3))
        left, right = net.input(samples, channels, rows, summed), net.input(samples, channels, summed, columns)
        return net[net.matmul(left, right)]
    if kind == "attention":
        queries, keys, embedding, values = (draw(st.integers(1, 9)) for _ in range(4))
        heads = channels * draw(st.integers(1, 3))  # several may share a key
        query = net.input(samples, heads, queries, embedding)
        key, value = (net.input(samples, channels, keys, width) for width in (embedding, values))
        return net[net.attention(query, key, value)]
    if kind == "linear":
        return net[net.linear(net.input(samples, channels), draw(st.integers(1, 9)))]
    space = draw(st.lists(st.integers(3, 10), min_size=1, max_size=3))
    grouped = kind == "grouped"
    source = net.input(samples, channels * 2 if grouped else channels, *space)
    if kind in ("conv", "grouped", "transposed", "dilated"):
        filters = draw(st.integers(1, 9))
        transposed = kind == "transposed" or (grouped and draw(st.booleans()))
        stride = draw(st.integers(1, 3))
        name = net.conv(
            source,
            filters * 2 if grouped else filters,
            kernel=draw(st.integers(1, 3)),
            stride=stride,
            padding=draw(st.integers(0, 2)),
            dilation=draw(st.integers(1, 3)) if kind == "dilated" else 1,
            transposed=transposed,
            output_padding=draw(st.integers(0, stride - 1)) if transposed else 0,
            groups=draw(st.sampled_from([2, 2 * np.gcd(channels, filters).item()])) if grouped else 1,
        )
    elif kind == "pool":
        kernel = draw(st.integers(1, 3))
        name = net.pool(
            source, kernel=kernel, stride=draw(st.integers(1, 3)), padding=draw(st.integers(0, kernel // 2))
        )
    elif kind in ("norm", "instance"):
        name = net.norm(source, instance=kind == "instance")
    elif kind == "concat":
        name = net.concat(source, net.input(samples, draw(st.integers(1, 4)), *space))
    else:
        name = {"relu": net.relu, "flatten": net.flatten, "fork": net.fork}[kind](source)
    assume(min(net[name].shape) > 0)
    return net[name]


@st.composite
def graphs(draw: st.DrawFn, *, max_layers: int = 4) -> LayerGraph:
    """A small network: a chain with forks here and there, and sometimes linear layers at the end."""
    net = Net()
    count = draw(st.integers(1, 2))
    last = net.input(draw(st.integers(1, 8)), draw(st.integers(1, 4)), *[draw(st.integers(4, 8))] * count)
    for _ in range(draw(st.integers(1, max_layers))):
        last = _block(draw, net, last)
    if draw(st.booleans()):
        last = net.linear(net.flatten(last), draw(st.integers(2, 8)))
    net.output(last)
    return net.graph


def _block(draw: st.DrawFn, net: Net, source: str) -> str:
    channels = net.shape(source)[1]
    blocks = ["conv", "relu", "norm", "residual", "doubled", "branches", "opaque", "attention"]
    blocks += ["matmul"] if len(net.shape(source)) == 4 else []
    kind = draw(st.sampled_from([*blocks, "pool"] if min(net.shape(source)[2:]) > 3 else blocks))
    if kind == "conv":
        return net.conv(source, draw(st.integers(1, 8)))
    if kind == "relu":
        return net.relu(source)
    if kind == "norm":
        return net.norm(source, instance=draw(st.booleans()))
    if kind == "pool":
        return net.pool(source)
    if kind == "opaque":
        return net.opaque(source)
    fork = net.fork(source)
    if kind == "residual":
        return net.add(net.conv(fork, channels), fork)
    if kind == "doubled":
        return net.add(fork, fork)
    if kind == "attention":
        return net.attention(fork, fork, fork)
    if kind == "matmul":
        return net.matmul(fork, fork)
    return net.concat(net.conv(fork, 2, kernel=1, padding=0), net.conv(fork, 3))


@st.composite
def slicings(draw: st.DrawFn, graph: LayerGraph, mesh: Mesh, space: Space = Space()) -> dict[str, Slicing]:  # noqa: B008
    """Any legal slicing for each layer."""
    return {layer.name: draw(st.sampled_from(legal_slicings(layer, mesh, space))) for layer in graph}


Edges = Sequence[tuple[int, int]]

# Series-parallel graphs with one source and one sink reduce to two nodes; the others do not.
CHAIN: Edges = list(pairwise(range(6)))
RESIDUAL: Edges = [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 5)]
INCEPTION: Edges = [(0, 1), (1, 5), (0, 2), (2, 3), (3, 5), (0, 4), (4, 5)]
K4: Edges = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
DENSE: Edges = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 4), (0, 4), (3, 5), (4, 5)]
BIPARTITE: Edges = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 5)]


@st.composite
def problems(draw: st.DrawFn, edges: Edges) -> Problem:
    """Tables of small whole numbers over `edges`: sums are exact, and ties are common."""
    nodes = 1 + max(max(edge) for edge in edges)
    sizes = draw(st.lists(st.integers(1, 5), min_size=nodes, max_size=nodes))
    values = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    top = draw(st.sampled_from([3, 20]))
    return Problem(
        vectors=tuple(values.integers(0, top, size).astype(float) for size in sizes),
        matrices={(i, j): values.integers(0, top, (sizes[i], sizes[j])).astype(float) for i, j in edges},
    )


@st.composite
def arbitrary_edges(draw: st.DrawFn) -> Edges:
    """Any graph over up to six nodes, in several pieces or none."""
    nodes = draw(st.integers(2, 6))
    pairs = [(i, j) for j in range(nodes) for i in range(j)]
    chosen = draw(st.sets(st.sampled_from(pairs)))
    return sorted(chosen | {(nodes - 2, nodes - 1)})


SHAPES = [CHAIN, RESIDUAL, INCEPTION, K4, DENSE, BIPARTITE]


def any_problem() -> st.SearchStrategy[Problem]:
    """Chains, residual and inception-like graphs, graphs that the two rules do not reduce, and any other."""
    return st.one_of(st.sampled_from(SHAPES).flatmap(problems), arbitrary_edges().flatmap(problems))
