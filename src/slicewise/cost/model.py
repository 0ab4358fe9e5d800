"""What every cost model answers: seconds of layers and edges for many slicings at once, and a plan's costs.

`layer_seconds` and `edge_seconds` are what the search needs; a plan's costs are the same for one slicing each, with
the bytes counted exactly. The models: `analytic.py`, `calibrated.py`, `measured.py`,
`optcnn.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from slicewise.cluster.cluster import Cluster
from slicewise.cost.breakdown import Cost, LayerSeconds
from slicewise.cost.compute import AnalyticCompute, Compute, Share, shares
from slicewise.cost.network import Network
from slicewise.cost.training import PLAIN, WEIGHT_BYTES, Training
from slicewise.cost.uncertainty import Case, Doubt, doubt_of, doubt_of_network
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import KEYS, Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.rings import ROWS_AT_ONCE
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space

_OPERANDS = 3  # query, key and value; a mask serves many layers


@dataclass(frozen=True, eq=False)
class CostModel(ABC):
    """Prices layers and edges of `graph` on `cluster`.

    What a device does by itself (compute, memory) is the same for all models; each says what moving data costs.
    """

    graph: LayerGraph
    cluster: Cluster
    training: Training = PLAIN

    name: ClassVar[str]
    assumes: ClassVar[str] = ""  # whose assumptions, where they are not our own
    space: ClassVar[Space]  # the slicings that it has prices for
    overlaps: ClassVar[bool]  # whether gradients travel beside backward: its plans are then simulated
    coarsens: ClassVar[bool]  # whether merging inner axes gives a lower bound (search/coarse.py)
    pipelines: ClassVar[bool]  # whether it prices the stages of a pipeline
    recosted: ClassVar[bool]  # whether cost/recost.py prices its plans a second time
    formulated: ClassVar[bool] = True  # whether compute is docs/cost.md's formula; else recost.py takes it as given
    timed: ClassVar[bool] = False  # whether layers take what they were seen to take, one by one, where that is known
    measures: ClassVar[bool] = False  # whether the layers of its plans are timed on this machine before it prices them

    @cached_property
    def network(self) -> Network:
        return Network(self.cluster)

    @cached_property
    def compute(self) -> Compute:
        return AnalyticCompute(self.cluster, self.training)

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """A number per layer: layers with the same number cost the same, whatever their names."""
        numbers: dict[object, int] = {}
        return tuple(numbers.setdefault(self._likeness(layer), len(numbers)) for layer in self.graph)

    @cached_property
    def case(self) -> Case:
        """What its seconds are of."""
        return Case(
            model=self.graph.name,
            strategy=None,
            dtype=self.training.dtype,
            optimizer=self.training.optimizer,
            devices=self.cluster.devices,
            batch=self.graph.batch,
        )

    @cached_property
    def doubt(self) -> Doubt:
        """How far its seconds may be off."""
        share = self.graph.with_batch(-(-self.graph.batch // self.cluster.devices))
        one = self.cluster.with_devices(1)

        def whole_s(machine: Cluster) -> list[float]:
            return replace(self, graph=share, cluster=machine).whole_seconds()

        def of_network() -> Doubt:
            return doubt_of_network(share.layers, one, whole_s(one), lambda machine: sum(whole_s(machine)))

        return doubt_of(self.case, one, of_network)

    def whole_seconds(self) -> list[float]:
        """Forward and backward of every layer, uncut."""
        nothing = Choices.of([(None,) * len(self.cluster.mesh.axes)], self.cluster.mesh)
        known: dict[int, float] = {}
        for layer, alike in zip(self.graph, self.alike, strict=True):
            if alike not in known:
                work = self.device_work(layer, shares(layer, nothing))
                known[alike] = float(work["forward_s"][0] + work["backward_s"][0])
        return [known[alike] for alike in self.alike]

    def all_updates_s(self) -> float:
        """The optimizer's step over all weights, uncut."""
        nothing = Choices.of([(None,) * len(self.cluster.mesh.axes)], self.cluster.mesh)
        return sum(float(self.compute.update_s(layer, shares(layer, nothing))[0]) for layer in self.graph)

    def amortised_sync_s(self, layer: Layer, choices: Choices) -> Floats:
        """`sync_s` with each layer's share of the latency of the bucket that its gradients travel in."""
        return self.layer_seconds(layer, choices).sync_s

    @abstractmethod
    def layer_seconds(self, layer: Layer, choices: Choices) -> LayerSeconds:
        """What depends on this layer's slicing alone, for every choice."""

    @abstractmethod
    def edge_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        """[before, after] -> the layout change on one edge: values forward, gradients backward."""

    def edge_likeness(self, consumer: Layer, slot: int) -> object:
        """Equal for edges that cost the same between the same choices."""
        index = self.graph.index
        return self.alike[index[consumer.inputs[slot]]], self.alike[index[consumer.name]], slot

    @abstractmethod
    def pair_seconds(self, consumer: Layer, slot: int, before: Choices, after: Choices) -> Floats:
        """The diagonal of `edge_seconds`: row by row the same edge between two choices."""

    @abstractmethod
    def layer_cost(self, layer: Layer, slicing: Slicing) -> Cost:
        """`layer_seconds` of one slicing, with the bytes that are sent."""

    @abstractmethod
    def edge_cost(self, consumer: Layer, slot: int, before: Slicing, after: Slicing) -> Cost:
        """`edge_seconds` of one pair of slicings, with the bytes that are sent."""

    def plan_costs(self, slicings: Mapping[str, Slicing]) -> dict[str, Cost]:
        """Per layer, with the edges into it. Equal layers, and equal edges, that are sliced alike are priced once."""
        known, costs = self._known_costs, {}

        def priced(key: object, price: Callable[[], Cost]) -> Cost:
            if key not in known:
                known[key] = price()
            return known[key]

        for layer, alike in zip(self.graph, self.alike, strict=True):
            after = slicings[layer.name]
            costs[layer.name] = priced((alike, after), partial(self.layer_cost, layer, after))
            for slot, source in enumerate(layer.inputs):
                before = slicings[source]
                edge = (self.edge_likeness(layer, slot), before, after)
                costs[layer.name] += priced(edge, partial(self.edge_cost, layer, slot, before, after))
        return costs

    @cached_property
    def _known_costs(self) -> dict[object, Cost]:
        return {}

    def item_bytes(self, layer: Layer) -> int:
        """Of one item of a layer's output, where it is sent; windows move what they read as it is."""
        return layer.own_bytes or self.training.item_bytes

    def returns_gradient(self, consumer: Layer, slot: int) -> bool:
        """Whether a gradient goes back along an edge: its producer wants one, and its consumer has one to give."""
        return {consumer.name, consumer.inputs[slot]} <= self.graph.gradients

    def wants_input_gradient(self, layer: Layer) -> bool:
        return any(self.returns_gradient(layer, slot) for slot in range(len(layer.inputs)))

    def passes(self, layer: Layer) -> tuple[str, ...]:
        """A product has a gradient to compute for what it reads and one for its factor; other layers make one pass."""
        if not layer.kind.has(Trait.PRODUCT):
            return ("backward_input",)
        operand, *computed = (self.returns_gradient(layer, slot) for slot in range(len(layer.inputs)))
        of_the_factor = any(computed) or any(weight.trained for weight in layer.weights)
        return ("backward_input",) * operand + ("backward_weight",) * of_the_factor

    def key_rounds(self, layer: Layer) -> int:
        """How often keys and values go round: forward, again in backward, and then their gradients."""
        returns = any(self.returns_gradient(layer, slot) for slot in KEYS)
        return 1 + (layer.name in self.graph.gradients) + returns

    def lent_forward(self, layer: Layer) -> float:
        """The share of `halo_s` that forward takes."""
        if layer.passes_keys:
            return 1 / self.key_rounds(layer)
        return 0.5 if layer.name in self.graph.gradients and self.wants_input_gradient(layer) else 1.0

    def device_work(self, layer: Layer, part: Share) -> dict[str, Any]:
        """The fields of `LayerSeconds` that a device has by itself, whatever it sends: forward, backward and memory."""
        none, trains = np.zeros(len(part.output)), layer.name in self.graph.gradients
        return {
            "forward_s": self.compute.forward_s(layer, part),
            "backward_s": self.compute.backward_s(layer, part, self.passes(layer)) if trains else none,
            "memory_bytes": self._memory_bytes(layer, part),
            "transient_bytes": (sum(part.inputs, part.output) + _spelled_out(layer, part)) * self.training.item_bytes,
        }

    def _memory_bytes(self, layer: Layer, part: Share) -> Ints:
        """Weights, their gradients and optimizer state; what autograd keeps for backward.

        A narrow dtype adds a copy of the weights; what is recomputed is not kept.
        """
        training = self.training
        copies = training.item_bytes if training.item_bytes < WEIGHT_BYTES else 0
        kept = np.zeros_like(part.output)
        for weight, items in zip(layer.weights, part.weights, strict=True):
            if not weight.again:
                kept = kept + items * (WEIGHT_BYTES * (2 + training.state_items if weight.trained else 1) + copies)
        return kept + self.kept_items(layer, part) * training.item_bytes

    def kept_items(self, layer: Layer, part: Share) -> Ints:
        """Activations that a layer keeps for backward."""
        kept = np.zeros_like(part.output)
        if layer.name not in self.graph.gradients:
            return kept
        if layer.kind.has(Trait.KEEPS_INPUT) and not self.training.recompute:
            read = part.inputs[:_OPERANDS] if layer.kind.has(Trait.KEEPS_ALL) else part.inputs[:1]
            kept = kept + sum(read)
        return kept + part.output if layer.name in self._keeps_output else kept

    @cached_property
    def _keeps_output(self) -> frozenset[str]:
        """Layers whose output backward needs, and no reader keeps as its own input.

        Functions of one input, in place or not, and attention. With recompute instead the products, from which the
        layers up to the next product are computed again.
        """
        readers: dict[str, list[Layer]] = {}
        for layer in self.graph:
            for source in layer.inputs:
                readers.setdefault(source, []).append(layer)

        def read(name: str, trait: Trait) -> bool:
            return any(
                read(reader.name, trait) if reader.kind.has(Trait.FREE) else reader.kind.has(trait)
                for reader in readers.get(name, [])
            )

        if self.training.recompute:
            return frozenset(
                layer.name for layer in self.graph if layer.kind.has(Trait.PRODUCT) and read(layer.name, Trait(0))
            )
        reads_output = [
            layer.name
            for layer in self.graph
            if layer.kind is Kind.ATTENTION or (layer.kind is Kind.ELEMENTWISE and len(layer.inputs) == 1)
        ]
        return frozenset(name for name in reads_output if not read(name, Trait.KEEPS_INPUT))

    def _likeness(self, layer: Layer) -> object:
        return (
            layer.kind,
            layer.options.get("op"),
            layer.input_shapes,
            layer.input_dims,
            layer.shape,
            layer.dims,
            tuple((weight.shape, weight.dims, weight.trained, weight.shared, weight.again) for weight in layer.weights),
            tuple((buffer.shape, buffer.dims) for buffer in layer.buffers),
            tuple(layer.windows.items()),
            layer.groups,
            layer.statistics,
            layer.chunk,
            layer.own_bytes,
            layer.name in self._keeps_output,
            layer.name in self.graph.gradients,
            tuple(self.returns_gradient(layer, slot) for slot in range(len(layer.inputs))),
        )


def _spelled_out(layer: Layer, part: Share) -> Ints | int:
    """Items beside inputs and output where attention is computed in plain operators: sliced by key, or in a ring.

    Scores are there three times: as they are, their exponentials, and the gradients of these. Where keys are passed
    round, those of some queries, and beside them the next part, its gradients and those of this one.
    """
    if layer.kind is not Kind.ATTENTION:
        return 0
    if not layer.passes_keys:
        return np.where(part.sharing > 1, 3 * part.rows * part.groups * part.columns, 0)
    scores = 3 * np.minimum(part.rows, ROWS_AT_ONCE) * part.groups * part.block
    return np.where(part.block < part.columns, scores + sum(4 * part.inputs[slot] for slot in KEYS), 0)
