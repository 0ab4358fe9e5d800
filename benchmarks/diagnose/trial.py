"""One run of two ranks, each pinned to a core of its own, with a fault brought about in it."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.diagnose.faults import MEGABITS_PER_S
from benchmarks.throughput.hosts import hosts
from slicewise.cluster.cluster import load_cluster
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan
from slicewise.running.launch import MALLOC_TUNABLES

FAULTS_FILE = Path(__file__).parent / "faults.py"
NETWORK, BATCHES = f"{FAULTS_FILE}:network", f"{FAULTS_FILE}:batches"
WARM_UP, STEPS, BATCH = 2, 60, 8


def trial(
    plan: Path,
    folder: Path,
    *,
    fault: str = "none",
    rank: int = 1,
    since: int = 0,
    processes: int = 1,
    steps: int = STEPS,
    link: bool,
) -> Path:
    """`slicewise run PLAN --json --trace`, with `fault` on `rank` from measured step `since` on.

    Leaves run.json, whose place is returned, trace.json and iterations.csv. `processes` compete with a slow rank;
    `link`: between two emulated hosts, without which a link cannot be throttled.
    """
    trace = folder / "trace.json"
    given = ["run", str(plan), "--iterations", str(steps), "--data", BATCHES, "--trace", str(trace), "--json"]
    environment = {
        "FAULT": fault,
        "FAULT_RANK": str(rank),
        "FAULT_STEP": str(WARM_UP + since),
        "FAULT_PROCESSES": str(processes),
    }
    run_ranks(["-m", "slicewise", *given], environment, folder, link=link)
    log = (folder / "rank0.log").read_text()
    path = folder / "run.json"
    path.write_text(log[log.index("{\n") : log.rindex("}") + 1])
    seconds = json.loads(path.read_text())["steps_s"]
    whole = [
        max(a + b for a, b in zip(*row, strict=True)) for row in zip(seconds["step"], seconds["data"], strict=True)
    ]
    (folder / "iterations.csv").write_text("\n".join(["iteration_s", *map(str, whole)]) + "\n")
    return path


def run_ranks(program: Sequence[str], environment: dict[str, str], folder: Path, *, link: bool) -> None:
    common = {"GLIBC_TUNABLES": MALLOC_TUNABLES, "OMP_NUM_THREADS": "1", **environment}
    cores = sorted(os.sched_getaffinity(0))
    with hosts(MEGABITS_PER_S if link else None) as places:
        started = []
        for rank, place in enumerate(places):
            pinned = replace(
                place,
                prefix=(*place.prefix, *_first(), "taskset", "-c", str(cores[rank % len(cores)])),
                environment={**place.environment, **common},
            )
            started.append(pinned.start([sys.executable, *program], rank, len(places), folder / f"rank{rank}.log"))
        try:
            codes = [process.wait() for process in started]
        finally:
            for process in started:
                process.kill()
    for rank, code in enumerate(codes):
        if code:
            sys.exit(f"rank {rank} ended with code {code}\n{(folder / f'rank{rank}.log').read_text()[-2000:]}")


def _first() -> tuple[str, ...]:
    """Before other work on the machine, as far as one may: a session is a scheduling group, and that has a nice value.

    What competes with a rank is in its group and inherits its core.
    """
    if os.geteuid() != 0 or not Path("/proc/self/autogroup").exists():
        return ()
    return ("setsid", "sh", "-c", 'echo -15 > /proc/self/autogroup; exec "$@"', "sh")


def calibrated(folder: Path, *, link: bool) -> Path:
    """A description of the machine as the trials find it."""
    path = folder / "cluster.toml"
    run_ranks(["-m", "slicewise", "calibrate", "--quick", "-o", str(path)], {}, folder, link=link)
    return path


def planned(folder: Path, cluster: Path) -> Path:
    """The plan that all trials run: data parallelism on two ranks."""
    path = folder / "plan.json"
    machine = load_cluster(str(cluster)).with_devices(2)
    baseline_plan(load_graph(NETWORK), machine, "data", batch=BATCH).save(path)
    return path
