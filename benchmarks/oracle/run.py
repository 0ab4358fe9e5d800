"""How long the oracle takes, and where its two engines part: `python -m benchmarks.oracle.run [--quick]`.

Prints the tables of README.md.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.markdown import show
from slicewise.graph.sources import load_graph
from slicewise.strategies.projecting import oracle
from slicewise.strategy import STRATEGIES

COUNTS = [1 << power for power in range(11)]
REQUEST = ("--cluster", "abci-v100", "--batch-per-device", "32", "--dataset", "imagenet")
REPEATS = 5


def computing_s(model: str, counts: list[int], engine: str) -> float:
    """Of one call in a process that has computed nothing yet; loading code and graph is not in it."""
    request = json.dumps({"model": model, "counts": counts, "engine": engine})
    command = [sys.executable, "-m", "benchmarks.oracle.run", "--case", request]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def case(model: str, counts: list[int], engine: str) -> float:
    graph = load_graph(model)
    started = time.perf_counter()
    oracle(graph, "abci-v100", devices=counts, batch_per_device=32, dataset="imagenet", engine=engine)
    return time.perf_counter() - started


def command_s(model: str, devices: str) -> float:
    slicewise = str(Path(sys.executable).parent / "slicewise")
    started = time.perf_counter()
    subprocess.run([slicewise, "oracle", model, *REQUEST, "--devices", devices], capture_output=True, check=True)
    return time.perf_counter() - started


def speed(repeats: int) -> None:
    spelled = {"1..1,024 (11 counts)": (COUNTS, "1,2,...,1024"), "65,536": ([65536], "65536")}
    bars = {("resnet152", "1..1,024 (11 counts)"): ("1 s", "2 s"), ("resnet152", "65,536"): ("5 s", "5 s")}
    rows = []
    for model in ("resnet152", "densenet121", "vgg16"):
        for name, (counts, text) in spelled.items():
            computing = [computing_s(model, counts, "paradl") for _ in range(repeats)]
            whole = [command_s(model, text) for _ in range(repeats)]
            bar = bars.get((model, name), ("", ""))
            rows.append([model, name, f"{median(computing):.2f} s", bar[0], f"{median(whole):.2f} s", bar[1]])
    show(
        f"All nine strategies by closed forms (median of {repeats})",
        ["network", "devices", "computing", "bar", "whole command", "bar"],
        rows,
    )


def as_plans(counts: list[int]) -> None:
    rows = [
        [str(count), *(f"{computing_s('resnet152', [count], engine):.2f} s" for engine in ("paradl", "slicewise"))]
        for count in counts
    ]
    show("ResNet-152, one device count, by engine", ["devices", "paradl", "slicewise"], rows)


def agreement() -> None:
    """Without overlap, which only one of them simulates."""
    rows = []
    for count in (8, 64):
        tables = [
            oracle(
                load_graph("resnet50"), "dgx-a100", devices=[count], batch_per_device=32, engine=engine, overlap=False
            )
            for engine in ("paradl", "slicewise")
        ]
        for name in STRATEGIES:
            closed, planned = (next(row for row in table if row.strategy == name) for table in tables)
            if closed.terms and planned.terms:
                pairs = (
                    (closed.terms.compute_s, planned.terms.compute_s),
                    (closed.terms.communication_s, planned.terms.communication_s),
                    (closed.iteration_s, planned.iteration_s),
                )
                cells = [f"{1000 * value:.1f}" for pair in pairs for value in pair]
                rows.append([str(count), name, *cells, f"{closed.iteration_s / planned.iteration_s:.2f}"])
    kinds = [f"{what}, {engine}" for what in ("compute", "communication", "iteration") for engine in ("paradl", "plan")]
    show(
        "ResNet-50 on `dgx-a100`, 32 samples per device, no overlap, in ms",
        ["devices", "strategy", *kinds, "paradl / plan"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat, plans for 16 devices")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)  # what a process of its own answers
    options = parser.parse_args()
    if options.case:
        print(case(**options.case))
        return
    speed(1 if options.quick else REPEATS)
    as_plans([16] if options.quick else [16, 256, 1024])
    agreement()


if __name__ == "__main__":
    main()
