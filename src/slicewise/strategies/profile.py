"""Per layer: seconds on one whole device for any number of samples, and the items that the closed forms count.

One array entry per layer of the graph. Everything that grows with the batch grows linearly in items, so two graphs, of
one sample and of two, give the shard of any batch; seconds then come from the planner's own model.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.times import LayerTime
from slicewise.cost.compute import Share, shares
from slicewise.cost.model import CostModel
from slicewise.cost.registry import usual_model
from slicewise.cost.training import Training
from slicewise.cost.uncertainty import Doubt, doubt_of_network
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind, Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.partition.stages import Cuts

T = TypeVar("T")


SampleTimes = Mapping[str, Mapping[int, LayerTime]]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Of every layer, whole, for one number of samples."""

    forward: Floats
    backward: Floats

    @property
    def both(self) -> Floats:
        return self.forward + self.backward


@dataclass(frozen=True, eq=False)
class Profile:
    """FW, BW, WU, |x|, |y|, |w| of `graph` on one device of `cluster`, as `training` runs it."""

    graph: LayerGraph
    cluster: Cluster
    training: Training
    given: SampleTimes = field(default_factory=dict)  # layers that somebody timed, by name and samples

    @cached_property
    def _model(self) -> CostModel:
        return usual_model(self.cluster)(self.graph.with_batch(1), self.cluster.with_devices(1), self.training)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Of one sample."""
        return self._model.graph.layers

    @cached_property
    def _shards(self) -> dict[int, tuple[int, Share, Share]]:
        """Per kind of layer: where the first of it stands, its shard for one sample, and what each sample more adds."""
        model = self._model
        nothing = Choices.of([(None,) * len(model.cluster.mesh.axes)], model.cluster.mesh)
        two = self.graph.with_batch(2).layers
        found: dict[int, tuple[int, Share, Share]] = {}
        for position, alike in enumerate(model.alike):
            if alike not in found:
                one, more = shares(self.layers[position], nothing), shares(two[position], nothing)
                found[alike] = position, one, _difference(more, one)
        return found

    def seconds(self, samples: float) -> Seconds:
        """FW and BW of every layer for a batch of `samples`; of a fraction, with as much less in every row."""
        if samples not in self._seconds:
            self.prepare([samples])
        return self._seconds[samples]

    def prepare(self, batches: Sequence[float]) -> None:
        """All of them in one sweep over the layers: whole numbers in whole numbers, then the others."""
        missing = {batch for batch in batches if batch not in self._seconds}
        whole = sorted(batch for batch in missing if float(batch).is_integer())
        for some in (np.array(whole, dtype=np.int64), np.array(sorted(missing.difference(whole)))):
            if len(some):
                self._price(some)

    def _price(self, missing: NDArray[Any]) -> None:
        forwards, backwards = self._modelled(missing)
        for position, anchors in self._anchors.items():
            samples, forward, backward = anchors
            forwards[:, position] *= np.interp(np.log(missing), samples, forward)
            backwards[:, position] *= np.interp(np.log(missing), samples, backward)
        for row, batch in enumerate(missing.tolist()):
            self._seconds[batch] = Seconds(forwards[row], backwards[row])

    @cached_property
    def _timed(self) -> dict[int, Mapping[int, LayerTime]]:
        """By place; layers alike share what one of them takes."""
        names = {layer.name: position for position, layer in enumerate(self.layers)}
        alike = {self._model.alike[names[name]]: points for name, points in self.given.items()}
        own = {names[name]: points for name, points in self.given.items()}
        shared = {place: alike[number] for place, number in enumerate(self._model.alike) if number in alike}
        return shared | own

    @cached_property
    def _anchors(self) -> dict[int, tuple[Floats, Floats, Floats]]:
        """Of timed layers: logarithms of the samples, and taken over modelled seconds there, forward and backward.

        Between and beyond the samples that were timed, a layer is as much slower than the cost model says as it is
        there.
        """
        samples = np.array(sorted({count for points in self._timed.values() for count in points}), dtype=np.int64)
        modelled = (
            dict(zip(samples.tolist(), zip(*self._modelled(samples), strict=True), strict=True)) if len(samples) else {}
        )
        found = {}
        for position, points in self._timed.items():
            known = sorted(points)
            ratios = [
                [_over(getattr(points[count], what), modelled[count][way][position]) for count in known]
                for way, what in enumerate(("forward_s", "backward_s"))
            ]
            found[position] = np.log(known), np.array(ratios[0]), np.array(ratios[1])
        return found

    def _modelled(self, missing: NDArray[Any]) -> tuple[Floats, Floats]:
        """[batch, layer] of forward and backward, as the cost model has them."""
        model, compute = self._model, self._model.compute
        forward, backward = {}, {}
        for alike, (position, one, step) in self._shards.items():
            layer, part = self.layers[position], _sized(one, step, missing)
            forward[alike] = compute.forward_s(layer, part)
            trains = layer.name in model.graph.gradients
            passes = model.passes(layer) if trains else ()
            backward[alike] = compute.backward_s(layer, part, passes) if trains else np.zeros(len(missing))
        forwards = np.stack([forward[alike] for alike in model.alike], axis=1)
        return forwards, np.stack([backward[alike] for alike in model.alike], axis=1)

    @cached_property
    def _seconds(self) -> dict[float, Seconds]:
        return {}

    def doubt(self, samples: float) -> Doubt:
        """How far the seconds of this many samples may be off, where nothing was measured or fitted."""
        untimed = np.array([position not in self._timed for position in range(len(self.layers))])

        def all_s(machine: Cluster) -> float:
            """Timed layers take what they were seen to take, whatever software that was."""
            profile = self.remembered(
                ("software", machine.software), lambda: Profile(self.graph, machine, self.training)
            )
            return float(np.where(untimed, profile.seconds(samples).both, self.seconds(samples).both).sum())

        def found() -> Doubt:
            return doubt_of_network(self.layers, self.cluster, self.seconds(samples).both.tolist(), all_s)

        return self.remembered(("doubt", samples), found)

    def timed_share(self, samples: float) -> float:
        """Of compute."""
        taken_s = self.seconds(samples).both
        return float(taken_s[list(self._timed)].sum()) / (float(taken_s.sum()) or 1.0)

    @cached_property
    def update_s(self) -> Floats:
        compute = self._model.compute
        known = {
            alike: float(compute.update_s(self.layers[position], one)[0])
            for alike, (position, one, _) in self._shards.items()
        }
        seconds = np.array([known[alike] for alike in self._model.alike])
        for position, points in self._timed.items():
            given = [time.update_s for time in points.values() if time.update_s is not None]
            if given and seconds[position]:
                seconds[position] = sum(given) / len(given)
        return seconds

    @cached_property
    def x(self) -> Floats:
        """Items of all inputs, per sample."""
        return self._items(lambda _, step: sum(float(items[0]) for items in step.inputs))

    @cached_property
    def y(self) -> Floats:
        return self._items(lambda _, step: float(step.output[0]))

    def _items(self, of: Callable[[Layer, Share], float]) -> Floats:
        known = {alike: of(self.layers[position], step) for alike, (position, _, step) in self._shards.items()}
        return np.array([known[alike] for alike in self._model.alike])

    @cached_property
    def w(self) -> Floats:
        """Items of trained weights, each counted where it is first read."""
        return np.array([float(sum(w.size for w in layer.weights if w.updated)) for layer in self.layers])

    @cached_property
    def products(self) -> NDArray[np.bool_]:
        return np.array([layer.kind.has(Trait.PRODUCT) for layer in self.layers])

    @cached_property
    def kept(self) -> Floats:
        """Items per sample that backward reads again, each tensor once: at the first layer that keeps it.

        As the planner counts them, but that it counts a tensor for every reader: each might want another layout.
        """
        return self._kept(self._model)

    @cached_property
    def kept_at_once(self) -> Floats:
        """The same with nothing computed again."""
        training = replace(self.training, recompute=False)
        return self._kept(type(self._model)(self._model.graph, self._model.cluster, training))

    def _kept(self, model: CostModel) -> Floats:
        counted: set[str] = set()
        found = self._items(lambda layer, step: float(model.kept_items(layer, step)[0]))
        for position, layer in enumerate(self.layers):
            if layer.kind.has(Trait.KEEPS_INPUT) and not model.training.recompute:
                source = self._written_by(layer.inputs[0])
                found[position] *= source not in counted
                counted.add(source)
        return found

    def _written_by(self, name: str) -> str:
        """The layer that wrote a tensor which is only handed on, or looked at under other dims, since."""
        layer = self._model.graph[name]
        return self._written_by(layer.inputs[0]) if layer.kind.has(Trait.FREE) and layer.inputs else name

    @cached_property
    def touched(self) -> Floats:
        """Items per sample that are there while a layer runs, or while its gradients are made."""
        free = np.array([layer.kind.has(Trait.FREE) for layer in self.layers])
        return np.where(free, 0.0, self.x + self.y)

    @cached_property
    def last_product(self) -> int:
        return int(np.flatnonzero(self.products)[-1]) if self.products.any() else -1

    @cached_property
    def linear(self) -> NDArray[np.bool_]:
        return np.array([layer.kind is Kind.LINEAR for layer in self.layers])

    @cached_property
    def repeated(self) -> NDArray[np.bool_]:
        """What nobody knows how to slice by channel."""
        return np.array([layer.kind is Kind.OPAQUE for layer in self.layers])

    @cached_property
    def first_linear(self) -> int | None:
        return next((p for p, layer in enumerate(self.layers) if layer.kind is Kind.LINEAR), None)

    def least(self, dim: Dim, among: NDArray[np.bool_]) -> tuple[int, str] | None:
        """The smallest extent of a weight along `dim` among matrix products, and whose it is."""

        def found() -> tuple[int, str] | None:
            extents = [
                (weight.shape[weight.dims.index(dim)], self.layers[position].name)
                for position in np.flatnonzero(among & self.products)
                for weight in self.layers[position].weights
                if dim in weight.dims and len(weight.dims) > 1
            ]
            return min(extents, default=None, key=lambda pair: pair[0])

        return self.remembered(("least", dim, among.tobytes()), found)

    def least_heads(self, among: NDArray[np.bool_]) -> tuple[int, str] | None:
        """The fewest heads of an attention layer, and whose they are."""

        def found() -> tuple[int, str] | None:
            layers = [self.layers[position] for position in np.flatnonzero(among)]
            heads = [
                (min(layer.extents(Dim.A), default=1), layer.name) for layer in layers if layer.kind is Kind.ATTENTION
            ]
            return min(heads, default=None, key=lambda pair: pair[0])

        return self.remembered(("heads", among.tobytes()), found)

    @cached_property
    def first_product(self) -> int:
        return int(np.flatnonzero(self.products)[0]) if self.products.any() else -1

    @cached_property
    def alive(self) -> Floats:
        """Behind each layer: items per sample, of all tensors that later layers read."""
        last: dict[str, int] = {}
        for position, layer in enumerate(self.layers):
            for source in layer.inputs:
                last[source] = position
        change = np.zeros(len(self.layers) + 1)
        for position, layer in enumerate(self.layers):
            # a fork hands on the tensor it reads
            if layer.name in last and layer.kind is not Kind.FORK:
                until = last[layer.name]
                reader = self.layers[until]
                while reader.kind is Kind.FORK and reader.name in last:
                    until = last[reader.name]
                    reader = self.layers[until]
                change[position] += self.y[position]
                change[until] -= self.y[position]
        return np.cumsum(change)[:-1]

    def statistics(self, dims: Iterable[Dim]) -> Floats:
        """Items of a norm's mean where it spans any of `dims`; of no batch norm under `--batchnorm local`."""
        spanned = frozenset(dims)
        return self.remembered(
            ("statistics", spanned),
            lambda: np.array([_mean_items(layer) if self._spans(layer, spanned) else 0.0 for layer in self.layers]),
        )

    def _spans(self, layer: Layer, dims: frozenset[Dim]) -> bool:
        local = self.training.batchnorm == "local" and Dim.N in layer.statistics
        return bool(layer.statistics & dims) and not local

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """What a strategy derives from the network alone, made once."""
        if key not in self._memory:
            self._memory[key] = make()
        found: T = self._memory[key]
        return found

    @cached_property
    def _memory(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def cuts(self) -> Cuts:
        return Cuts(self._model.graph)


def _mean_items(layer: Layer) -> float:
    return float(np.prod(layer.statistics_shape))


def _difference(more: Share, one: Share) -> Share:
    return _joined(more, one, lambda b, a: b - a)


def _sized(one: Share, step: Share, samples: Any) -> Share:
    """The shard of every number of samples: v(b) = v(1) + (b - 1) (v(2) - v(1))."""
    return _joined(one, step, lambda a, d: a + (samples - 1) * d)


def _joined(left: Share, right: Share, of: Callable[[Ints, Ints], Ints]) -> Share:
    joined: dict[str, Any] = {}
    for name in (known.name for known in fields(Share)):
        one, other = getattr(left, name), getattr(right, name)
        joined[name] = tuple(map(of, one, other)) if isinstance(one, tuple) else of(one, other)
    return Share(**joined)


def _over(taken_s: float, modelled_s: float) -> float:
    """1 where nothing is computed: frozen layers have no backward."""
    return taken_s / modelled_s if modelled_s > 0 else 1.0
