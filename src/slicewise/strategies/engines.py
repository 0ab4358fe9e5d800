"""Two ways to price a strategy, behind one interface.

paradl       the closed forms, one file per strategy
slicewise    the strategy as a plan, priced by the planner's cost model and played by its simulation
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, final

from slicewise.cluster.cluster import MOST_DEVICES, Cluster
from slicewise.cluster.tuning import Tuning
from slicewise.cost.model import CostModel
from slicewise.cost.prediction import Prediction
from slicewise.cost.registry import usual_model
from slicewise.cost.training import Training
from slicewise.cost.uncertainty import Case, Doubt, doubt_of
from slicewise.errors import InfeasibleError, RequestError, UnknownName
from slicewise.factors import divisors
from slicewise.graph.kind import Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.spelling import spelled
from slicewise.planning.layer_table import read_sample_times
from slicewise.simulate.predicting import predicted_step
from slicewise.strategies.links import Links
from slicewise.strategies.pipeline import MOST_ANYWHERE
from slicewise.strategies.profile import Profile, SampleTimes
from slicewise.strategies.registry import CLOSED_FORMS
from slicewise.strategies.setting import Setting, Terms, parts
from slicewise.strategy import LAYERWISE, STRATEGIES, Form
from slicewise.terms import LAYER_TERMS, MOVING_GROUPS, Group
from slicewise.units import ROUNDING

Split = tuple[int, int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine(ABC):
    """Prices one strategy at one device count, or raises InfeasibleError with the reason."""

    name: ClassVar[str]
    comparable_with_plans: ClassVar[bool]  # whether its seconds are those of the planner's own model
    furthest_devices: ClassVar[int]  # the count up to which one strategy is soon priced at every power of two

    graph: LayerGraph
    cluster: Cluster
    training: Training
    overlap: float | None = None  # of gradient exchange with backward; None: as the engine has it

    @abstractmethod
    def terms(self, strategy: str, devices: int, batch: int, split: Split | None = None) -> Terms: ...

    @abstractmethod
    def doubt(self, strategy: str, devices: int, batch: int) -> Doubt:
        """How far the strategy's seconds at that count may be off."""

    def case(self, strategy: str, devices: int, batch: int) -> Case:
        """What a projection is of."""
        planned = self.comparable_with_plans or strategy == LAYERWISE
        return Case(
            model=self.graph.name,
            strategy=None if planned else strategy,
            dtype=self.training.dtype,
            optimizer=self.training.optimizer,
            devices=devices,
            batch=batch,
        )

    @abstractmethod
    def prepare(self, counts: Sequence[tuple[int, int]]) -> None:
        """Does at once what all answers at these (devices, batch) need."""

    @abstractmethod
    def progress_text(self, devices: int) -> str | None:
        """What to say before a device count is priced; nothing, where that takes no time."""

    @property
    @abstractmethod
    def thins_freely(self) -> bool:
        """Whether compute falls with the shard, however thin it is."""

    @abstractmethod
    def timed(self, layer_times: Path) -> Self:
        """With layers as somebody measured them; refused where seconds are not those of whole layers."""

    @abstractmethod
    def setting(self, devices: int, batch: int, split: Split | None = None) -> Setting:
        """What closed forms are written in; refused where there are none."""

    def on(self, cluster: Cluster) -> Self:
        return replace(self, cluster=cluster)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ParadlEngine(Engine):
    """The closed forms; unless asked for, gradients overlap as the tuning has it, or else where the software does."""

    name = "paradl"
    comparable_with_plans = False
    furthest_devices = MOST_DEVICES

    tuning: Tuning | None = None  # None: the cluster's
    given: SampleTimes = field(default_factory=dict)  # layers that somebody timed
    profiled: Profile | None = None  # of the same graph, device and training, where somebody has it already

    @cached_property
    def profile(self) -> Profile:
        return self.profiled or Profile(self.graph, self.cluster, self.training, self.given)

    @cached_property
    def _tuning(self) -> Tuning:
        return self.tuning or self.cluster.tuning

    def terms(self, strategy: str, devices: int, batch: int, split: Split | None = None) -> Terms:
        """The fastest form of the strategy that fits the memory; if none does, the fastest."""
        at = self.setting(devices, batch, split)
        stretch, hidden = self._tuning.stretch(strategy), (self._hidden_share, self.training.bucket_items)
        found = [terms.stretched(stretch).overlapped(*hidden) for terms in CLOSED_FORMS[strategy](at)]
        return chosen(found, self.cluster.device.memory_bytes)

    def doubt(self, strategy: str, devices: int, batch: int) -> Doubt:
        samples, case = max(1, parts(batch, devices)), self.case(strategy, devices, batch)
        doubt = doubt_of(case, self.cluster, lambda: self.profile.doubt(samples))
        return doubt.after_timing(self.profile.timed_share(samples)) if self.given else doubt

    @property
    def _hidden_share(self) -> float:
        if self.overlap is not None:
            return self.overlap
        if self._tuning.overlap is not None:
            return self._tuning.overlap
        return self.cluster.overlap if self.cluster.software == "tuned" else 0.0

    @property
    def thins_freely(self) -> bool:
        return not self._tuning.fixed_compute

    def progress_text(self, devices: int) -> None:
        return None

    def timed(self, layer_times: Path) -> Self:
        if self.cluster.measured is not None:
            raise RequestError("`measured` and `layer_times` both say what layers take; give one of them")
        return replace(self, given=read_sample_times(layer_times, self.graph))

    def setting(self, devices: int, batch: int, split: Split | None = None) -> Setting:
        return Setting(
            profile=self.profile,
            links=Links(self.cluster, devices, flat=self._tuning.flat_rings),
            devices=devices,
            batch=batch,
            tuning=self._tuning,
            split=split,
        )

    def prepare(self, counts: Sequence[tuple[int, int]]) -> None:
        """Profiles every batch that strategies will ask for at these (devices, batch), in one sweep."""
        most = max(MOST_ANYWHERE, self.profile.cuts.most_stages)
        wanted: set[float] = set()
        for devices, batch in counts:
            groups = {p1: parts(batch, p1) for p1 in divisors(devices)}
            wanted |= {*groups.values(), *(samples * p1 / devices for p1, samples in groups.items())}
            if 1 < devices <= most:
                wanted |= set(divisors(batch))
        self.profile.prepare(sorted(wanted))


