"""Cutting a network into a sequence of stages, behind layers whose output is all that the rest reads.

input conv1 relu1 fork conv2 add | relu2 flatten linear output
                    └─────────┘  ^ one tensor is alive here: a cut behind `add`
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from slicewise.errors import InfeasibleError, PlanError
from slicewise.graph.dims import BATCH, WHOLE, Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where `graph` can be cut. A cut is the position of the layer it lies behind."""

    graph: LayerGraph

    @cached_property
    def legal(self) -> tuple[int, ...]:
        return tuple(position for position in range(len(self.graph)) if self.refusal(position) is None)

    @property
    def most_stages(self) -> int:
        return len(self.legal) + 1

    def refusal(self, position: int) -> str | None:
        """Why the network cannot be cut behind the layer at `position`; None if it can."""
        layer = self.graph.layers[position]
        if layer.kind is Kind.INPUT or self._tail <= position + 1:
            return "a stage would have nothing to compute"
        if layer.kind is Kind.FORK:
            return f"that is a fork; cut behind {layer.inputs[0]}, before it"
        alive = self._alive[position]
        if alive != {layer.name}:
            others = sorted(alive - {layer.name})
            return f"later layers also read {', '.join(others[:3])}{' ...' if len(others) > 3 else ''}"
        late = next((name for name, at in self._ends[Kind.INPUT] if at > position), None)
        if late is not None:
            return f"{late} is an input of the network, and those are the first stage's"
        if any(at <= position for _, at in self._ends[Kind.OUTPUT]):
            return "an output of the network comes from before"
        torn = next((name for name, (first, last) in self._shared.items() if first <= position < last), None)
        if torn is not None:
            return f"layers on both sides share {torn}"
        if not set(layer.dims) & {Dim.N, BATCH} or not self._computed(position):
            return f"the output of {layer.name} is not made of samples and weights"
        return None

    def positions(self, names: Sequence[str]) -> tuple[int, ...]:
        """The cuts behind the layers called `names`, all legal and in the network's order."""
        found: list[int] = []
        for name in names:
            if name not in self.graph.index:
                raise PlanError(f"cannot cut behind {name!r}: {self.graph.name} has no layer of that name")
            position = self.graph.index[name]
            reason = self.refusal(position)
            if reason:
                raise PlanError(f"cannot cut behind {name}: {reason}; near it: {self._near(position)}")
            if found and position <= found[-1]:
                raise PlanError(f"stages overlap: {name} does not come after {self.graph.layers[found[-1]].name}")
            found.append(position)
        return tuple(found)

    def check_stages(self, stages: int) -> None:
        if stages < 2:
            raise InfeasibleError(f"a pipeline needs two devices or more (got {stages})")
        if stages > self.most_stages:
            raise InfeasibleError(
                f"{self.graph.name} cuts into {self.most_stages} stages at most, one tensor going on behind each; "
                f"{stages} devices need {stages}"
            )

    def stage(self, positions: Sequence[int], number: int) -> LayerGraph:
        """One of the stages between cuts: a network of its own, from INPUT to OUTPUT."""
        layers = self.graph.layers
        start = positions[number - 1] + 1 if number else 0
        stop = positions[number] + 1 if number < len(positions) else len(layers)
        own = list(layers[start:stop])
        if number:
            own = [_received(layers[start - 1]), *_kept_apart(own, layers[start - 1].name)]
        if number < len(positions):
            own.append(_sent(layers[stop - 1]))
        return LayerGraph(name=f"{self.graph.name}, stage {number}", layers=tuple(own))

    @cached_property
    def _alive(self) -> tuple[frozenset[str], ...]:
        """Per position, the outputs of layers up to it that layers behind it read."""
        last = {source: position for position, layer in enumerate(self.graph) for source in layer.inputs}
        alive: set[str] = set()
        result = []
        for position, layer in enumerate(self.graph):
            alive.add(layer.name)
            alive = {name for name in alive if last.get(name, -1) > position}
            result.append(frozenset(alive))
        return tuple(result)

    @cached_property
    def _tail(self) -> int:
        """The position behind the last layer that computes."""
        return 1 + max(p for p, layer in enumerate(self.graph) if not layer.kind.has(Trait.EDGE))

    @cached_property
    def _ends(self) -> dict[Kind, list[tuple[str, int]]]:
        """The network's inputs and outputs, and where they stand."""
        ends: dict[Kind, list[tuple[str, int]]] = {Kind.INPUT: [], Kind.OUTPUT: []}
        for position, layer in enumerate(self.graph):
            if layer.kind in ends:
                ends[layer.kind].append((layer.name, position))
        return ends

    @cached_property
    def _shared(self) -> dict[str, tuple[int, int]]:
        """Per weight and buffer that several layers read, the first and the last of them."""
        spans: dict[str, tuple[int, int]] = {}
        for position, layer in enumerate(self.graph):
            for name in held_names(layer):
                spans[name] = (spans.get(name, (position, position))[0], position)
        return {name: span for name, span in spans.items() if span[0] < span[1]}

    def _computed(self, position: int) -> bool:
        """Whether a tensor is a product of weights: then it has their dtype, which no graph tells."""
        layer = self.graph.layers[position]
        return layer.differentiable and any(layer.weights for layer in self.graph.layers[: position + 1])

    def _near(self, position: int) -> str:
        if not self.legal:
            return f"none, {self.graph.name} cannot be cut"
        nearest = sorted(sorted(self.legal, key=lambda cut: abs(cut - position))[:3])
        return ", ".join(self.graph.layers[cut].name for cut in nearest)


def held_names(layer: Layer) -> Iterator[str]:
    """Weights and buffers that a layer reads, by their names in the model."""
    yield from (held.name for held in (*layer.weights, *layer.buffers))
    yield from _references(layer.options.get("arguments", {}))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (value[kind] for kind in ("weight", "buffer") if isinstance(value.get(kind), str))
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)


def _received(layer: Layer) -> Layer:
    return Layer(
        name=layer.name,
        kind=Kind.INPUT,
        inputs=(),
        input_shapes=(),
        input_dims=(),
        shape=layer.shape,
        dims=layer.dims,
    )


def _sent(layer: Layer) -> Layer:
    dims = layer.dims.replace(Dim.F, WHOLE)
    return Layer(
        name=f"{layer.name} -> next stage",
        kind=Kind.OUTPUT,
        inputs=(layer.name,),
        input_shapes=(layer.shape,),
        input_dims=(dims,),
        shape=layer.shape,
        dims=dims,
    )


def _kept_apart(layers: Sequence[Layer], received: str) -> list[Layer]:
    """Nothing is written into what was received: autograd refuses that for a tensor that wants a gradient."""
    aliases = {received}
    result = []
    for layer in layers:
        if aliases & set(layer.inputs):
            if layer.options.get("in_place"):
                options = {name: value for name, value in layer.options.items() if name != "in_place"}
                layer = replace(layer, options=options)
            elif layer.kind is Kind.FORK or "drop" in layer.options.get("op", ""):
                aliases.add(layer.name)  # hands on what it reads, if need be
        result.append(layer)
    return result
