"""Small networks and machines, put together by hand: what most tests need, without torch."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from slicewise.cluster.cluster import Cluster, Device, Link, Tier
from slicewise.cost.stage import StageCost
from slicewise.graph.dims import Dim, space_letters
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer, Weight
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.window import Window

DEVICE = Device(
    name="toy",
    peak_flops_per_s=1e12,
    memory_bytes_per_s=1e11,
    memory_bytes=2**30,
    kernel_s=1e-6,
    efficiency={"conv": 0.5, "conv_backward": 0.4, "linear": 0.6, "linear_backward": 0.5},
    half_size=(8.0, 4.0, 4.0),
)


def machine(*sizes: int, ports: int = 1, collectives: Mapping[str, Link] | None = None, **fields: Any) -> Cluster:
    """`machine(2, 4)`: 2 nodes of 4 devices; each tier is twice as quick as the one around it."""
    return Cluster(
        name="toy",
        device=DEVICE,
        tiers=tuple(
            Tier(
                name=f"tier{level}",
                size=size,
                latency_s=4e-6 / 2**level,
                bytes_per_s=1e9 * 2**level,
                ports=ports,
                collectives=collectives or {},
            )
            for level, size in enumerate(sizes)
        ),
        **fields,
    )


def stage_cost(
    *, forward_s: float, backward_s: float, output_s: float, gradient_s: float | None, **bytes_: int
) -> StageCost:
    """A pipeline's stage; bytes that are not given are none."""
    names = [field.name for field in fields(StageCost) if field.name.endswith("_bytes")]
    return StageCost(
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=0.0,
        output_s=output_s,
        gradient_s=gradient_s,
        **dict.fromkeys(names, 0) | bytes_,
    )


