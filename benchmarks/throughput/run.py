"""Plans against DistributedDataParallel on this machine: `python benchmarks/throughput/run.py`.

Each row is one `slicewise run --compare ddp`: the two take turns step by step in one process per rank.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# model, input, batch over all ranks
JOBS: tuple[tuple[str, str | None, int], ...] = (("alexnet", None, 64), ("unet3d", "1x48x48x48", 2))
STRATEGIES = ("data", "layerwise")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=20, help="paired steps per row (default: 20)")
    options = parser.parse_args()
    slicewise("calibrate")
    rows = [
        measure(model, shape, batch, strategy, options.iterations)
        for model, shape, batch in JOBS
        for strategy in STRATEGIES
    ]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, 2 ranks x 1 thread, gloo")
    print()
    print(
        "| network | batch | plan | step | DDP's step | times DDP's speed (95 %) | predicted / measured | bytes, its |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(row)


def measure(model: str, shape: str | None, batch: int, strategy: str, iterations: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        sized = ["--input", shape] if shape else []
        slicewise(
            "plan", model, *sized, "--devices", "2", "--batch", str(batch), "--strategy", strategy, "-o", str(plan)
        )
        result = slicewise("run", str(plan), "--compare", "ddp", "--iterations", str(iterations), "--json")
    ran: dict[str, Any] = json.loads(result)
    step_s, ddp = ran["iteration_s"]["median"], ran["ddp"]
    ratio = ddp["speedup"]
    return (
        f"| {model} {shape or ''} | {batch} | {strategy} | {step_s:.3f} s | {ddp['iteration_s']['median']:.3f} s "
        f"| {ratio['median']:.2f}x ({ratio['low']:.2f} to {ratio['high']:.2f}) "
        f"| {ran['predicted']['iteration_s'] / step_s:.2f} "
        f"| {ran['bytes_moved'] / 1e6:.1f} MB, {ddp['bytes_moved'] / 1e6:.1f} MB |"
    )


def slicewise(*arguments: str) -> str:
    command = [sys.executable, "-m", "slicewise", *arguments]
    print("+ slicewise", *arguments, file=sys.stderr)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
