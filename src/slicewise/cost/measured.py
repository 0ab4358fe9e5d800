"""The cost model of layers that were timed one by one: a layer takes what its part was seen to take.

What was not timed takes what `calibrated` says. A time is found by its key: the operator with its numbers, and how many
items a device's part has of every input, the output and the weights; whether a norm's statistics are shared, and how
many parts windows reach out of:

    conv2d/5f1c09ab/602112/1605632/9408/0,1/fp32/sgd
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha1
from typing import Any, ClassVar, final

import numpy as np

from slicewise.cost.calibrated import CalibratedCompute
from slicewise.cost.compute import Compute, Share, shares
from slicewise.cost.own import OwnModel
from slicewise.cost.training import Training
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.partition.choices import Choices, Floats
from slicewise.partition.layout import Slicing


@final
@dataclass(frozen=True, slots=True)
class MeasuredCompute(Compute):
    def forward_s(self, layer: Layer, part: Share) -> Floats:
        return self._known(layer, part, "forward_s", self._calibrated.forward_s(layer, part))

    def backward_s(self, layer: Layer, part: Share, passes: Sequence[str]) -> Floats:
        seconds = self._known(layer, part, "backward_s", self._calibrated.backward_s(layer, part, passes))
        return seconds + self.forward_s(layer, part) if self.recomputes(layer) else seconds

    def update_s(self, layer: Layer, part: Share) -> Floats:
        otherwise = self._calibrated.update_s(layer, part)
        if not any(weight.updated for weight in layer.weights):  # nothing is, whatever a table says
            return otherwise
        return self._known(layer, part, "update_s", otherwise)

    def pipeline_s(self) -> tuple[float, float]:
        return self._calibrated.pipeline_s()

    @property
    def _calibrated(self) -> CalibratedCompute:
        return CalibratedCompute(self.cluster, replace(self.training, recompute=False))

    def _known(self, layer: Layer, part: Share, what: str, otherwise: Floats) -> Floats:
        """Times were taken of all ranks at once: neither shared cores nor a network's pace change them."""
        times = self.cluster.times
        if not times or layer.kind.has(Trait.FREE):
            return otherwise
        found = [getattr(times.get(key), what, None) for key in keys(layer, part, self.training)]
        return np.array([a if a is not None else b for a, b in zip(found, otherwise, strict=True)], dtype=float)


def keys(layer: Layer, part: Share, training: Training) -> Iterator[str]:
    """One per choice."""
    head = f"{_operator(layer)}/{_signature(layer)}"
    tail = f"{training.dtype}/{training.optimizer}"
    inputs, weights = np.stack([*part.inputs, part.output], axis=1), part.weight_items
    for row in range(len(part.output)):
        items = "/".join(str(int(count)) for count in inputs[row])
        yield f"{head}/{items}/{int(weights[row])}/{int(part.sharing[row] > 1)},{int(part.borders[row])}/{tail}"


def _operator(layer: Layer) -> str:
    name = str(layer.options.get("op", "")).removeprefix("aten.").partition(".")[0]
    return name or layer.kind.value


def _signature(layer: Layer) -> str:
    """Whatever makes the operator another one, but for sizes."""
    told = [
        layer.kind.value,
        layer.options.get("op"),
        {name: _numbers(value) for name, value in layer.options.get("arguments", {}).items()},
        bool(layer.options.get("in_place")),
        [weight.trained for weight in layer.weights],
        sorted((dim.value, str(window)) for dim, window in layer.windows.items()),
        layer.groups,
        layer.chunk is not None,
        *(["ring"] if layer.passes_keys else []),
    ]
    return sha1(json.dumps(told, default=str).encode(), usedforsecurity=False).hexdigest()[:8]


def _numbers(value: Any) -> Any:
    """An argument; of a tensor, that it is one."""
    if isinstance(value, Mapping):
        return "tensor"
    return [_numbers(item) for item in value] if isinstance(value, list | tuple) else value


@final
@dataclass(frozen=True, eq=False)
class MeasuredModel(OwnModel):
    """Layers take what MeasuredCompute says."""

    name: ClassVar[str] = "measured"
    coarsens: ClassVar[bool] = False
    recosted: ClassVar[bool] = True
    formulated: ClassVar[bool] = False
    timed: ClassVar[bool] = True
    measures: ClassVar[bool] = True

    @cached_property
    def compute(self) -> Compute:
        return MeasuredCompute(self.cluster, self.training)

    def key(self, layer: Layer, slicing: Slicing) -> str | None:
        """Of a layer's time; None where there is nothing to time."""
        if layer.kind.has(Trait.FREE):
            return None
        part = shares(layer, Choices.of([slicing], self.cluster.mesh))
        return next(keys(layer, part, self.training))

    def untimed(self, slicings: Mapping[str, Slicing]) -> dict[str, str]:
        """Keys that are not known, and a layer for each."""
        found: dict[str, str] = {}
        for layer in self.graph:
            key = self.key(layer, slicings[layer.name])
            if key is not None and key not in self.cluster.times:
                found.setdefault(key, layer.name)
        return found
