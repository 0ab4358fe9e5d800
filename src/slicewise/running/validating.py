"""Predictions against runs: every network under every strategy, planned, priced by every cost model, and run.

calibrate, plan, price           every (network, strategy); nothing is measured where a cluster is given.
                                 `measured` times layers now: what was timed on another day is another machine's
run  data  filter  pipeline ...  in turn
calibrate, price                 the same plans, for the machine as it is now
run  data  filter  pipeline ...  once more, and so on: a machine that drifts treats all alike, runs and predictions

A prediction is the median of all of its turns, and knows nothing of the runs.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cost.prediction import Prediction
from slicewise.cost.registry import MODELS, model_named
from slicewise.errors import RequestError, SlicewiseError
from slicewise.planning.asking import plan as planned
from slicewise.planning.named import check_strategy
from slicewise.planning.predicting import predicted_of
from slicewise.planning.timing import timed_plan
from slicewise.plans.plan import Plan
from slicewise.running.launch import check_ranks
from slicewise.running.near_optimal import near_optimal
from slicewise.running.scoring import Bar, Ranking, Validation
from slicewise.saving import check_target, write_file
from slicewise.strategy import LAYERWISE
from slicewise.terms import LAYER_TERMS
from slicewise.units import amount, seconds_of

# what is run where nobody asks for another
USUAL_NETWORKS = ("lenet5", "alexnet", "resnet50", "cosmoflow", "textcnn")
USUAL_STRATEGIES = (LAYERWISE, "data", "spatial", "filter", "channel", "pipeline")
PER_DEVICE = 4  # samples: CPUs are slow
_LONG_ENOUGH_S, _MOST_STEPS = 1.0, 100  # of a run: steps of milliseconds differ most, and the first ones are not usual
INPUT: Mapping[str, tuple[int, ...]] = {"cosmoflow": (4, 152, 152, 152)}  # its own volumes take 16 GB a rank
Ran = Mapping[str, Any]  # what `run --json` says
Runner = Callable[[Plan, int, Plan | None], Ran]  # a plan, its steps, and one to run in turn with it, step by step


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A plan to be run, and what each cost model says of it."""

    plan: Plan
    strategy: str
    predicted: Mapping[str, Prediction]

    def on(self, machine: Cluster, timing: "_Timing") -> "_Subject":
        """The same plan, priced anew for a machine that was measured again."""
        plan = replace(self.plan, machine=machine)
        priced = {cost: _predicted(replace(plan, cost_model=cost), timing) for cost in self.predicted}
        return replace(self, plan=plan, predicted=priced)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timing:
    """How `measured` times layers, and where their times are kept."""

    budget_s: float | None
    folder: Path | None = None

    @contextmanager
    def afresh(self) -> Iterator["_Timing"]:
        with tempfile.TemporaryDirectory() as folder:
            yield replace(self, folder=Path(folder))


