"""ParaDL's own runs: (a) presets only, (b) fitted on at most 32 GPUs, (c) fitted on the other network."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from benchmarks.markdown import show
from benchmarks.paradl.networks import graphs
from benchmarks.paradl.rows import PROFILED_S, authors, paradl_rows, single_gpu_runs
from benchmarks.paradl.scores import Score, accuracy, by_strategy, nearest_smaller, score
from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cluster.tuning import NEUTRAL, Tuning
from slicewise.cost.training import Training
from slicewise.fitting.fit import SIGMA, Fit, fit
from slicewise.fitting.projecting import Projector
from slicewise.fitting.runs import Run
from slicewise.graph.sources import load_graph
from slicewise.strategies.projecting import oracle_of
from slicewise.units import amount, seconds

PRESET = "abci-v100"
LARGEST_FITTED = 32
NAMES = {"resnet50": "ResNet-50", "vgg16": "VGG-16"}
Projected = dict[Run, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One way of knowing: what was fitted on, what it projects of the rows it was tested on."""

    title: str
    fitted: tuple[Run, ...]
    projected: Projected
    null: Projected
    fit: Fit | None = None

    @property
    def tested(self) -> list[Run]:
        return list(self.projected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Fits on some rows and projects others. Nothing of a tested row but what was run reaches the fit."""

    base: Cluster = field(default_factory=lambda: load_cluster(PRESET))
    sigma: float = SIGMA
    distrust: float = 1.0
    projector: Projector = field(default_factory=lambda: Projector(graphs()))

    def presets(self, runs: Sequence[Run]) -> Outcome:
        return self._tested("(a) presets only", [], runs, _null(runs))

    def larger(self, runs: Sequence[Run]) -> Outcome:
        small = [run for run in runs if run.devices <= LARGEST_FITTED]
        large = [run for run in runs if run.devices > LARGEST_FITTED]
        title = f"(b) fitted on at most {LARGEST_FITTED} GPUs"
        return self._tested(title, [*single_gpu_runs(), *small], large, smaller_null(large, small))

    def other_network(self, runs: Sequence[Run], known: str) -> Outcome:
        fitted = [run for run in [*single_gpu_runs(), *runs] if run.model == known]
        others = [run for run in runs if run.model != known]
        return self._tested(f"(c) fitted on {NAMES[known]}", fitted, others, _null(others))

    def all(self, runs: Sequence[Run]) -> list[Outcome]:
        return [self.presets(runs), self.larger(runs), *(self.other_network(runs, model) for model in NAMES)]

    def _tested(self, title: str, fitted: Sequence[Run], others: Sequence[Run], null: Projected) -> Outcome:
        cluster, learned = self.base, None
        if fitted:
            learned = fit(fitted, cluster, self.projector, sigma=self.sigma, distrust=self.distrust)
            cluster = learned.cluster
        projected = dict(zip(others, map(float, self.projector.seconds(others, cluster)), strict=True))
        return Outcome(title=title, fitted=tuple(fitted), projected=projected, null=null, fit=learned)


def measured_runs() -> list[Run]:
    return [row.run for row in paradl_rows()]


def _null(runs: Sequence[Run]) -> Projected:
    """Data: one GPU's time; others: the nearest smaller count that was measured."""
    return single_gpu_null(runs) | smaller_null([run for run in runs if run.strategy != "data"], runs)


def single_gpu_null(runs: Sequence[Run]) -> Projected:
    """Data parallelism that costs nothing: as long as one GPU takes for its share."""
    return {run: PROFILED_S[run.model] * run.batch / run.devices for run in runs if run.strategy == "data"}


def smaller_null(runs: Sequence[Run], known: Sequence[Run]) -> Projected:
    """As long as the nearest smaller count that is known."""
    found = {run: nearest_smaller(run, known) for run in runs}
    return {run: value for run, value in found.items() if value is not None}


def authors_projected(runs: Sequence[Run]) -> Projected:
    known = authors()
    return {run: known[run.model, run.strategy, run.devices] for run in runs}


def together(found: Sequence[Outcome]) -> Score:
    return Score(tuple(pair for one in found for pair in score(one.tested, one.projected).pairs))


def show_outcome(one: Outcome) -> None:
    theirs = authors_projected(one.tested)
    rows = []
    for strategy, runs in [*by_strategy(one.tested).items(), ("over all", one.tested)]:
        null = score(runs, one.null)
        counted = f"{null}, {len(null.pairs)} rows" if 0 < len(null.pairs) < len(runs) else str(null)
        rows.append([strategy, str(len(runs)), str(score(runs, one.projected)), str(score(runs, theirs)), counted])
    title = f"{one.title}: {len(one.fitted)} rows fitted, {len(one.tested)} tested" if one.fit else one.title
    show(title, ["strategy", "rows", "slicewise", "the authors", "null"], rows)


def show_choices() -> None:
    """What the fit's own two settings do: how runs scatter, and how far presets are trusted."""
    rows = []
    for sigma, distrust in ((SIGMA, 1.0), (SIGMA / 2, 1.0), (2 * SIGMA, 1.0), (SIGMA, 0.5), (SIGMA, 2.0)):
        _, *cells = _in_short(Trial(sigma=sigma, distrust=distrust))
        rows.append([f"{sigma:g}", f"{distrust:g}", *cells])
    show("What if the fit were set otherwise", ["sigma", "spreads times", "(b)", "(c) both ways"], rows)


def show_statements() -> None:
    """What each statement of the preset's about the framework is worth."""
    base = load_cluster(PRESET)
    rows = [
        [what, *_in_short(Trial(base=replace(base, tuning=tuning)))] for what, tuning in _without(base.tuning).items()
    ]
    show("What if the preset said otherwise", ["of the framework", "(a)", "(b)", "(c) both ways"], rows)


def _without(told: Tuning) -> dict[str, Tuning]:
    return {
        "as it ships": told,
        "hybrids exchange gradients in one message": replace(told, layer_messages=False),
        "linear layers are cut too": replace(told, split_linear=True),
        "both: nothing that was inferred": replace(told, layer_messages=False, split_linear=True),
        "nothing goes through the host": replace(told, staged_bytes_per_s=None),
        "rings go tier by tier": replace(told, flat_rings=False),
        "shards are as efficient as whole layers": replace(told, fixed_compute={}),
        "nothing at all": NEUTRAL,
    }


def _in_short(trial: Trial) -> list[str]:
    presets, larger, *other = trial.all(measured_runs())
    return [*(str(score(one.tested, one.projected)) for one in (presets, larger)), str(together(other))]


def show_parameters(found: Sequence[Outcome]) -> None:
    fits = [one.fit for one in found if one.fit is not None]
    told: dict[str, list[str]] = {}
    for number, learned in enumerate(fits):
        for item in learned.parameters:
            row = told.setdefault(item.name, [_spelled(item.preset, item.unit), *["-"] * len(fits)])
            if item.runs:
                row[number + 1] = f"{_spelled(item.value, item.unit)} +-{item.deviation:.0%} ({item.runs})"
    head = ["parameter", "preset", *(one.title for one in found if one.fit is not None)]
    rows = [[name, *row] for name, row in told.items() if any(cell != "-" for cell in row[1:])]
    rows.append(["range of a projection", "", *(f"+-{learned.margin:.0%}" for learned in fits)])
    show("What was learned (in brackets: rows that speak about it)", head, rows)


def show_rows(found: Sequence[Outcome]) -> None:
    """Every row: fitted or tested, and what became of it."""
    runs = found[0].tested
    theirs = authors_projected(runs)
    rows = []
    for run in runs:
        cells = [_cell(theirs[run], run)]
        for one in found:
            if run in one.projected:
                cells.append(_cell(one.projected[run], run))
            elif one.title.startswith("(b)"):
                cells.append("fitted")
        rows.append([NAMES[run.model], run.strategy, str(run.devices), f"{run.iteration_s:.3f}", *cells])
    head = ["network", "strategy", "GPUs", "measured s", "the authors", "(a)", "(b)", "(c)"]
    show("Every row: projected seconds and accuracy; (c) is fitted on the rows of the other network", head, rows)


def within_range(one: Outcome) -> tuple[int, int]:
    """Tested rows that lie in the range of their projection, of all."""
    cluster, known = one.fit.cluster if one.fit else load_cluster(PRESET), graphs()
    inside = []
    for run in one.projected:
        graph = known.get(run.model) or load_graph(run.model)
        asked = oracle_of(graph, cluster, batch=run.batch, training=Training(dtype=run.dtype, batchnorm="local"))
        row = replace(asked, split=run.split).project(run.strategy, run.devices)
        inside.append(row.low_s <= run.iteration_s <= row.high_s)
    return sum(inside), len(inside)


def _cell(projected: float, run: Run) -> str:
    return f"{projected:.3f}, {accuracy(projected, run.iteration_s):.0%}"


def _spelled(value: float, unit: str) -> str:
    if unit == "s":
        return seconds(value)
    return amount(value, unit) if unit else f"{value:.2f}"
