"""A network as slicewise sees it: layers in execution order, saved as readable JSON."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import asdict as values_of

from slicewise.errors import GraphError
from slicewise.formats.checking import check_version, checked
from slicewise.formats.files import parse_json, read_text
from slicewise.graph.checks import check_graph, check_sizes
from slicewise.graph.dims import BATCH, Dim
from slicewise.graph.graph_file import GraphFields, LayerFields
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer, Weight, scaled_batch
from slicewise.graph.returns import Returns
from slicewise.graph.window import Window
from slicewise.saving import write_file

SCHEMA_VERSION = 1
READABLE = (1,)
_OF = " of layers "  # between the fingerprint of a model and the digest of what was captured of it


@dataclass(frozen=True, kw_only=True)
class LayerGraph:
    """Layers in topological order. Only a fork has more than one consumer."""

    name: str
    layers: tuple[Layer, ...]
    returns: Returns | None = field(default=None, compare=False)  # unknown in files of earlier releases
    fingerprint: str | None = field(default=None, compare=False)  # of the model, where it has one

    def __post_init__(self) -> None:
        seen: set[str] = set()
        used: set[str] = set()
        forks = {layer.name for layer in self.layers if layer.kind is Kind.FORK}
        for layer in self.layers:
            if layer.name in seen:
                raise GraphError(f"{self.name}: two layers are called {layer.name!r}")
            for source in layer.inputs:
                if source not in seen:
                    raise GraphError(f"{self.name}: {layer.name} reads {source!r}, which no layer before it writes")
                if source in used and source not in forks:
                    raise GraphError(f"{self.name}: {source!r} has several consumers and needs a fork")
                used.add(source)
            seen.add(layer.name)
        for weight in (weight for layer in self.layers for weight in layer.weights):
            if len(self.readers[weight.name]) > 1 and not weight.shared:
                readers = " and ".join(self.layers[position].name for position in self.readers[weight.name])
                raise GraphError(f"{self.name}: {readers} share {weight.name}, which is not marked as shared")

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __getitem__(self, name: str) -> Layer:
        return self.layers[self.index[name]]

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {layer.name: position for position, layer in enumerate(self.layers)}

    @cached_property
    def edges(self) -> tuple[tuple[int, int, int], ...]:
        """(producer, consumer, which of the consumer's inputs), as positions."""
        return tuple(
            (self.index[source], position, slot)
            for position, layer in enumerate(self.layers)
            for slot, source in enumerate(layer.inputs)
        )

    @cached_property
    def gradients(self) -> frozenset[str]:
        """Layers whose output gets a gradient: between a trained weight and an output, with nothing that stops it."""
        trained: set[str] = set()
        for layer in self.layers:
            trains = any(weight.trained for weight in layer.weights) or any(s in trained for s in layer.inputs)
            if trains and layer.differentiable:
                trained.add(layer.name)
        if not self.outputs:
            return frozenset(trained)
        reaching: set[str] = set()
        for layer in reversed(self.layers):
            if layer.kind is Kind.OUTPUT or layer.name in reaching:
                reaching.add(layer.name)
                reaching.update(layer.inputs if layer.differentiable else ())
        return frozenset(trained & reaching)

    @cached_property
    def readers(self) -> Mapping[str, tuple[int, ...]]:
        """Per weight, the positions of the layers that read it; its gradient is complete after the first's backward."""
        found: dict[str, dict[int, None]] = {}
        for position, layer in enumerate(self.layers):
            for weight in layer.weights:
                found.setdefault(weight.name, {})[position] = None
        return {name: tuple(positions) for name, positions in found.items()}

    @cached_property
    def ties(self) -> tuple[tuple[int, ...], ...]:
        """Positions of layers that share weights, and so must be sliced alike; a layer is in one tie at most."""
        ties: list[set[int]] = []
        for positions in self.readers.values():
            if len(positions) > 1:
                joined = set(positions).union(*(tie for tie in ties if tie & set(positions)))
                ties = [tie for tie in ties if not tie & joined] + [joined]
        return tuple(sorted(tuple(sorted(tie)) for tie in ties))

    @cached_property
    def inputs(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kind is Kind.INPUT)

    @cached_property
    def outputs(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kind is Kind.OUTPUT)

    @property
    def weights(self) -> tuple[Weight, ...]:
        """Every parameter once, in order of first use."""
        return tuple(weight for layer in self.layers for weight in layer.weights if not weight.again)

    @property
    def batch(self) -> int:
        return next(
            size
            for layer in self.inputs
            for letter, size in zip(layer.dims, layer.shape, strict=True)
            if letter in (Dim.N, BATCH)
        )

    def with_batch(self, batch: int) -> "LayerGraph":
        """The same network for another batch size."""
        if batch < 1:
            raise GraphError(f"batch must be positive (got {batch})")
        before = self.batch
        layers = tuple(
            replace(
                layer,
                shape=scaled_batch(layer.dims, layer.shape, before, batch),
                input_shapes=tuple(
                    scaled_batch(dims, shape, before, batch)
                    for dims, shape in zip(layer.input_dims, layer.input_shapes, strict=True)
                ),
            )
            for layer in self.layers
        )
        for layer in layers:
            try:
                check_sizes(layer)
            except GraphError as error:
                raise GraphError(f"with batch {batch} {error}; use fewer or smaller samples") from error
        return replace(self, layers=layers)

    def to_json(self) -> str:
        """A line for each layer."""
        head = self.to_dict()
        layers = ",\n  ".join(json.dumps(layer) for layer in head.pop("layers"))
        return f'{json.dumps(head)[:-1]}, "layers": [\n  {layers}\n]}}\n'

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes."""
        layers = [_layer_fields(layer) for layer in self.layers]
        known = {
            "returns": self.returns and self.returns.to_dict(),
            "fingerprint": self.fingerprint and f"{self.fingerprint}{_OF}{_digest(layers)}",
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            **{name: value for name, value in known.items() if value is not None},
            "layers": layers,
        }

    @classmethod
    def from_json(cls, text: str, origin: str = "graph") -> "LayerGraph":
        return cls.from_dict(parse_json(text, origin, GraphError), origin)

    @classmethod
    def from_dict(cls, document: Any, origin: str = "graph") -> "LayerGraph":
        """Of what `to_json` writes; errors name the field, its value and what would work."""
        check_version(document, origin, READABLE, GraphError)
        fields = checked(GraphFields, document, origin, GraphError)
        layers = tuple(map(_layer, fields.layers, document["layers"]))
        try:
            graph = cls(
                name=fields.name,
                layers=layers,
                returns=Returns.from_dict(document["returns"]) if fields.returns else None,
                fingerprint=_fingerprint_of(fields.fingerprint, document["layers"]),
            )
        except GraphError as error:
            raise GraphError(f"{origin}: {error}") from error
        check_graph(graph, origin)
        return graph

    def save(self, path: str | Path) -> None:
        write_file(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "LayerGraph":
        return cls.from_json(read_text(Path(path), GraphError, "a saved graph"), str(path))


def _fingerprint_of(told: str | None, layers: Sequence[Any]) -> str | None:
    """The model's, if these layers are those that it was written with: edited ones are no longer that model's."""
    fingerprint, of, digest = (told or "").partition(_OF)
    return fingerprint if of and digest == _digest(layers) else None


def _digest(layers: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(layers, sort_keys=True).encode()).hexdigest()


def _layer_fields(layer: Layer) -> dict[str, Any]:
    fields = asdict(layer)
    fields["windows"] = {dim.value: _window_fields(window) for dim, window in layer.windows.items()}
    # what few layers have is left out where it says nothing
    if not fields["buffers"]:
        del fields["buffers"]
    for weight in fields["weights"]:
        for name in ("shared", "again"):
            if not weight[name]:
                del weight[name]
    plain: dict[str, Any] = _plain(fields)
    return plain


def _plain(value: Any) -> Any:
    """As JSON reads it back: lists for tuples, text for names of kinds and dims."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _layer(fields: LayerFields, said: dict[str, Any]) -> Layer:
    """Of checked fields; `said` is the same layer as the file has it."""
    return Layer(
        name=fields.name,
        kind=fields.kind,
        inputs=fields.inputs,
        input_shapes=fields.input_shapes,
        input_dims=fields.input_dims,
        shape=fields.shape,
        dims=fields.dims,
        weights=tuple(Weight(**values_of(weight)) for weight in fields.weights),
        buffers=tuple(Weight(**values_of(buffer)) for buffer in fields.buffers),
        windows={Dim(dim): Window(**values_of(getattr(fields.windows, dim))) for dim in said["windows"]},
        options=said["options"],
        groups=fields.groups,
    )


def _window_fields(window: Window) -> dict[str, Any]:
    fields = asdict(window)
    return fields if window.wraps else {name: value for name, value in fields.items() if name != "wraps"}