def validate(
    *,
    models: str | Sequence[str] = USUAL_NETWORKS,
    strategies: str | Sequence[str] = USUAL_STRATEGIES,
    nproc_per_node: int | Sequence[int] = 2,
    cost: str | Sequence[str] = "calibrated",
    rank: int | None = None,
    batch: int | None = None,
    input: Mapping[str, tuple[int, ...]] = INPUT,
    iterations: int = 5,
    repeats: int = 3,
    cluster: str | Path | Cluster | Callable[[int], Cluster] | None = None,
    profile_budget: float | str | None = None,
    output: str | Path | None = None,
    runner: Runner | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Validation:
    """Run every network under every strategy and compare with what was predicted.

    Lists may be given as text with commas. `cost` is a cost model, several, or "all". `batch` is over all ranks: 4 per
    rank if left out. `input` is the shape of a network's samples, where that is not its own: `{"resnet50": (3, 128,
    128)}`. Each plan runs `repeats` times, in turn with the others: `iterations` steps each, or more where they are
    short, up to a second. `rank` adds the order of so many near-optimal plans per network. The machine is measured
    before each turn, for every number of ranks, unless `cluster` says what it does, or is a function that measures it.
    `output` is a JSON file. `runner` runs a plan where it is not this machine that does.
    """
    names, costs = listed(models), listed(MODELS if cost == "all" else cost)
    counts = [nproc_per_node] if isinstance(nproc_per_node, int) else list(nproc_per_node)
    for name in costs:
        model_named(name)
    for name in listed(strategies):
        check_strategy(name)
    shapes = {name: shape for name, shape in input.items() if name in names}
    if input is not INPUT and len(shapes) < len(input):
        raise RequestError(f"`input` is for networks that are run, {', '.join(names)} (got {', '.join(input)})")
    if rank is not None and rank < 3:
        raise RequestError(f"`rank` needs 3 plans or more to have an order (got {rank})")
    for count in counts:
        check_ranks(count)
    if output is not None:
        check_target(Path(output))
    timing = _Timing(budget_s=seconds_of(profile_budget))
    skipped: list[dict[str, Any]] = []
    bars: list[Bar] = []
    rankings: list[Ranking] = []
    runs = _Runs(run=runner or _run, iterations=iterations, repeats=repeats, skipped=skipped, progress=progress)
    for count in counts:
        measured = partial(_machine, cluster, count, progress)
        machine = measured()
        plan = partial(_planned, machine=machine, batch=batch or PER_DEVICE * count, shapes=shapes)
        subjects: list[_Subject] = []
        with timing.afresh() as now:
            for model in names:
                for strategy in listed(strategies):
                    progress(f"planning {model}, {strategy}, {count} ranks")
                    try:
                        made = plan(model, strategy=strategy)
                        _check_room(made)
                        subjects.append(_priced(made, strategy, costs, now, skipped))
                    except SlicewiseError as error:
                        skipped.append(_why(model, strategy, count, error))
        changes = cluster is None or callable(cluster)
        bars += _bars(subjects, runs, partial(_later, measured, timing) if changes else None)
        if rank is not None:
            for model in names:
                progress(f"the order of {rank} plans of {model} on {count} ranks")
                best = plan(model)
                near = [_priced(plan, LAYERWISE, costs, timing, skipped) for plan in near_optimal(best, rank)]
                rankings += _rankings(near, costs, runs)
    found = Validation(bars=tuple(bars), rankings=tuple(rankings), skipped=tuple(skipped), input=shapes)
    if output is not None:
        write_file(Path(output), json.dumps(found.to_dict(), indent=1) + "\n")
    return found


def listed(given: str | Iterable[str]) -> list[str]:
    """`"a,b c"`, `["a,b", "c"]`: each name once."""
    texts = [given] if isinstance(given, str) else list(given)
    return list(dict.fromkeys(name for text in texts for name in text.replace(",", " ").split()))


def _planned(
    model: str, *, machine: Cluster, batch: int, shapes: Mapping[str, tuple[int, ...]], strategy: str = LAYERWISE
) -> Plan:
    return planned(model, machine, batch=batch, strategy=strategy, input=shapes.get(model))


def _check_room(made: Plan) -> None:
    """Before its layers are timed: what does not fit takes the whole machine along."""
    needed, held = made.predicted.peak_memory_bytes, made.hardware().device.memory_bytes
    if needed > held:
        raise RequestError(
            f"a rank needs {amount(needed, 'B')} and has {amount(held, 'B')}; take a smaller `batch` or `input`"
        )


def _later(measured: Callable[[], Cluster], timing: _Timing, subjects: Sequence[_Subject]) -> list[_Subject]:
    """For the machine as it is when they are run once more."""
    machine = measured()
    with timing.afresh() as now:
        return [subject.on(machine, now) for subject in subjects]


def _machine(
    cluster: str | Path | Cluster | Callable[[int], Cluster] | None, ranks: int, progress: Callable[[str], None]
) -> Cluster:
    if callable(cluster):
        progress(f"measuring the machine on {ranks} ranks")
        return cluster(ranks)
    if cluster is not None:
        return (cluster if isinstance(cluster, Cluster) else load_cluster(cluster)).with_devices(ranks)
    progress(f"measuring this machine on {ranks} ranks")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"local-{ranks}.toml"
        _slicewise("calibrate", "--quick", "--nproc-per-node", str(ranks), "-o", str(path), "--json")
        return replace(load_cluster(path), name="local")


def _priced(
    made: Plan, strategy: str, costs: Sequence[str], timing: _Timing, skipped: list[dict[str, Any]]
) -> _Subject:
    predicted: dict[str, Prediction] = {}
    for cost in costs:
        try:
            predicted[cost] = _predicted(replace(made, cost_model=cost), timing)
        except SlicewiseError as error:
            skipped.append({**_why(made.model, strategy, made.devices, error), "cost_model": cost})
    return _Subject(plan=made, strategy=strategy, predicted=predicted)


def _predicted(plan: Plan, timing: _Timing) -> Prediction:
    model = model_named(plan.cost_model)
    if plan.pipeline is not None and not model.pipelines:
        raise RequestError(f"{plan.cost_model} has no price for a pipeline")
    if not model.space.reductions and any("C" in slicing for slicing in plan.slicings.values()):
        raise RequestError(f"{plan.cost_model} has no price for sliced input channels")
    if model.measures:
        plan = timed_plan(partial(_on, plan), plan.hardware(), timing.budget_s, folder=timing.folder)
    return predicted_of(plan, plan.network(), plan.hardware())


def _on(plan: Plan, machine: Cluster) -> Plan:
    return replace(plan, machine=machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """How plans are run: all of them in turn, `repeats` times."""

    run: Runner
    iterations: int
    repeats: int
    skipped: list[dict[str, Any]]
    progress: Callable[[str], None]

    def of(self, turns: Iterable[Sequence[_Subject]], against: Plan | None = None) -> list[list[Ran]]:
        """`turns` has the same subjects each time. By subject what its runs say; nothing where one of them failed."""
        ran: dict[int, list[Ran]] = {}
        failed: set[int] = set()
        for turn, subjects in enumerate(turns):
            for number, subject in enumerate(subjects):
                own = ran.setdefault(number, [])
                if number in failed:
                    continue
                plan, told = subject.plan, f"({turn + 1} of {self.repeats})"
                self.progress(f"running {plan.model}, {subject.strategy}, {plan.devices} ranks {told}")
                try:
                    own.append(self.run(plan, steps_of(plan, self.iterations), against))
                except SlicewiseError as error:
                    failed.add(number)
                    own.clear()
                    self.skipped.append(_why(plan.model, subject.strategy, plan.devices, error))
        return list(ran.values())


def _bars(
    subjects: Sequence[_Subject], runs: _Runs, later: Callable[[Sequence[_Subject]], list[_Subject]] | None
) -> list[Bar]:
    """`later`: the subjects for the machine as it is in another turn."""
    turns = [subjects]

    def in_turn() -> Iterator[Sequence[_Subject]]:
        yield subjects
        for _ in range(1, runs.repeats):
            try:
                turns.append(later(subjects) if later else subjects)
            except SlicewiseError as error:  # what was run already is not lost
                runs.progress(f"the machine could not be measured again, its last figures count: {error}")
                turns.append(turns[-1])
            yield turns[-1]

    ran = runs.of(in_turn())
    return [
        _bar(subject, cost, [turn[number].predicted[cost] for turn in turns], results)
        for number, (subject, results) in enumerate(zip(subjects, ran, strict=True))
        if results
        for cost in subject.predicted
    ]


def steps_of(plan: Plan, least: int) -> int:
    """How many to run: as many as take a second, but no fewer than `least`."""
    wanted = min(_MOST_STEPS, ceil(_LONG_ENOUGH_S / plan.predicted.iteration_s))
    return max(least, wanted)


def _bar(subject: _Subject, cost: str, predicted: Sequence[Prediction], results: Sequence[Ran]) -> Bar:
    plan, told = subject.plan, [prediction.to_dict() for prediction in predicted]
    steps = [result["iteration_s"] for result in results]
    measured_s = median(step["median"] for step in steps)
    low, high = (
        (min(step["median"] for step in steps), max(step["median"] for step in steps))
        if len(steps) > 1
        else (steps[0]["p10"], steps[0]["p90"])
    )
    return Bar(
        model=plan.model,
        strategy=subject.strategy,
        ranks=plan.devices,
        cost_model=cost,
        predicted_s=median(prediction.iteration_s for prediction in predicted),
        measured_s=measured_s,
        spread=(high - low) / measured_s,
        batch=plan.batch,
        terms={
            term.name: (
                median(float(fields.get(f"{term.waited}_s", 0.0)) for fields in told),
                median(max(0.0, result.get(f"{term.name}_s", 0.0)) for result in results),
            )
            for term in LAYER_TERMS
        },
        memory_bytes=(
            float(predicted[0].peak_memory_bytes),
            float(median(max(result["peak_memory_bytes"]) for result in results)),
        ),
        drift=median(drifts) if (drifts := [r["drift"] for r in results if r.get("drift") is not None]) else None,
    )


def _rankings(near: Sequence[_Subject], costs: Sequence[str], runs: _Runs) -> list[Ranking]:
    """Each in turn with the best, step by step: how much longer it takes than that does not drift with the machine."""
    best = near[0].plan
    ran = runs.of(repeat(near, runs.repeats), against=best)
    best_s = median([result["other"]["iteration_s"]["median"] for results in ran for result in results] or [0.0])
    found = []
    for cost in costs:
        pairs = [
            (
                subject.predicted[cost].iteration_s,
                best_s / median(result["other"]["speedup"]["median"] for result in results),
            )
            for subject, results in zip(near, ran, strict=True)
            if results and cost in subject.predicted
        ]
        if len(pairs) > 1:
            predicted_s, measured_s = zip(*pairs, strict=True)
            found.append(
                Ranking(
                    model=best.model,
                    ranks=best.devices,
                    cost_model=cost,
                    predicted_s=predicted_s,
                    measured_s=measured_s,
                )
            )
    return found


def _run(plan: Plan, iterations: int, against: Plan | None) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        return _slicewise(*run_command(Path(folder), plan, iterations, against))


def run_command(folder: Path, plan: Plan, iterations: int, against: Plan | None) -> list[str]:
    """`slicewise run` of a plan, for a program that reads the answer; plans are saved in `folder`."""
    plan.save(folder / "plan.json")
    command = ["run", str(folder / "plan.json"), "--iterations", str(iterations), "--json"]
    if against is not None:
        against.save(folder / "against.json")
        command += ["--compare", str(folder / "against.json")]
    return command


def _slicewise(*arguments: str) -> dict[str, Any]:
    """The document that a command prints; in processes of its own, as a user starts it."""
    command = [sys.executable, "-m", "slicewise", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        words = [line for line in done.stderr.splitlines() if line.strip()]
        raise RequestError(words[-1].removeprefix("slicewise: ") if words else f"ended with code {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _why(model: str, strategy: str, ranks: int, error: Exception) -> dict[str, Any]:
    return {"model": model, "strategy": strategy, "ranks": ranks, "reason": str(error)}
