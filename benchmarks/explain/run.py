"""How long an explanation takes once the plan exists: `python -m benchmarks.explain.run` prints README.md's table."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from slicewise.explaining.decisions import explain
from slicewise.graph.sources import load_graph
from slicewise.plans.plan import Plan

CASES = [("alexnet", 16), ("densenet121", 16), ("resnet152", 16), ("resnet152", 64)]
REPEATS = 5
SLICEWISE = str(Path(sys.executable).parent / "slicewise")


def computing_s(path: Path) -> tuple[float, int]:
    """Of one call, with graph and plan in memory; and how many decisions it explains."""
    plan = Plan.load(path)
    graph = load_graph(plan.model, plan.input_shape)
    started = time.perf_counter()
    told = explain(plan, graph)
    return time.perf_counter() - started, len(told.decisions)


def command_s(path: Path, *options: str) -> float:
    started = time.perf_counter()
    subprocess.run([SLICEWISE, "explain", str(path), *options], capture_output=True, check=True)
    return time.perf_counter() - started


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| network | devices | layers | decisions | computing | whole command | `--per-layer` |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model, devices in CASES:
            path = Path(folder) / f"{model}.json"
            request = ("--cluster", "p100-4x4", "--devices", str(devices), "-o", str(path))
            subprocess.run([SLICEWISE, "plan", model, *request], capture_output=True, check=True)
            calls = [computing_s(path) for _ in range(REPEATS)]
            whole = median(command_s(path) for _ in range(REPEATS))
            each = median(command_s(path, "--per-layer") for _ in range(REPEATS))
            print(
                f"| {model} | {devices} | {len(Plan.load(path).slicings)} | {calls[0][1]} | "
                f"{median(seconds for seconds, _ in calls):.2f} s | {whole:.2f} s | {each:.2f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
