"""Faults brought about in real runs, and what `slicewise diagnose` says: `python -m benchmarks.diagnose.run`.

Each repeat has one run per fault, in turn, and as many clean ones as asked for; the same runs are judged by their JSON,
their timeline and their iteration times alone. Results are kept in build/diagnose: `--show` prints them again.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.diagnose.faults import FAULTS
from benchmarks.diagnose.trial import STEPS, calibrated, planned, trial
from benchmarks.throughput.hosts import why_not
from slicewise.cluster.cluster import load_cluster
from slicewise.diagnosis.diagnosis import diagnosis_of
from slicewise.diagnosis.expectation import Expectation, expectation_of
from slicewise.diagnosis.readers.files import read_files
from slicewise.graph.sources import load_graph
from slicewise.plans.plan import Plan

BUILD = Path("build/diagnose")
FILES = {"JSON of `slicewise run`": "run.json", "its timeline": "trace.json", "iteration times": "iterations.csv"}
SINCE = STEPS // 2
NONE, WRONG = "none", "wrong cost model"
ON_LINKS = ("slow link", "congestion bursts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="runs with each fault (default: 5)")
    parser.add_argument("--clean", type=int, default=20, help="runs without any (default: 20)")
    parser.add_argument("--only", action="append", choices=FAULTS, help="a fault (default: all)")
    parser.add_argument("--show", action="store_true", help="only print the tables of what was measured before")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if not options.show:
        measure(options.only or list(FAULTS), options.repeats, options.clean)
    show([json.loads(path.read_text()) for path in sorted(BUILD.glob("trial-*.json"))])


def measure(faults: Sequence[str], repeats: int, clean: int) -> None:
    obstacle = why_not()
    link = obstacle is None
    if not link and set(faults) & set(ON_LINKS):
        print(f"{' and '.join(ON_LINKS)}: not tried; {obstacle}", file=sys.stderr)
        faults = [fault for fault in faults if fault not in ON_LINKS]
    for old in BUILD.glob("trial-*.json"):
        old.unlink()
    cluster = calibrated(BUILD, link=link)
    plan = planned(BUILD, cluster)
    expected, hopeful = projected(plan), projected(hopeful_plan(cluster))
    number = 0
    for turn in range(max(repeats, clean)):
        for fault in faults:
            if turn < (clean if fault == NONE else repeats):
                # every second fault is there from the first step
                since, rank = (0 if turn % 2 else SINCE), number % 2
                said: dict[str, Any] = {"fault": fault, "rank": rank, "since": since}
                with tempfile.TemporaryDirectory() as folder:
                    trial(plan, Path(folder), fault=fault, rank=rank, since=since, link=link)
                    said["found"] = verdicts(Path(folder), expected)
                    said["hopeful"] = verdicts(Path(folder), hopeful)

                (BUILD / f"trial-{number:03}.json").write_text(json.dumps(said, indent=1))
                first = said["found"][next(iter(FILES))][0]
                told = f"{first['kind']}, ranks {first['ranks']}, since {first['since_step']}"
                print(f"{number}: {fault}, rank {rank}, since {since} -> {told}", file=sys.stderr)
                number += 1


def hopeful_plan(cluster: Path) -> Path:
    """The same plan for a machine that is described as four times as fast."""
    folder = BUILD / "hopeful"
    folder.mkdir(exist_ok=True)
    lines = []
    for line in cluster.read_text().splitlines():
        name, _, value = line.partition(" = ")
        fast = name in ("peak_flops_per_s", "memory_bytes_per_s", "bytes_per_s")
        slow = name in ("kernel_s", "latency_s")
        lines.append(f"{name} = {float(value) * (4 if fast else 0.25)}" if fast or slow else line)
    described = folder / "cluster.toml"
    described.write_text("\n".join(lines) + "\n")
    return planned(folder, described)


def projected(plan: Path) -> Expectation:
    made = Plan.load(plan)
    cluster = load_cluster(made.cluster).with_devices(made.devices)
    return expectation_of(made, load_graph(made.model, made.input_shape), cluster)


def verdicts(run: Path, expected: Expectation) -> dict[str, list[dict[str, Any]]]:
    """By each kind of file, the costliest first."""
    found = {kind: diagnosis_of(read_files([run / file]), expected) for kind, file in FILES.items()}
    return {kind: [verdict.to_dict() for verdict in diagnosis.verdicts] for kind, diagnosis in found.items()}


def show(trials: Sequence[dict[str, Any]]) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"2 ranks x 1 thread, gloo, {STEPS} steps a run")
    rows = [(trial["fault"], trial["found"], trial) for trial in trials]
    rows += [(WRONG, trial["hopeful"], trial) for trial in trials if trial["fault"] == NONE]
    columns = ["as projected", *(fault for fault in FAULTS if fault != NONE), WRONG, "slowdown"]
    for kind in FILES:
        print(f"\nBy {kind}: brought about (rows), costliest verdict (columns)\n")
        print(f"| | runs | {' | '.join(columns)} | where and when | other verdicts beside it |")
        print(f"|---|{'---|' * (len(columns) + 3)}")
        for fault in dict.fromkeys(fault for fault, _, _ in rows):
            mine = [(found[kind], trial) for name, found, trial in rows if name == fault]
            first = Counter(found[0]["kind"] for found, _ in mine)
            counts = " | ".join(str(first[column]) if first[column] else "" for column in columns)
            right = sum(located(fault, found[0], trial) for found, trial in mine)
            where = "" if fault in (NONE, WRONG) else f"{right} of {len(mine)}"
            print(f"| {fault} | {len(mine)} | {counts} | {where} | {sum(len(found) > 1 for found, _ in mine)} |")
    clean = [trial["found"] for trial in trials if trial["fault"] == NONE]
    alarms = {kind: sum(found[kind][0]["kind"] != "as projected" for found in clean) for kind in FILES}
    print(f"\nfalse alarms in {len(clean)} clean runs: {', '.join(f'{n} by {kind}' for kind, n in alarms.items())}")


def located(fault: str, verdict: dict[str, Any], trial: dict[str, Any]) -> bool:
    """The right rank, where one is to blame, and the right step within one."""
    ranks = verdict["ranks"] == [trial["rank"]] if fault not in ON_LINKS else True
    return bool(
        verdict["kind"] == fault
        and ranks
        and verdict["since_step"] is not None
        and abs(verdict["since_step"] - trial["since"]) <= 1
    )


if __name__ == "__main__":
    if shutil.which("taskset") is None:
        sys.exit("ranks are pinned by taskset: not found; install util-linux")
    main()
