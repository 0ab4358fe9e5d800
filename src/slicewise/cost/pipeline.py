"""What a pipeline costs: stage s on rank s, the batch in micro-batches that follow each other through the stages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.stage import StageCost
from slicewise.cost.training import WEIGHT_BYTES
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats
from slicewise.partition.stages import Cuts

LOSS_BYTES = 8  # the last stage tells each other rank the loss


@dataclass(frozen=True, eq=False)
class PipelineModel:
    """Prices the stages of a network by `model`, whose batch is cut into `micro_batches`."""

    model: CostModel
    cuts: Cuts
    micro_batches: int

    @property
    def stages(self) -> int:
        return self.model.cluster.devices

    @cached_property
    def layers(self) -> tuple[Cost, ...]:
        """Of one micro-batch, on one device, nothing sliced. What the input stands for is of sliced networks."""
        costs = zip(self.model.graph, self._once, strict=True)
        return tuple(replace(cost, forward_s=0.0) if layer.kind is Kind.INPUT else cost for layer, cost in costs)

    @cached_property
    def step_s(self) -> float:
        """Beside layers and messages, once in a step."""
        return self.model.compute.pipeline_s()[0]

    @cached_property
    def cumulative_s(self) -> Floats:
        """Forward and backward of all layers before each position."""
        return np.cumsum([0.0, *(cost.compute_s for cost in self.layers)])

    def output_bytes(self, position: int) -> int:
        """What goes on behind a layer, of one micro-batch."""
        items = prod(self.model.graph.layers[position].shape) // self.micro_batches
        return items * self.model.training.item_bytes

    def returns_gradient(self, position: int) -> bool:
        return self.model.graph.layers[position].name in self.model.graph.gradients

    def link_s(self, boundary: int, position: int) -> float:
        """From rank `boundary` to the next, over the outermost tier that lies between, shared with nobody."""
        cluster = self.model.cluster
        mesh = cluster.mesh
        differ = mesh.coordinates[boundary] != mesh.coordinates[boundary + 1]
        tier = min(axis.tier for axis, differs in zip(mesh.axes, differ, strict=True) if differs)
        racks, node = cluster.tiers[0].racks, cluster.devices // cluster.tiers[0].size
        if racks is not None and boundary // node // racks.size != (boundary + 1) // node // racks.size:
            link = racks.link("send")
        else:
            link = cluster.tiers[tier].link("send")
        return link.latency_s + self.output_bytes(position) / link.bytes_per_s

    def stage_costs(self, positions: Sequence[int]) -> tuple[StageCost, ...]:
        return tuple(self._stage(positions, number) for number in range(len(positions) + 1))

    def _stage(self, positions: Sequence[int], number: int) -> StageCost:
        first, last = number == 0, number == len(positions)
        start = 0 if first else positions[number - 1] + 1
        stop = len(self.layers) if last else positions[number] + 1
        own = self.layers[start:stop]
        _, turn_s = self.model.compute.pipeline_s()
        returns = not last and self.returns_gradient(positions[number])
        # activations grow with the samples, weights do not
        kept = [twice.memory_bytes - once.memory_bytes for once, twice in zip(self.layers, self._twice, strict=True)]
        arriving = [self.model.graph.index[layer.name] for layer in self.model.graph.inputs] if first else [start - 1]
        received = sum(self.output_bytes(position) for position in arriving)
        sent = 0 if last else self.output_bytes(stop - 1)
        adding = [self._added_bytes(layer) for layer in self.model.graph]
        kept_received = min(received, sum(kept[reader] for each in arriving for reader in self._readers[each]))
        return StageCost(
            forward_s=turn_s / 2 + sum(cost.forward_s for cost in own),
            backward_s=turn_s / 2 + sum(cost.backward_s for cost in own),
            update_s=sum(cost.update_s for cost in own),
            output_s=0.0 if first else self.link_s(number - 1, start - 1),
            gradient_s=self.link_s(number, stop - 1) if returns else None,
            weight_bytes=sum(cost.memory_bytes for cost in own) - sum(kept[start:stop]),
            kept_bytes=sum(kept[start:stop]) - kept_received - self._kept_again(arriving, range(start, stop)),
            received_bytes=received,
            sent_bytes=sent,
            returned_bytes=sent if returns else 0,
            transient_bytes=max(
                cost.transient_bytes + added for cost, added in zip(own, adding[start:stop], strict=True)
            ),
        )

    def _kept_again(self, arriving: Sequence[int], stage: range) -> int:
        """Bytes that several layers of a stage keep as their input: they are there once."""
        if self.model.training.recompute:
            return 0
        graph = self.model.graph
        made = [position for position in stage if not graph.layers[position].kind.has(Trait.FREE)]
        again = 0
        for position in (*arriving, *made):
            readers = [reader for reader in self._readers[position] if reader in stage]
            trained = [reader for reader in readers if graph.layers[reader].name in graph.gradients]
            again += max(0, len(trained) - 1) * self.output_bytes(position)
        return again

    def _added_bytes(self, layer: Layer) -> int:
        """While the gradient of a micro-batch is added to those before it, the largest weight has two."""
        if self.micro_batches == 1:
            return 0
        return WEIGHT_BYTES * max((prod(weight.shape) for weight in layer.weights if weight.trained), default=0)

    @cached_property
    def _readers(self) -> list[list[int]]:
        """By layer, those that keep its output as their own input."""
        graph = self.model.graph
        found: list[list[int]] = [[] for _ in graph.layers]
        for reader in reversed(range(len(graph.layers))):
            layer = graph.layers[reader]
            for source in dict.fromkeys(layer.inputs):
                if layer.kind.has(Trait.KEEPS_INPUT):
                    found[graph.index[source]].append(reader)
                elif layer.kind.has(Trait.FREE):
                    found[graph.index[source]] += found[reader]
        return found

    @cached_property
    def _once(self) -> tuple[Cost, ...]:
        return self._costs(1)

    @cached_property
    def _twice(self) -> tuple[Cost, ...]:
        return self._costs(2)

    def _costs(self, times: int) -> tuple[Cost, ...]:
        whole = self.model
        samples = times * whole.graph.batch // self.micro_batches
        model = type(whole)(whole.graph.with_batch(samples), whole.cluster, whole.training)
        nothing = Choices.of([(None,) * len(model.cluster.mesh.axes)], model.cluster.mesh)
        known: dict[int, Cost] = {}
        for layer, alike in zip(model.graph, model.alike, strict=True):
            if alike not in known:
                timed = model.layer_seconds(layer, nothing)
                known[alike] = Cost(
                    forward_s=float(timed.forward_s[0]),
                    backward_s=float(timed.backward_s[0]),
                    update_s=float(timed.update_s[0]),
                    memory_bytes=int(timed.memory_bytes[0]),
                    transient_bytes=int(timed.transient_bytes[0]),
                )
        return tuple(known[alike] for alike in model.alike)