class Net:
    """A network layer by layer: every method adds one and returns its name.

    >>> net = Net()
    >>> net.output(net.relu(net.conv(net.input(4, 3, 8, 8), 6)))
    >>> net.graph
    """

    def __init__(self, name: str = "net") -> None:
        self.name = name
        self.layers: list[Layer] = []

    @property
    def graph(self) -> LayerGraph:
        return LayerGraph(name=self.name, layers=tuple(self.layers))

    def input(self, *shape: int) -> str:
        return self._add(Kind.INPUT, (), shape, dims="NF" + space_letters(len(shape) - 2))

    def output(self, source: str) -> str:
        dims = self._dims(source).replace("F", ".")
        return self._add(Kind.OUTPUT, (source,), self.shape(source), dims=dims, input_dims=(dims,))

    def conv(
        self,
        source: str,
        filters: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        padding: int = 1,
        dilation: int = 1,
        transposed: bool = False,
        output_padding: int = 0,
        groups: int = 1,
    ) -> str:
        samples, channels, *space = self.shape(source)
        letters = space_letters(len(space))
        window = Window(
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=transposed,
            output_padding=output_padding,
        )
        pair, dims = (filters, channels // groups), "FC"
        if transposed:
            pair, dims = (channels, filters // groups), "CF"
        if groups > 1:
            dims = "F."
        name = self._next(Kind.CONV)
        return self._add(
            Kind.CONV,
            (source,),
            (samples, filters, *(output_extent(window, extent) for extent in space)),
            dims=f"NF{letters}",
            input_dims=(f"N{'C' if groups == 1 else 'F'}{letters}",),
            weights=(
                Weight(name=f"{name}.weight", shape=pair + (kernel,) * len(space), dims=dims + "." * len(space)),
                Weight(name=f"{name}.bias", shape=(filters,), dims="F"),
            ),
            windows={Dim(letter): window for letter in letters},
            groups=groups,
        )

    def linear(self, source: str, features: int) -> str:
        samples, inputs = self.shape(source)
        name = self._next(Kind.LINEAR)
        return self._add(
            Kind.LINEAR,
            (source,),
            (samples, features),
            dims="NF",
            input_dims=("NC",),
            weights=(
                Weight(name=f"{name}.weight", shape=(features, inputs), dims="FC"),
                Weight(name=f"{name}.bias", shape=(features,), dims="F"),
            ),
        )

    def attention(self, query: str, key: str, value: str) -> str:
        """Of `N, heads, tokens, channels`; without heads, of three dims."""
        shape = (*self.shape(query)[:-1], self.shape(value)[-1])
        leading = "NA"[: len(shape) - 2]
        shared = "".join(
            letter if letter == "N" or size > 1 else "."
            for letter, size in zip(leading, self.shape(key)[:-2], strict=True)
        )
        return self._add(
            Kind.ATTENTION,
            (query, key, value),
            shape,
            dims=f"{leading}Q.",
            input_dims=(f"{leading}Q.", f"{shared}K.", f"{shared}K."),
        )

    def matmul(self, left: str, right: str) -> str:
        """Of `N, matrices, rows, columns`."""
        shape = (*self.shape(left)[:-1], self.shape(right)[-1])
        return self._add(Kind.MATMUL, (left, right), shape, dims="NAQK", input_dims=("NAQC", "NACK"))

    def pool(self, source: str, *, kernel: int = 2, stride: int = 2, padding: int = 0) -> str:
        samples, channels, *space = self.shape(source)
        window = Window(kernel=kernel, stride=stride, padding=padding)
        return self._add(
            Kind.POOL,
            (source,),
            (samples, channels, *(output_extent(window, extent) for extent in space)),
            windows={Dim(letter): window for letter in space_letters(len(space))},
        )

    def norm(self, source: str, *, instance: bool = False) -> str:
        space = space_letters(len(self.shape(source)) - 2)
        channels = self.shape(source)[1]
        name = self._next(Kind.NORM)
        return self._add(
            Kind.NORM,
            (source,),
            self.shape(source),
            weights=tuple(Weight(name=f"{name}.{w}", shape=(channels,), dims="F") for w in ("weight", "bias")),
            options={"statistics": space if instance else f"N{space}"},
        )

    def relu(self, source: str) -> str:
        return self._add(Kind.ELEMENTWISE, (source,), self.shape(source), options={"in_place": True})

    def add(self, *sources: str) -> str:
        return self._add(Kind.ELEMENTWISE, sources, self.shape(sources[0]))

    def concat(self, *sources: str) -> str:
        samples, _, *space = self.shape(sources[0])
        dims = "N." + space_letters(len(space))
        channels = sum(self.shape(source)[1] for source in sources)
        return self._add(
            Kind.CONCAT, sources, (samples, channels, *space), dims=dims, input_dims=(dims,) * len(sources)
        )

    def flatten(self, source: str) -> str:
        samples, *sample = self.shape(source)
        items = 1
        for extent in sample:
            items *= extent
        input_dims = ("NF" + "." * (len(sample) - 1),)
        return self._add(Kind.FLATTEN, (source,), (samples, items), dims="NF", input_dims=input_dims)

    def fork(self, source: str) -> str:
        return self._add(Kind.FORK, (source,), self.shape(source))

    def opaque(self, source: str) -> str:
        dims = "n" + "." * (len(self.shape(source)) - 1)
        return self._add(Kind.OPAQUE, (source,), self.shape(source), dims=dims, input_dims=(dims,))

    def share(self, first: str, *others: str) -> None:
        """Let `others` read the weights of `first`."""
        weights = tuple(replace(weight, shared=True) for weight in self[first].weights)
        again = tuple(replace(weight, again=True) for weight in weights)
        held = {first: weights} | dict.fromkeys(others, again)
        self.layers = [replace(layer, weights=held.get(layer.name, layer.weights)) for layer in self.layers]

    def shape(self, name: str) -> tuple[int, ...]:
        return self[name].shape

    def __getitem__(self, name: str) -> Layer:
        return next(layer for layer in self.layers if layer.name == name)

    def _dims(self, name: str) -> str:
        return "NF" + space_letters(len(self.shape(name)) - 2)

    def _next(self, kind: Kind) -> str:
        return f"{kind.value}{sum(layer.kind is kind for layer in self.layers)}"

    def _add(
        self,
        kind: Kind,
        sources: tuple[str, ...],
        shape: tuple[int, ...],
        *,
        dims: str | None = None,
        input_dims: tuple[str, ...] | None = None,
        **fields: Any,
    ) -> str:
        """Without letters given, channels and space pass through: the layer slices N, F and space."""
        passing = "NF" + space_letters(len(shape) - 2)
        layer = Layer(
            name=self._next(kind),
            kind=kind,
            inputs=sources,
            input_shapes=tuple(self.shape(source) for source in sources),
            input_dims=input_dims if input_dims is not None else (passing,) * len(sources),
            shape=shape,
            dims=dims if dims is not None else passing,
            **fields,
        )
        self.layers.append(layer)
        return layer.name


def output_extent(window: Window, extent: int) -> int:
    if window.transposed:
        return (extent - 1) * window.stride - 2 * window.padding + window.reach + window.output_padding
    return (extent + 2 * window.padding - window.reach) // window.stride + 1


def small_cnn(batch: int = 4) -> LayerGraph:
    """conv, relu, pool, flatten, linear."""
    net = Net("small_cnn")
    features = net.pool(net.relu(net.conv(net.input(batch, 3, 8, 8), 8)))
    net.output(net.linear(net.flatten(features), 10))
    return net.graph


def residual_net(batch: int = 4) -> LayerGraph:
    """A convolution whose output goes on twice: through a second one, and around it."""
    net = Net("residual_net")
    trunk = net.fork(net.conv(net.input(batch, 3, 8, 8), 8))
    net.output(net.add(net.norm(net.conv(trunk, 8)), trunk))
    return net.graph


def dense_net(batch: int = 8, *, channels: int = 64, rows: int = 8) -> LayerGraph:
    """Every convolution reads the sum of all before it: more than the paper's two rules can take apart."""
    net = Net("dense_net")
    made = [net.fork(net.conv(net.input(batch, 3, rows, rows), channels))]
    for _ in range(2):
        made.append(net.fork(net.conv(_sum(net, made), channels)))
    net.output(net.conv(_sum(net, made), channels))
    return net.graph


def _sum(net: Net, made: list[str]) -> str:
    total = made[0]
    for name in made[1:]:
        total = net.add(total, name)
    return total
