"""Batches of which ranks have different numbers of samples: evened out for the network, and handed back.

passed:   rank 0: 8   rank 1: 8   rank 2: 8   rank 3: 5
inside:   rank 0: 8   rank 1: 7   rank 2: 7   rank 3: 7      as the plan's slicings cut 29 samples
returned: rank 0: 8   rank 1: 8   rank 2: 8   rank 3: 5
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicewise.graph.chunks import cut
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.parts import Box, intervals
from slicewise.runtime.clock import span
from slicewise.runtime.exchange import Exchange
from slicewise.runtime.groups import Groups

DIFFERENT = (
    "ranks pass samples of different shapes or dtypes, their modules are in different modes, or one cannot go on"
)


class Evening:
    """Moves samples between what ranks pass and what their parts of the batch are."""

    def __init__(self, counts: Sequence[int], groups: Groups) -> None:
        self.counts, self._groups = tuple(counts), groups
        edges = [0, *np.cumsum(counts).tolist()]
        self._passed = list(pairwise(edges))
        start, stop = intervals(edges[-1], tuple(range(len(groups.mesh.axes))), groups.mesh)
        self._inside = list(zip(start.tolist(), stop.tolist(), strict=True))

    def taken(self, x: Tensor) -> Tensor:
        """This rank's part of the batch, from what ranks pass."""
        return self._move(self._passed, self._inside, x)

    def returned(self, y: Tensor, name: str) -> Tensor:
        """The output for the samples that this rank passed."""
        moved: Tensor = _Moved.apply(y, self, name)
        return moved

    def _move(self, source: list[tuple[int, int]], target: list[tuple[int, int]], x: Tensor) -> Tensor:
        def boxes(rows: list[tuple[int, int]]) -> list[Box]:
            return [(row, *((0, extent) for extent in x.shape[1:])) for row in rows]

        return Exchange.compile(own=boxes(source), needed=boxes(target), me=self._groups.rank, group=None).run(x)


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, evening: Evening, name: str) -> Tensor:
        ctx.evening, ctx.name = evening, name
        with span("transfer", name):
            return evening._move(evening._inside, evening._passed, y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        evening: Evening = ctx.evening
        with span("transfer", ctx.name):
            return evening._move(evening._passed, evening._inside, gradients[0].contiguous()), None, None


def apart(graph: LayerGraph, slicings: Mapping[str, Slicing]) -> bool:
    """Whether every rank computes its own samples without the others': any number of them will do."""
    for layer in graph:
        whole = all(dim is Dim.N for dim in slicings[layer.name])
        if Dim.N in layer.dims and not whole:
            return False
        if Dim.N in layer.statistics:
            return False
        if Dim.N not in layer.dims and any(Dim.N in dims for dims in layer.input_dims):
            return False  # a number for the whole batch
        if layer.kind is Kind.OPAQUE:
            return False  # may mix samples: every rank has them all
    return True


def refusal(graph: LayerGraph, counts: Sequence[int], *, apart: bool, shares: bool) -> str | None:
    """Why ranks that pass so many samples each, and are alike in all else, cannot go on; None if they can.

    `apart`: each computes its own samples alone; `shares`: each passes its own, not the whole batch.
    """
    last = "leave out a smaller last batch (drop_last=True)"
    if not shares:
        return "this plan takes the same whole batch on every rank"
    if 0 in counts:
        return f"every rank needs a sample; {last}"
    if any(Dim.N not in layer.dims for layer in graph.outputs):
        return f"a loss inside the network needs as many samples from every rank; {last}"
    chunks = cut(sum(counts), -(-sum(counts) // len(counts)))
    if not apart and any(layer.chunk is not None for layer in graph) and tuple(counts) != chunks:
        return f"under this plan, local batch norms take chunks of {', '.join(map(str, chunks))} samples; {last}"
    return None
