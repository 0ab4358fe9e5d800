"""A layer: what it computes, on which tensors, with which geometry.

Each tensor's dims are spelled as a string, one letter per tensor dim, as in einsum: a 2-D convolution is
`NCHW, FC.. -> NFHW`. The letters alone say what slicing a dim does to every tensor (see partition/layout.py),
so planner and runtime need no rules per layer kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from slicewise.dtype import OWN_BYTES
from slicewise.graph.dims import BATCH, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.window import Window

KEYS = (1, 2)  # of attention's inputs: keys and values


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A parameter or buffer, under the name it has in the model's state_dict."""

    name: str
    shape: tuple[int, ...]
    dims: str
    trained: bool = True
    shared: bool = False  # several layers read it: none of them may slice it, and all are sliced alike
    again: bool = False  # an earlier layer reads it too: memory, update and gradient sync are that one's

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def updated(self) -> bool:
        """Whether a step sums its gradient and changes it, counted at the first layer that reads it."""
        return self.trained and not self.again


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One node of a LayerGraph; `options` is what the executor needs to call the operator again."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    input_dims: tuple[str, ...]
    shape: tuple[int, ...]
    dims: str
    weights: tuple[Weight, ...] = ()
    buffers: tuple[Weight, ...] = ()  # constants among the operands: held whole, cut where they are read
    windows: Mapping[Dim, Window] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    groups: int = 1

    @property
    def statistics(self) -> frozenset[Dim]:
        """Dims that a norm's statistics span; none in eval mode, where it uses those it has kept.

        Attention's scores are normalised over keys.
        """
        if self.kind is Kind.ATTENTION:
            return frozenset({Dim.K} & set(self.input_dims[1]))
        return frozenset(Dim(letter) for letter in self.options.get("statistics", "")) if self._trains else frozenset()

    @property
    def passes_keys(self) -> bool:
        """Whether it is attention whose keys and values lie as its queries do, and are passed round."""
        return self.kind is Kind.ATTENTION and self.input_dims[1][-2] == Dim.Q

    @property
    def _trains(self) -> bool:
        return bool(self.options.get("arguments", {}).get("training", True))

    @property
    def differentiable(self) -> bool:
        """Whether gradients pass: not through what is detached, nor through whole numbers."""
        return bool(self.options.get("differentiable", True))

    @property
    def own_bytes(self) -> int | None:
        """Of one item of its output, where the plan's dtype does not say it: class numbers, masks, complex numbers."""
        return OWN_BYTES.get(str(self.options.get("dtype")))

    @property
    def chunk(self) -> int | None:
        """Samples that share the statistics of a local batch norm, as DDP cuts the batch; None for all other layers."""
        ranks = self.options.get("ranks") if self._trains else None
        return None if ranks is None else -(-self.shape[self.dims.index(Dim.N)] // int(ranks))

    @property
    def statistics_shape(self) -> tuple[int, ...]:
        """The shape of a norm's mean: 1 along the dims that it spans, one value per group of channels or chunk.

        Of attention: one value per query.
        """
        if self.kind is Kind.ATTENTION:
            return (*self.shape[:-1], 1)

        def extent(letter: str, size: int) -> int:
            if letter in self.statistics:
                return 1
            if letter == Dim.F and self.groups > 1:
                return self.groups
            return -(-size // self.chunk) if letter == Dim.N and self.chunk else size

        return tuple(extent(letter, size) for letter, size in zip(self.dims, self.shape, strict=True))

    @property
    def statistics_values(self) -> int:
        """What is merged per position: mean and deviation, or the logarithm of the sum of a query's scores."""
        return 1 if self.kind is Kind.ATTENTION else 2

    @property
    def factor(self) -> tuple[str, tuple[int, ...]]:
        """Letters and shape of what a product multiplies its input with: a parameter, a buffer, or computed."""
        held = [(weight.dims, weight.shape) for weight in (*self.weights, *self.buffers)]
        computed = zip(self.input_dims[1:], self.input_shapes[1:], strict=True)
        return max([*held, *computed], key=lambda tensor: len(tensor[0]))  # the others are biases

    @property
    def taps(self) -> int:
        """Positions that one output reads of each channel."""
        return prod(window.kernel for window in self.windows.values())

    def extents(self, dim: Dim) -> list[int]:
        """The sizes of `dim` in every tensor that has it (H may differ between input and output)."""
        tensors = [*zip(self.input_dims, self.input_shapes, strict=True), (self.dims, self.shape)]
        tensors += [(weight.dims, weight.shape) for weight in (*self.weights, *self.buffers)]
        return [shape[dims.index(dim)] for dims, shape in tensors if dim in dims]

    @property
    def reduction(self) -> int:
        """Products that are added up for one item of a product's output; of attention, for one score and its use."""
        if self.kind is Kind.ATTENTION:
            return self.input_shapes[0][-1] + self.shape[-1]
        if self.kind is Kind.MATMUL:
            return self.extents(Dim.C)[0]
        dims, shape = self.factor
        return prod(shape) // shape[dims.index(Dim.F)]

    def flops(self) -> int:
        """Multiply-adds of the forward pass, times two; 0 where memory traffic is all that counts."""
        if not self.kind.has(Trait.PRODUCT):
            return 0
        if self.kind is Kind.ATTENTION:  # every query meets every key
            return 2 * prod(self.shape[:-1]) * self.input_shapes[1][-2] * self.reduction
        if self.kind is Kind.MATMUL:
            return 2 * prod(self.shape) * self.reduction
        # Every weight meets every output position once (transposed: every input position).
        transposed = any(window.transposed for window in self.windows.values())
        dims, shape = (self.input_dims[0], self.input_shapes[0]) if transposed else (self.dims, self.shape)
        positions = prod(size for letter, size in zip(dims, shape, strict=True) if letter not in (Dim.F, Dim.C))
        return 2 * prod(self.factor[1]) * positions


def scaled_batch(dims: str, shape: tuple[int, ...], before: int, batch: int) -> tuple[int, ...]:
    """`shape` for another batch; its batch dim may hold several windows of every sample."""
    return tuple(
        size // before * batch if letter in (Dim.N, BATCH) else size for letter, size in zip(dims, shape, strict=True)
    )
