"""Plans by layers that are timed on this machine: search, time what the winner has, search again.

    plan = search by what is known                 at first by `calibrated`
    while the plan has layers that were not timed, and the budget lasts:
        time them, all ranks at once               slicewise calibrate --layers PLAN
        plan = search again

Times are kept on disk (cluster/times.py): what was timed once is not timed again.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slicewise.cluster.cluster import Cluster, local_path
from slicewise.cluster.freshness import MeasuredOn, here
from slicewise.cluster.times import read_times
from slicewise.cost.measured import MeasuredModel
from slicewise.environment import OF_LAUNCHER
from slicewise.errors import RequestError
from slicewise.plans.plan import Plan
from slicewise.search.solver import Progress

_MOST_ROUNDS = 12
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


def timed_plan(
    make: Callable[[Cluster], Plan],
    cluster: Cluster,
    budget_s: float | None,
    progress: Progress = lambda _: None,
    *,
    folder: Path | None = None,
) -> Plan:
    """`make(cluster)` with the times of its layers, taken where they are missing.

    They are kept in `folder`; left out, that is where "local" is.
    """
    if cluster.times:  # of a machine that was timed elsewhere, or of the user's own table
        return make(cluster)
    _check_here(cluster)
    kept_for, folder = timed_on(cluster), folder or local_path().parent
    until_s = time.monotonic() + (float("inf") if budget_s is None else budget_s)
    made = make(replace(cluster, times=read_times(folder, kept_for, cluster.reference_s)))
    for _ in range(_MOST_ROUNDS):
        left_s = until_s - time.monotonic()
        missing = untimed(made)
        if not missing or left_s <= 0:
            break
        progress(f"timing {len(missing)} layers of {made.model}")
        _time_layers(made, left_s, folder)
        times = read_times(folder, kept_for, cluster.reference_s)
        if not set(missing) & set(times):  # they cannot be timed by themselves
            break
        made = make(replace(cluster, times=times))
    return made


def timed_on(cluster: Cluster) -> MeasuredOn:
    """What its layers' times are kept under: as many ranks as run."""
    assert cluster.measured_on is not None
    return replace(cluster.measured_on, ranks=cluster.devices)


def untimed(plan: Plan) -> dict[str, str]:
    """Keys of a plan's layers that have no time, and a layer for each."""
    model = timing_model(plan)
    return model.untimed(plan.slicings)


def timing_model(plan: Plan) -> MeasuredModel:
    """The layers of a plan as devices run them: a pipeline's, one micro-batch at a time."""
    graph = plan.sized(plan.network())
    if plan.pipeline is not None:
        graph = graph.with_batch(plan.batch // plan.pipeline.micro_batches)
    return MeasuredModel(graph, plan.hardware(), plan.training)


def _check_here(cluster: Cluster) -> None:
    then = cluster.measured_on
    now = here(then.ranks) if then else None
    on_cpu = cluster.cores is not None
    if then is None or now is None or then.torch != now.torch or (on_cpu and then != now):
        raise RequestError(
            f'`cost="measured"` times layers on the machine that was calibrated, which {cluster.name} is not; '
            "run `slicewise calibrate`, or give `layer_times`, a table of your own"
        )


def _time_layers(plan: Plan, budget_s: float, kept_in: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in (*_RANK_VARIABLES, *OF_LAUNCHER)
    } | {"SLICEWISE_CACHE": str(kept_in)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan.save(path)
        budget = [] if budget_s == float("inf") else ["--profile-budget", f"{budget_s:.3f}s"]
        command = [sys.executable, "-m", "slicewise", "calibrate", "--layers", str(path), *budget]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        raise RequestError(
            f"layers could not be timed: {words[-1].removeprefix('slicewise: ') if words else 'no word'}"
        )
