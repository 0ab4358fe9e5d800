"""`python -m benchmarks.devices.run --data FOLDER [--json]`: how right the compute model is on published timings.

The folder has the form of benchmarks/devices/data: devices.csv, and deepbench_layers.csv, neusight_ops.csv or both.
Rows that cannot be scored are left out and counted. A folder without any row to score ends with exit code 1.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.devices import fitted
from benchmarks.devices.samples import DATA, boards, timings
from benchmarks.devices.scores import Scores, predict, scores
from benchmarks.markdown import show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of timings; without it, those of the fit")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = scored(arguments.data)
    if arguments.json:
        print(json.dumps(found, indent=1))
    elif found["accuracy"]["all"] is not None:
        report(found)
    for why, count in found["left_out"].items():
        print(f"{arguments.data}: {count} rows left out: {why}", file=sys.stderr)
    if found["accuracy"]["all"] is None:
        raise SystemExit(f"{arguments.data}: nothing to score in deepbench_layers.csv and neusight_ops.csv")


def scored(folder: Path) -> dict[str, Scores]:
    """`accuracy`, `log_error` and `left_out`, the rows without a score by reason."""
    read, described, records = timings(folder), boards(folder), fitted.load()
    names = {group.rsplit("/", 2)[0] for group in records}
    return scores(read.rows, predict(read.rows, records, described), names) | {"left_out": read.left_out}


def report(found: dict[str, Scores]) -> None:
    accuracy, log_error = found["accuracy"], found["log_error"]
    print(f"accuracy {accuracy['all']:.1%}, mean |ln| {log_error['all']:.3f}")
    for title, key in (("operator", "by_op"), ("device", "by_device")):
        apart = ["known devices", "unknown devices"] if key == "by_op" else []
        rows = [
            [name, f"{value:.1%}", f"{log_error[key][name]:.3f}", *_apart(accuracy, key, name)]
            for name, value in accuracy[key].items()
        ]
        show(f"By {title}", [title, "accuracy", "mean abs ln", *apart], rows)


def _apart(accuracy: Scores, key: str, name: str) -> list[str]:
    if key != "by_op":
        return []
    values = [accuracy[side]["by_op"].get(name) for side in ("known", "unknown")]
    return ["" if value is None else f"{value:.1%}" for value in values]


if __name__ == "__main__":
    main()