def chosen(found: Iterable[Terms], capacity: float) -> Terms:
    """The fastest that fits; if nothing does, the fastest."""
    return min(found, key=lambda terms: (terms.memory_bytes > capacity, terms.iteration_s))


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SlicewiseEngine(Engine):
    """What `slicewise run` would execute, as `slicewise plan --strategy` prices it; overlap is the cluster's."""

    name = "slicewise"
    comparable_with_plans = True
    furthest_devices = 1024
    thins_freely = False

    def prepare(self, counts: Sequence[tuple[int, int]]) -> None:
        """Nothing: every plan is priced by itself."""

    def doubt(self, strategy: str, devices: int, batch: int) -> Doubt:
        share = self.graph.with_batch(max(1, parts(batch, devices)))
        return doubt_of(self.case(strategy, devices, batch), self.cluster, lambda: self._model(share, 1).doubt)

    def progress_text(self, devices: int) -> str:
        return f"pricing plans for {devices} devices"

    def timed(self, layer_times: Path) -> Self:
        raise RequestError("`layer_times` are of whole layers, for the closed forms; give those of a plan to `plan`")

    def setting(self, devices: int, batch: int, split: Split | None = None) -> Setting:
        raise RequestError(f"closed forms are of the engine {ParadlEngine.name} (got {self.name})")

    def terms(self, strategy: str, devices: int, batch: int, split: Split | None = None) -> Terms:
        from slicewise.search.baselines import BASELINES, data, hybrid
        from slicewise.search.pipeline import best_pipeline

        facts = STRATEGIES[strategy]
        if facts.form is Form.WHOLE and devices > 1:
            raise InfeasibleError(f"devices: {strategy} is one device")
        if facts.form is Form.STAGES:
            made = best_pipeline(self._model(self.graph.with_batch(batch), devices))
            told = f"{devices} stages, {made.pipeline.micro_batches} segments, {made.schedule}"
            return replace(of_prediction(made.predicted), split=told)
        model = self._model(self.training.normalised(self.graph.with_batch(batch), devices), devices)
        if facts.form is Form.WHOLE:
            slicings = data(model)  # as anything on one device
        elif split is not None and facts.hybrid:
            if split[0] * split[1] != devices:
                raise InfeasibleError(f"split: {split[0]}x{split[1]} does not make {devices} devices")
            slicings = hybrid(model, strategy, split[0])
        else:
            slicings = BASELINES[strategy](model)
        terms = of_prediction(predicted_step(model, slicings))
        return replace(terms, split=_usual(model, slicings) if devices > 1 else "")

    def _model(self, graph: LayerGraph, devices: int) -> CostModel:
        cluster = self.cluster.with_devices(devices)
        if self.overlap is not None:
            cluster = replace(cluster, overlap=self.overlap)
        return usual_model(cluster)(graph, cluster, self.training)


def _usual(model: CostModel, slicings: Mapping[str, Slicing]) -> str:
    """How most matrix products are sliced."""
    axes = {axis.name: axis.size for axis in model.cluster.mesh.axes}
    products = Counter(slicings[layer.name] for layer in model.graph if layer.kind.has(Trait.PRODUCT))
    return spelled(products.most_common(1)[0][0], axes) if products else ""


def of_prediction(predicted: Prediction) -> Terms:
    """A plan's prediction, its terms added up by group.

    What gradients cost is whatever they add to the step: the wait for them, and what they slow down on shared links. A
    pipeline's stages wait for each other: that is compute, as in its closed form. What they tell each other is p2p.
    """
    pipelined = "bubble" in predicted.seconds
    groups = dict.fromkeys(Group, 0.0)
    for term in LAYER_TERMS:
        group = Group.P2P if pipelined and term.group is Group.LAYERWISE else term.group
        groups[group] += predicted.seconds[term.name]
    others_s = sum(groups[group] for group in MOVING_GROUPS if group is not Group.GRADIENT)
    compute_s = predicted.iteration_s - others_s if pipelined else groups[Group.COMPUTE]
    exposed_s = predicted.iteration_s - compute_s - others_s
    groups[Group.GRADIENT] = exposed_s if exposed_s > ROUNDING * predicted.iteration_s else 0.0
    moving: dict[str, Any] = {f"{group}_s": groups[group] for group in MOVING_GROUPS}
    return Terms(
        compute_s=compute_s,
        update_s=predicted.seconds["update"],
        **moving,
        memory_bytes=predicted.peak_memory_bytes,
        plan=predicted,
    )


ENGINES: Mapping[str, type[Engine]] = {engine.name: engine for engine in (ParadlEngine, SlicewiseEngine)}


def engine_named(name: str) -> type[Engine]:
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    return ENGINES[name]
