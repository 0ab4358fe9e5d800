"""Predictions against runs, over links of several speeds: `python -m benchmarks.truth.run`.

1. Every network under every strategy, run; what each cost model said of it (`slicewise.validate`).
2. The plan that each cost model finds best, run on the same link: its error, and what choosing by it costs.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

import slicewise as sw
from benchmarks.markdown import show
from benchmarks.throughput.hosts import why_not
from benchmarks.truth.places import RANKS, Place, place
from slicewise.cost.registry import MODELS
from slicewise.errors import SlicewiseError
from slicewise.partition.legal import SPACES
from slicewise.running.scoring import Validation, accuracy
from slicewise.running.validating import INPUT, USUAL_NETWORKS, USUAL_STRATEGIES, steps_of

LINKS: dict[str, int | None] = {"loopback": None, "1 Gb/s": 1000}
BATCH = 4 * RANKS
FORMS = "closed forms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", default=",".join(LINKS), help=f"of {', '.join(LINKS)} (default: all)")
    parser.add_argument("--models", default=",".join(USUAL_NETWORKS))
    parser.add_argument("--strategies", default=",".join(USUAL_STRATEGIES))
    parser.add_argument("--repeats", type=int, default=2, help="runs of each plan, in turn (default: 2)")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, help="a JSON file with all bars")
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, {RANKS} ranks, gloo")
    kept: dict[str, Any] = {}
    for link in options.links.split(","):
        if LINKS[link] is not None and (obstacle := why_not()):
            print(f"{link}: not measured; {obstacle}", file=sys.stderr)
            continue
        with place(LINKS[link]) as found:
            validation = sw.validate(
                models=options.models,
                strategies=options.strategies,
                cost="all",
                batch=BATCH,
                iterations=options.iterations,
                repeats=options.repeats,
                cluster=found.measured,
                runner=found.run,
                progress=_tell,
            )
            _show_bars(link, validation)
            _show_accuracy(link, validation)
            rows = list(_chosen(found, options.models.split(","), options.repeats, options.iterations))
        _show_chosen(link, rows)
        kept[link] = {"validation": validation.to_dict(), "chosen": rows}
    if options.output:
        options.output.write_text(json.dumps(kept, indent=1) + "\n")


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


def _chosen(found: Place, models: Sequence[str], repeats: int, iterations: int) -> Iterator[dict[str, Any]]:
    """Per network and cost model: the plan it finds best, and what that takes."""
    for model in models:
        plans: dict[str, sw.Plan] = {}
        for cost in (*MODELS, FORMS):
            try:
                plans[cost] = _best_by(cost, model, found)
            except SlicewiseError as error:
                _tell(f"{model}, {cost}: {error}")
        taken: dict[str, list[float]] = {cost: [] for cost in plans}
        for _ in range(repeats):
            for cost, plan in plans.items():
                _tell(f"running {model}, the plan of {cost}")
                taken[cost].append(found.run(plan, steps_of(plan, iterations))["iteration_s"]["median"])
        fastest_s = min(map(median, taken.values()), default=0.0)
        for cost, plan in plans.items():
            measured_s, predicted_s = median(taken[cost]), plan.predicted.iteration_s
            yield {
                "model": model,
                "cost_model": cost,
                "predicted_s": predicted_s,
                "measured_s": measured_s,
                "accuracy": accuracy(predicted_s, measured_s),
                "regret": measured_s / fastest_s - 1,
            }


def _best_by(cost: str, model: str, found: Place) -> sw.Plan:
    """Of the closed forms: the named strategy that they rank first."""
    if cost != FORMS:
        space = cost if cost in SPACES else "full"
        return sw.plan(model, found.machine, batch=BATCH, input=INPUT.get(model), cost=cost, space=space)
    rows = sw.oracle(model, found.machine, batch=BATCH, input=INPUT.get(model), devices=[RANKS]).to_dict()["rows"]
    possible = [row for row in rows if row["feasible"] and row["strategy"] in USUAL_STRATEGIES]
    best = min(possible, key=lambda row: row["iteration_s"])
    strategy = best["strategy"]
    return sw.plan(model, found.machine, batch=BATCH, input=INPUT.get(model), strategy=strategy, cost="analytic")


def _show_bars(link: str, validation: Validation) -> None:
    bars = {(bar.model, bar.strategy, bar.cost_model): bar for bar in validation.bars}
    subjects = dict.fromkeys((bar.model, bar.strategy) for bar in validation.bars)
    rows = []
    for subject in subjects:
        own = {cost: bars[(*subject, cost)] for cost in MODELS if (*subject, cost) in bars}
        any_bar = next(iter(own.values()))
        over = [f"{own[cost].predicted_s / own[cost].measured_s:.2f}" if cost in own else "" for cost in MODELS]
        rows.append((*subject, f"{any_bar.measured_s * 1e3:.0f} ms", f"{any_bar.spread:.0%}", *over))
    show(f"{link}: predicted / measured", ("network", "strategy", "measured", "runs differ by", *MODELS), rows)


def _show_accuracy(link: str, validation: Validation) -> None:
    told = validation.to_dict()
    rows = []
    for cost, scores in told["accuracy"]["by_cost_model"].items():
        parts = (scores["all"], scores["steady"], scores["compute"], scores["communication"])
        rows.append((cost, *("" if part is None else f"{part:.0%}" for part in parts)))
    rows.append(("nobody: the mean of a network's other strategies", f"{told['null_accuracy']:.0%}", "", "", ""))
    show(f"{link}: accuracy", ("cost model", "all", "without drift", "compute", "communication"), rows)
    print(f"\nruns of one plan differ by {told['repeatability']:.0%}; memory {told['memory_accuracy']:.0%}")
    if told["drift"] is not None:
        print(f"the same work took {told['drift']:.2f} times as long as when the machine was calibrated")
    for item in validation.skipped:
        print(f"left out: {item['model']}, {item['strategy']}{_by(item)}: {item['reason']}")


def _by(item: Any) -> str:
    return f", {item['cost_model']}" if "cost_model" in item else ""


def _show_chosen(link: str, rows: Sequence[dict[str, Any]]) -> None:
    head = ("network", *(f"{cost}: step, error, regret" for cost in (*MODELS, FORMS)))
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = {row["cost_model"]: row for row in rows if row["model"] == model}
        lines.append((model, *(_cell(own.get(cost)) for cost in (*MODELS, FORMS))))
    means = []
    for cost in (*MODELS, FORMS):
        own_rows = [row for row in rows if row["cost_model"] == cost]
        off, lost = (fmean(row[name] for row in own_rows) if own_rows else 0.0 for name in ("accuracy", "regret"))
        means.append(f"{1 - off:.0%}, {lost:.1%}" if own_rows else "")
    show(f"{link}: the plan that each finds best", head, [*lines, ("mean", *means)])


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['measured_s'] * 1e3:.0f} ms, {1 - row['accuracy']:.0%}, {row['regret']:.1%}"


if __name__ == "__main__":
    main()
