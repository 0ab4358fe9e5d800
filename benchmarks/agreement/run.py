"""What it costs that ranks compare what they pass, and follow their modules, in every step.

`python -m benchmarks.agreement.run`
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.multiprocessing.spawn import spawn

from benchmarks.markdown import show
from slicewise.cluster.cluster import load_cluster
from slicewise.graph.sources import build_model, load_graph
from slicewise.planning import baseline_plan
from slicewise.runtime.parallel import parallelize
from slicewise.runtime.sliced_module import SlicedModule

RANKS = 2
BATCHES = {"lenet5": 64, "alexnet": 16, "resnet50": 8, "densenet121": 8}
WATCHED = ("_ask", "_settle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="steps with and without, in turn (default: 20)")
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, {RANKS} ranks, gloo")
    rows = []
    for name, batch in BATCHES.items():
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            spawn(_rank, (f"{folder}/meeting", name, batch, options.pairs, str(result)), nprocs=RANKS)
            found = json.loads(result.read_text())
        rows.append(
            (
                name,
                str(batch),
                f"{found['step_s'] * 1e3:.1f} ms",
                f"{found['inside_s'] * 1e6:.0f} us",
                f"{found['inside_s'] / found['step_s']:.2%}",
                f"{found['ratio']:.3f}",
            )
        )
    show(
        "A data-parallel step with the comparison and without it",
        ("network", "batch", "step", "inside the comparison", "share of the step", "with / without, median of pairs"),
        rows,
    )


def _rank(rank: int, meeting: str, name: str, batch: int, pairs: int, result: str) -> None:
    torch.set_num_threads(1)
    os.environ["LOCAL_WORLD_SIZE"] = str(RANKS)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    graph = load_graph(name)
    plan = baseline_plan(graph, load_cluster("p100-4x4").with_devices(RANKS), "data", batch=batch)
    torch.manual_seed(0)
    net = parallelize(build_model(name)[0], plan)
    x = torch.randn(batch // RANKS, *graph.inputs[0].shape[1:])
    target = torch.zeros(batch // RANKS, dtype=torch.int64)
    spent: list[float] = []
    for method in WATCHED:
        _watch(net, method, spent)
    _watch(net._visible, "state", spent)
    counting, inside = net._counting, []
    steps: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * pairs + 4):
        compares = number % 2 == 0
        net._counting = counting if compares else None
        spent.clear()
        seconds = _step(net, x, target)
        if number >= 4:
            steps[compares].append(seconds)
            inside += [sum(spent)] if compares else []
    if rank == 0:
        ratios = [one / other for one, other in zip(steps[True], steps[False], strict=True)]
        told = {
            "step_s": statistics.median(steps[True]),
            "inside_s": statistics.median(inside),
            "ratio": statistics.median(ratios),
        }
        Path(result).write_text(json.dumps(told))
    dist.destroy_process_group()


def _step(net: SlicedModule, x: torch.Tensor, target: torch.Tensor) -> float:
    dist.barrier()
    start_s = time.perf_counter()
    output = net(x)
    F.cross_entropy(output, target).backward()
    net.zero_grad()
    return time.perf_counter() - start_s


def _watch(holder: Any, method: str, spent: list[float]) -> None:
    """Add up the seconds that calls of a method take."""
    inner: Callable[..., Any] = getattr(holder, method)

    def timed(*arguments: Any) -> Any:
        start_s = time.perf_counter()
        try:
            return inner(*arguments)
        finally:
            spent.append(time.perf_counter() - start_s)

    vars(holder)[method] = timed


if __name__ == "__main__":
    main()
