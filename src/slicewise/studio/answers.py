"""The answers behind the routes: plain functions from what the page sends to what it shows. No web in here."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import field

from slicewise.cluster.cluster import SOFTWARE, Cluster, local_path, preset_names
from slicewise.cost.training import BATCHNORMS, OPTIMIZER_STATE
from slicewise.errors import RequestError, SlicewiseError, UnknownName
from slicewise.explaining.differences import compare_models
from slicewise.formats.checking import checked
from slicewise.formats.schema import Count, Name, Table
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import shipped_names
from slicewise.partition.layout import Slicing
from slicewise.planning.asking import requested
from slicewise.planning.named import check_strategy
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.search.pins import Pins
from slicewise.strategy import LAYERWISE, STRATEGIES
from slicewise.studio.benches import Bench, Kept
from slicewise.studio.drawing import figure
from slicewise.studio.editing import changed_view, layer_view, proof_view, sliced_view, stages_view, together
from slicewise.studio.exporting import cluster_file, commands, plan_of, report_file
from slicewise.studio.jobs import LONGEST_S, Job
from slicewise.studio.lessons.tables import PARTS
from slicewise.studio.letters import letters, slicing_of, slicings_of
from slicewise.studio.scaling import Scaling
from slicewise.studio.setting import (
    Setting,
    cluster_fields,
    cluster_named,
    device_counts,
    setting_of,
)
from slicewise.studio.uploads import LARGEST_BYTES, Uploads
from slicewise.terms import LAYER_TERMS, TERMS
from slicewise.version import VERSION

Found = Callable[[Hashable], Plan | None]  # plans that were made, by the key of what was wanted
MOST_BENCHES = 8
MOST_PINS = 64


class Question(Table):
    """Of a setting alone."""

    setting: dict[str, Any]
    weak: bool = False


class PlanQuestion(Table):
    """Of a plan to make."""

    setting: dict[str, Any]
    strategy: str = LAYERWISE
    fix: list[Name] = field(default_factory=list)


class SlicedQuestion(Table):
    """Of a plan that the page has: its slicings, and where it comes from."""

    setting: dict[str, Any]
    slicings: list[Any] = field(default_factory=list)
    bucket_bytes: Count | None = None  # of the plan; None: as the setting says
    strategy: str = LAYERWISE
    fix: list[Name] = field(default_factory=list)
    layer: str = ""
    to: str = ""
    form: str = ""
    edited: bool = False
    traces: list[Name] = field(default_factory=list)  # uploads, drawn below the predicted step


class LessonQuestion(Table):
    part: str


class CompareQuestion(Table):
    before: SlicedQuestion
    after: SlicedQuestion


@dataclass(frozen=True, eq=False, kw_only=True)
class Wanted:
    """Something that takes long: how it is made, and how it is shown when it is done."""

    key: Hashable
    job: Job
    shown: Callable[[Any], Any]
    keep: bool = True  # for who asks for the same again


class Answers:
    """What all questions share: uploads and caches, each with a bound."""

    def __init__(self) -> None:
        self.uploads = Uploads()
        self._preloaded: list[dict[str, Any]] = []
        self._scaling = Scaling()
        self._benches: Kept[Bench] = Kept(MOST_BENCHES)

    def choices(self, _: Any) -> dict[str, Any]:
        """What the controls offer."""
        presets = [*preset_names(), *(["local"] if local_path().exists() else [])]
        clusters = []
        for name in presets:
            try:
                cluster = cluster_named(name, self.uploads)
            except SlicewiseError:  # a calibration of another release
                continue
            clusters.append(cluster_fields(name, cluster, device_counts(cluster)))
        return {
            "version": VERSION,
            "networks": shipped_names(),
            "clusters": clusters,
            "software": SOFTWARE,
            "optimizer": list(OPTIMIZER_STATE),
            "batchnorm": BATCHNORMS,
            "strategies": [
                {"name": strategy.name, "told": strategy.told, "planned": strategy.planned}
                for strategy in STRATEGIES.values()
            ],
            "terms": [{"name": term.name, "told": term.told} for term in TERMS],
            "layer_terms": [term.name for term in LAYER_TERMS],
            "uploads": self._preloaded,
            "largest_bytes": LARGEST_BYTES,
        }

    def preload(self, path: Path) -> None:
        """A file named on the command line: offered as if it had been uploaded."""
        if not path.exists():
            raise RequestError(f"{path}: no such file")
        self._preloaded.append(self.upload(path.name, path.read_bytes()))

    def upload(self, name: str, content: bytes) -> dict[str, Any]:
        """What a file was, and what the page needs to use it."""
        clean = name.replace("\\", "/").rpartition("/")[2][:120]
        if not clean.isprintable() or not clean:
            raise RequestError(f"a file needs a name to be uploaded (got {name!r})")
        added = self.uploads.add(clean, content)
        kept = added.pop("kept")
        if isinstance(kept, Cluster):
            added["cluster"] = cluster_fields(added["name"], kept, device_counts(kept))
        elif isinstance(kept, LayerGraph):
            added["layers"] = len(kept)
        elif isinstance(kept, Plan):
            machine = kept.hardware()
            added["cluster"] = cluster_fields(added["name"], machine, device_counts(machine))
            added["plan"] = self._uploaded(kept, added["name"])
        else:
            added["ranks"], added["steps"] = kept.ranks, len(kept.steps)
        return added

    def _uploaded(self, plan: Plan, name: str) -> dict[str, Any]:
        """The setting of an uploaded plan, and its slicings."""
        training = plan.training
        document = {
            "model": name,
            "cluster": name,
            "devices": plan.devices,
            "batch": plan.batch,
            "dtype": training.dtype,
            "optimizer": training.optimizer,
            "recompute": training.recompute,
            "batchnorm": training.batchnorm,
            "bucket_bytes": training.bucket_bytes,
            "software": plan.hardware().software,
        }
        setting = setting_of(document, self.uploads)
        return {"setting": document, **self.planned(setting, plan)}

    def project(self, document: Any) -> dict[str, Any]:
        """Every strategy at the chosen device count."""
        return self._scaling.here(self._setting(checked(Question, document, "request").setting))

    def scaling(self, document: Any) -> dict[str, Any]:
        """Every strategy over device counts."""
        asked = checked(Question, document, "request")
        return self._scaling.over_counts(self._setting(asked.setting), weak=asked.weak)

    def wanted_plan(self, document: Any) -> Wanted:
        asked = checked(PlanQuestion, document, "request")
        setting = self._setting(asked.setting)
        request = self._request(setting, asked.strategy, asked.fix)
        graph = setting.graph.with_batch(setting.batch)
        Pins.parse(request.fix).check([layer.name for layer in graph])
        return Wanted(
            key=(setting.key, asked.strategy, tuple(asked.fix)),
            job=partial(requested, graph, setting.machine, request),
            shown=partial(self.planned, setting),
        )

    def wanted_lessons(self, document: Any) -> Wanted:
        """The tables of Learn: those of the closed forms, or those that take a search."""
        part = checked(LessonQuestion, document, "request").part
        if part not in PARTS:
            raise UnknownName("part", part, PARTS)
        return Wanted(key=("lessons", part), job=PARTS[part], shown=lambda made: made)

    def planned(self, setting: Setting, plan: Plan) -> dict[str, Any]:
        """A plan that was found or uploaded, as the page shows it."""
        if plan.pipeline is not None:
            return stages_view(plan)
        with self._bench(setting.priced(plan.training.bucket_bytes)) as bench:
            return {**sliced_view(bench, plan.slicings), **proof_view(plan)}

    def price(self, document: Any) -> dict[str, Any]:
        """Slicings as the page has them, priced now."""
        asked = checked(SlicedQuestion, document, "request")
        with self._bench(self._priced(asked)) as bench:
            return sliced_view(bench, _slicings(bench, asked))

    def layer(self, document: Any) -> dict[str, Any]:
        asked = checked(SlicedQuestion, document, "request")
        with self._bench(self._priced(asked)) as bench:
            return layer_view(bench, _slicings(bench, asked), asked.layer)

    def change(self, document: Any) -> dict[str, Any]:
        """One layer sliced otherwise: the new price, and what its neighbours pay."""
        asked = checked(SlicedQuestion, document, "request")
        with self._bench(self._priced(asked)) as bench:
            before = _slicings(bench, asked)
            if asked.layer not in before:
                raise RequestError(f"no layer is called {asked.layer!r}; load the plan again")
            to = slicing_of(asked.to, asked.layer)
            _slicings(bench, asked, {asked.layer: to})
            return changed_view(bench, before, asked.layer, to)

    def compare(self, document: Any) -> dict[str, Any]:
        """Two plans of one network: what they differ in, and what each difference is worth."""
        asked = checked(CompareQuestion, document, "request")
        one, other = Bench(self._priced(asked.before)), Bench(self._priced(asked.after))
        return compare_models(
            (one.model, _slicings(one, asked.before)), (other.model, _slicings(other, asked.after))
        ).to_dict()

    def commands(self, document: Any) -> dict[str, Any]:
        asked = checked(SlicedQuestion, document, "request")
        check_strategy(asked.strategy)
        setting = self._setting(asked.setting)
        return {"commands": commands(setting, asked.strategy, tuple(asked.fix), edited=asked.edited)}

    def wanted_report(self, found: Found, document: Any) -> Wanted:
        """The report of a plan as it is now, with the traces that are shown."""
        asked = checked(SlicedQuestion, document, "request")
        plan = self._plan(asked, found)
        traces = [(_label(name), self.uploads.trace(name)) for name in asked.traces]
        key = ("report", self._priced(asked).bench_key, asked.strategy, tuple(asked.slicings), tuple(asked.traces))
        return Wanted(key=key, job=partial(report_file, plan, traces), shown=lambda made: made, keep=False)

    def figure(self, found: Found, document: Any) -> dict[str, Any]:
        """`form` names it."""
        asked = checked(SlicedQuestion, document, "request")
        plan = self._plan(asked, found)
        traces = [self.uploads.trace(name) for name in asked.traces]
        with self._bench(self._priced(asked)) as bench:
            return figure(asked.form, bench, plan, traces)

    def export(self, found: Found, document: Any) -> dict[str, Any]:
        """A file: its name, its kind and its text."""
        asked = checked(SlicedQuestion, document, "request")
        setting = self._setting(asked.setting)
        if asked.form == "cluster":
            return {"name": "cluster.toml", "kind": "application/toml", "text": cluster_file(setting)}
        if asked.form == "projection":
            return {"name": "oracle.json", "kind": "application/json", "document": self._scaling.over_counts(
                setting, weak=False
            )}  # fmt: skip
        if asked.form != "plan":
            raise RequestError(f"form is {asked.form!r}; must be plan, cluster or projection")
        return {"name": "plan.json", "kind": "application/json", "text": self._plan(asked, found).to_json()}

    def _plan(self, asked: SlicedQuestion, found: Found) -> Plan:
        """As it was found or uploaded, with its proof, if nothing was changed; or as the page has it now."""
        setting = self._setting(asked.setting)
        known = found((setting.key, asked.strategy, tuple(asked.fix))) or self.uploads.plan(asked.setting["model"])
        if not asked.slicings:  # a pipeline
            if known is None or known.pipeline is None:
                raise RequestError("this plan is no longer kept here; open it again")
            return known
        with self._bench(self._priced(asked)) as bench:
            slicings = _slicings(bench, asked)
            return plan_of(bench, slicings, self._request(setting, asked.strategy, asked.fix), known)

    def _priced(self, asked: SlicedQuestion) -> Setting:
        """The setting of a plan that the page has, with that plan's buckets."""
        return self._setting(asked.setting).priced(asked.bucket_bytes)

    def _setting(self, document: Any) -> Setting:
        return setting_of(document, self.uploads)

    def _bench(self, setting: Setting) -> Any:
        return self._benches.lent(setting.bench_key, lambda: Bench(setting))

    @staticmethod
    def _request(setting: Setting, strategy: str, fix: list[str]) -> Request:
        check_strategy(strategy)
        if len(fix) > MOST_PINS:
            raise RequestError(f"{len(fix)} layers are fixed; at most {MOST_PINS} can be")
        searched = strategy == LAYERWISE
        return Request(
            strategy=strategy,
            training=setting.training,
            bucket=setting.bucket_bytes if searched else None,
            fix=tuple(fix) if searched else (),
            time_limit_s=LONGEST_S if searched else None,
        )


def _label(name: str) -> str:
    """What an upload was called by who sent it."""
    return name.partition("/")[2]


def _slicings(bench: Bench, asked: SlicedQuestion, changed: dict[str, Slicing] | None = None) -> dict[str, Slicing]:
    """Checked against network and mesh."""
    texts = list(asked.slicings)
    for name, slicing in (changed or {}).items():
        for tied in together(bench.model, name):
            texts[bench.model.graph.index[tied]] = letters(slicing)
    return slicings_of(texts, bench.model.graph, bench.model.cluster.mesh, bench.legal)
