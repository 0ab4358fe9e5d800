"""What checkpoints and the watchdog cost, in turn with plain DCP and without: see README.md.

.venv/bin/python -m benchmarks.checkpoint.run
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.markdown import show
from slicewise.running.launch import MALLOC_TUNABLES

MODEL, BATCH, SAVES, STEPS = "resnet50", 2, 20, 30
RANKS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where checkpoints are written")
    options = parser.parse_args()
    if "RANK" in os.environ:
        measure(Path(options.folder))
        return
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    environment = {"OMP_NUM_THREADS": "1", "GLIBC_TUNABLES": MALLOC_TUNABLES, **os.environ}
    done = subprocess.run([*command, "-m", "benchmarks.checkpoint.run", *sys.argv[1:]], env=environment)
    sys.exit(done.returncode)


def measure(parent: Path) -> None:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    import slicewise as sw
    from slicewise.graph.sources import build_model, load_graph
    from slicewise.runtime import whereabouts

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, _ = build_model(MODEL, None, None)
    plan = sw.plan(load_graph(MODEL), "dgx-a100", devices=RANKS, batch=BATCH, strategy="data")
    net = sw.parallelize(model, plan, stall_timeout=0)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    images, labels = torch.randn(BATCH // RANKS, 3, 224, 224), torch.zeros(BATCH // RANKS, dtype=torch.long)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()

    step()
    folder = _shared(parent)
    saves = _saves(net, optimizer, folder, step)
    marks = _marks(step, folder, whereabouts)
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
        _show(saves, marks)
    dist.barrier()
    dist.destroy_process_group()


def _shared(parent: Path) -> Path:
    import torch.distributed as dist

    told = [tempfile.mkdtemp(prefix="slicewise-benchmark-", dir=parent) if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(told, src=0)
    return Path(told[0])


def _timed(work: Callable[[], Any]) -> float:
    import torch.distributed as dist

    dist.barrier()
    start_s = time.perf_counter()
    work()
    dist.barrier()
    return time.perf_counter() - start_s


def _saves(net: Any, optimizer: Any, folder: Path, step: Callable[[], None]) -> dict[str, list[float]]:
    """Seconds that training waits for a save, each way in turn; and the steps beside a save in the background."""
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.checkpoint.state_dict_saver import save

    import slicewise as sw

    def plain() -> None:
        weights, state = get_state_dict(net, optimizer)
        save({"model": weights, "optimizer": state}, checkpoint_id=folder / "plain")

    seconds: dict[str, list[float]] = {name: [] for name in ("plain", "whole", "background", "beside", "step", "load")}
    for number in range(SAVES):
        if dist.get_rank() == 0:
            shutil.rmtree(folder / "plain", ignore_errors=True)
        seconds["plain"].append(_timed(plain))
        ours = partial(sw.save_checkpoint, folder / "ours", net, optimizer, step=number, keep=1)
        seconds["whole"].append(_timed(ours))
        saving: list[Any] = []
        seconds["background"].append(_timed(partial(_begin, saving, partial(ours, asynchronous=True))))
        seconds["beside"].append(_timed(step))
        saving[0].wait()
        seconds["step"].append(_timed(step))
        seconds["load"].append(_timed(lambda: sw.load_checkpoint(folder / "ours", net, optimizer)))
    return seconds


def _begin(saving: list[Any], save: Callable[[], Any]) -> None:
    saving.append(save())


def _marks(step: Callable[[], None], folder: Path, whereabouts: Any) -> dict[str, Any]:
    """Steps with and without marks, in turn; how many marks a step has, and what one takes."""
    import torch.distributed as dist

    seconds: dict[str, list[float]] = {"off": [], "on": []}
    whereabouts.record_to(folder / f"place-{dist.get_rank()}")
    memory, count = whereabouts._memory, 0
    for number in range(STEPS):
        for name in ("off", "on") if number % 2 else ("on", "off"):
            whereabouts._memory = memory if name == "on" else None
            whereabouts.at_step(number)
            seconds[name].append(_timed(step))
            count = whereabouts._marks if name == "on" else count
    whereabouts._memory = memory
    tries = 20_000
    start_s = time.perf_counter()
    for _ in range(tries):
        whereabouts.mark("compute", "layer1.0.conv1")
    return {**seconds, "marks": count, "mark_s": (time.perf_counter() - start_s) / tries}


def _ratio(slower: list[float], faster: list[float]) -> str:
    ratios = np.array(slower) / np.array(faster)
    drawn = np.median(np.random.default_rng(0).choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{np.median(ratios):.2f}x ({low:.2f} to {high:.2f})"


def _show(saves: dict[str, list[float]], marks: dict[str, Any]) -> None:
    names = {
        "plain": "`torch.distributed.checkpoint.save`, written over the one before",
        "whole": "`sw.save_checkpoint`: new folder, checksums, manifest",
        "background": "the same, `asynchronous=True`: until training goes on",
        "load": "`sw.load_checkpoint`: checksums checked, all or nothing",
    }
    plain = saves["plain"]
    rows = [
        (told, f"{median(saves[name]):.2f} s", _ratio(saves[name], plain), f"{1e3 * median(saves[name]) / 100:.1f} ms")
        for name, told in names.items()
    ]
    show(f"{MODEL} with Adam, {RANKS} ranks", ("", "median", "over plain DCP, paired", "per step, every 100"), rows)
    beside = _ratio(saves["beside"], saves["step"])
    print(f"\nthe step beside a save in the background: {beside} a step without ({median(saves['step']):.2f} s)")
    ratio = _ratio(marks["on"], marks["off"])
    share = marks["marks"] * marks["mark_s"] / median(marks["off"])
    print(
        f"marks of the watchdog: {marks['marks']} in a step, {1e6 * marks['mark_s']:.2f} us each, {share:.4%} of a "
        f"step of {median(marks['off']):.2f} s; steps with them, paired: {ratio} those without"
    )


if __name__ == "__main__":
    main()
