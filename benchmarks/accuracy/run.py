"""Accuracy on one device, under data parallelism and under a layer-wise plan: `python benchmarks/accuracy/run.py`."""

import argparse
import json
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy.digits import Curve, train

RANKS = 2
STRATEGIES = ("one device", "data", "mixed")
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training set (default: 20)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, {RANKS} ranks, gloo")
    print()
    print("| numbers | trained under | last loss | test accuracy | largest difference of a step's loss |")
    print("|---|---|---|---|---|")
    for dtype in DTYPES:
        curves = {strategy: curve(strategy, options.epochs, dtype) for strategy in STRATEGIES}
        truth = curves["one device"]
        for strategy, one in curves.items():
            apart = max(abs(a - b) / b for a, b in zip(one.losses, truth.losses, strict=True))
            told = f"{apart:.0e}" if strategy != "one device" else ""
            print(f"| {dtype} | {strategy} | {one.losses[-1]:.6e} | {one.accuracies[-1]:.2%} | {told} |", flush=True)


def curve(strategy: str, epochs: int, dtype: str) -> Curve:
    if strategy == "one device":
        return train(strategy, epochs, DTYPES[dtype])
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "curve.json"
        spawn(_rank, (f"{folder}/meeting", strategy, epochs, dtype, str(result)), nprocs=RANKS)
        return Curve(**json.loads(result.read_text()))


def _rank(rank: int, meeting: str, strategy: str, epochs: int, dtype: str, result: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    trained = train(strategy, epochs, DTYPES[dtype])
    if rank == 0:
        Path(result).write_text(json.dumps(asdict(trained)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
