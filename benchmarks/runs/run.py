"""How right the oracle is about published runs: `python -m benchmarks.runs.run [--data FILE ...] [--json]`.

Prints the tables of README.md. `--data` takes other CSV files of the same columns.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.markdown import show
from benchmarks.runs.asking import Answer, asked, measured_on_one
from benchmarks.runs.rows import FILES, PublishedRun, published


def scores(answers: Sequence[Answer]) -> dict[str, float]:
    return {
        "rows": len(answers),
        "accuracy": mean(one.accuracy for one in answers),
        "log_error": mean(abs(one.error) for one in answers),
        "bias": mean(one.error for one in answers),
        "covered": mean(one.covered for one in answers),
        "half_width": mean(one.width for one in answers),
        "infeasible": mean(not one.row.feasible for one in answers),
    }


def grouped(answers: Sequence[Answer], key: Callable[[PublishedRun], str]) -> dict[str, dict[str, float]]:
    names = sorted({key(one.run) for one in answers})
    return {name: scores([one for one in answers if key(one.run) == name]) for name in names}


def report(runs: Sequence[PublishedRun]) -> dict[str, Any]:
    answers = [asked(run) for run in runs]
    known = [one for one in answers if one.row.terms is not None]
    pairs = measured_on_one(runs)
    several = [asked(run, (one.batch, one.iteration_s)) for run, one in pairs.items()]
    null = [_null(run, one) for run, one in pairs.items()]
    refused = [one for one in answers if not one.row.feasible]
    return {
        "all": scores(known) | {"rows": len(answers), "infeasible": len(refused) / len(answers)},
        "one_gpu": scores([one for one in known if one.run.devices == 1]),
        "by_source": grouped(known, lambda run: run.source),
        "by_network": grouped(known, lambda run: run.network),
        "by_device": grouped(known, lambda run: f"{run.machine.device.name.partition('-')[0]} {run.dtype}"),
        "by_strategy": grouped(known, lambda run: run.strategy),
        "infeasible": [
            {"source": one.run.source, "network": one.run.network, "gpu": one.run.gpu, "reason": one.row.reason}
            for one in refused
        ],
        **({"measured": scores(several) | {"null": mean(null)}} if several else {}),
    }


def _null(run: PublishedRun, one: PublishedRun) -> float:
    """As long as one GPU takes for its share."""
    guess = one.iteration_s * run.batch / run.devices / one.batch
    return max(0.0, 1 - abs(guess - run.iteration_s) / run.iteration_s)


def shown(found: dict[str, Any]) -> None:
    head = ["rows", "accuracy", "mean abs ln", "bias", "90 % range covers", "mean half-width", "called infeasible"]
    groups = {"all": found["all"], "one GPU": found["one_gpu"]}
    if "measured" in found:
        null = f"given one GPU's time (null {found['measured']['null']:.1%})"
        groups[null] = found["measured"]
    show("Published runs", ["what", *head], [_cells(name, each) for name, each in groups.items()])
    for what in ("source", "network", "device", "strategy"):
        show(f"By {what}", [what, *head], [_cells(name, each) for name, each in found[f"by_{what}"].items()])
    if found["infeasible"]:
        show("Called infeasible", ["source", "network", "GPU", "reason"], [
            list(one.values()) for one in found["infeasible"]
        ])  # fmt: skip


def _cells(name: str, one: dict[str, float]) -> list[str]:
    return [
        name,
        str(one["rows"]),
        f"{one['accuracy']:.1%}",
        f"{one['log_error']:.3f}",
        f"{one['bias']:+.2f}",
        f"{one['covered']:.0%}",
        f"{one['half_width']:.2f}x",
        f"{one['infeasible']:.0%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", default=FILES, metavar="FILE", help="CSV files (default: ours)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = report(published(tuple(options.data)))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        shown(found)


if __name__ == "__main__":
    main()
