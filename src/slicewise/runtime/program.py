"""A plan compiled for one rank: for each layer, in order, the moves on its inputs, then its kernel.

With recompute, a stretch of layers up to the next product is a segment: what its layers save is forgotten and computed
again in backward, halos and statistics included, so that only the products' outputs are kept.

    conv1 | norm relu pool conv2 | norm relu conv3 |        kept: the outputs of conv1, conv2, conv3
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Layout, Slicing, layouts
from slicewise.partition.legal import check_legal
from slicewise.runtime.clock import computed
from slicewise.runtime.groups import Groups
from slicewise.runtime.kernels import Context, Kernel, compile_kernel
from slicewise.runtime.moves import Move, compile_moves, move


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One layer."""

    layer: Layer
    moves: dict[int, tuple[list[Move], list[Move]]]  # inputs that move: value forward, gradient backward
    kernel: Kernel
    frees: tuple[str, ...]  # inputs that nobody reads later


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    steps: tuple[_Step, ...]
    reads: tuple[str, ...]  # values from before
    leaves: tuple[str, ...]  # values for later


class Program:
    """`run` takes the inputs' parts and returns the outputs' parts, in the graph's order."""

    def __init__(
        self,
        graph: LayerGraph,
        slicings: Mapping[str, Slicing],
        context: Context,
        *,
        given: Mapping[str, Layout] | None = None,
        recompute: bool = False,
    ) -> None:
        """`given`: how inputs lie that do not come as their slicings say."""
        self.graph = graph
        self._context = context
        context.batch = graph.batch
        last = {source: layer.name for layer in graph for source in layer.inputs}
        steps = []
        for layer in graph:
            check_legal(layer, slicings[layer.name], context.groups.mesh)
            if layer.kind is Kind.INPUT:
                continue
            steps.append(
                _Step(
                    layer=layer,
                    moves={
                        slot: moves
                        for slot in range(len(layer.inputs))
                        if any(moves := _edge(graph, slicings, layer, slot, context.groups, given or {}))
                    },
                    kernel=compile_kernel(layer, slicings[layer.name], context),
                    frees=tuple(dict.fromkeys(source for source in layer.inputs if last[source] == layer.name)),
                )
            )
        self._segments = _segments(steps) if recompute else [_Segment(steps=tuple(steps), reads=(), leaves=())]
        self._recompute = recompute
        self._passes = 0

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        self._passes += 1
        values = {layer.name: x for layer, x in zip(self.graph.inputs, inputs, strict=True)}
        if not self._recompute or not torch.is_grad_enabled():
            for segment in self._segments:
                self._execute(segment.steps, values)
        else:
            for segment in self._segments:
                self._execute_again_in_backward(segment, values)
        return [values[layer.name] for layer in self.graph.outputs]

    def _execute_again_in_backward(self, segment: _Segment, values: dict[str, Tensor]) -> None:
        context, first = self._context, self._context.now

        def run(*given: Tensor) -> tuple[Tensor, ...]:
            nonlocal first
            now, context.now = context.now, first
            first = replace(first, again=True)  # the next time
            try:
                inner = dict(zip(segment.reads, given, strict=True))
                self._execute(segment.steps, inner)
            finally:
                context.now = now
            return tuple(inner[name] for name in segment.leaves)

        given = [values[name] for name in segment.reads]
        for step in segment.steps:
            for name in step.frees:
                values.pop(name, None)
        outputs = checkpoint(run, *given, use_reentrant=False, preserve_rng_state=False)
        values.update(zip(segment.leaves, outputs, strict=True))

    def _execute(self, steps: Sequence[_Step], values: dict[str, Tensor]) -> None:
        for step in steps:
            layer = step.layer
            arguments = [values[source] for source in layer.inputs]
            for slot, (forward, backward) in step.moves.items():
                arguments[slot] = move(arguments[slot], forward, backward, layer.name)
            for source in step.frees:
                del values[source]
            # what is wrong with a layer shows in its first pass; later ones are not slowed down by names
            values[layer.name] = computed(layer.name, step.kernel, arguments, in_backward=self._passes == 1)
            del arguments


def _edge(
    graph: LayerGraph,
    slicings: Mapping[str, Slicing],
    layer: Layer,
    slot: int,
    groups: Groups,
    given: Mapping[str, Layout],
) -> tuple[list[Move], list[Move]]:
    producer = graph[layer.inputs[slot]]
    before = layouts(producer, slicings[producer.name])
    after = layouts(layer, slicings[layer.name])
    source = given.get(producer.name, before.output)
    forward = compile_moves(producer.shape, source, after.inputs[slot], groups)
    if producer.name not in graph.gradients:
        return forward, []
    backward = compile_moves(producer.shape, after.input_gradients[slot], before.output_gradient, groups)
    return forward, backward


def _segments(steps: Sequence[_Step]) -> list[_Segment]:
    """Cut behind each product; outputs are values for later."""
    stretches: list[list[_Step]] = [[]]
    for step in steps:
        stretches[-1].append(step)
        if step.layer.kind.has(Trait.PRODUCT):
            stretches.append([])
    segments = []
    for number, stretch in enumerate(stretches):
        inside = {step.layer.name for step in stretch}
        read = dict.fromkeys(source for step in stretch for source in step.layer.inputs)
        later = {source for other in stretches[number + 1 :] for step in other for source in step.layer.inputs}
        outputs = {step.layer.name for step in stretch if step.layer.kind is Kind.OUTPUT}
        leaves = tuple(step.layer.name for step in stretch if step.layer.name in later | outputs)
        segments.append(
            _Segment(
                steps=tuple(stretch),
                reads=tuple(source for source in read if source not in inside),
                leaves=leaves,
            )
        )
    return [segment for segment in segments if segment.steps]
