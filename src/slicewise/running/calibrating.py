"""Measure this machine, as one call."""

import tempfile
from dataclasses import replace
from pathlib import Path

from slicewise.cluster.cluster import Cluster, load_cluster, local_path
from slicewise.cluster.times import read_times
from slicewise.errors import RequestError
from slicewise.planning.asking import refuse
from slicewise.planning.timing import timed_on
from slicewise.plans.plan import Plan, loaded
from slicewise.running.launch import launch
from slicewise.saving import check_target
from slicewise.units import seconds_of

LEAST_RANKS = 2


def check_measurable(ranks: int) -> None:
    if ranks < LEAST_RANKS:
        raise RequestError(
            f"links are measured, which takes at least {LEAST_RANKS} ranks (got `nproc_per_node={ranks}`)"
        )


def check_timeable(plan: Plan) -> None:
    """Layers are timed for the machine that was calibrated."""
    if plan.hardware().measured_on is None:
        raise RequestError(f"the plan is for {plan.cluster}, which was not calibrated here; plan for local")


def calibrate(
    *,
    quick: bool = False,
    nproc_per_node: int = LEAST_RANKS,
    output: str | Path | None = None,
    layers: Plan | str | Path | None = None,
    profile_budget: float | str | None = None,
) -> Cluster:
    """Measure compute and links of this machine on `nproc_per_node` ranks, and write them to `output`, a .toml file.

    Left out, that is where "local" is read from. An older file is kept beside it. `calibrate_from` learns another
    machine from runs that somebody measured on it. With `layers`, a plan, its layers are timed as the plan
    slices them, for at most `profile_budget` (seconds or "3min"). Their times are kept beside "local", for
    `cost="measured"`, and the cluster that is returned has them.
    """
    if layers is not None:
        given = {"quick": quick, "nproc_per_node": nproc_per_node != LEAST_RANKS, "output": output is not None}
        refuse("`layers`", [f"`{name}`" for name, is_given in given.items() if is_given])
        return _time_layers(loaded(layers), seconds_of(profile_budget))
    if profile_budget is not None:
        raise RequestError(f"`profile_budget={profile_budget}` is for `layers`, the layers of a plan; give both")
    check_measurable(nproc_per_node)
    path = Path(output) if output is not None else local_path()
    if path.suffix != ".toml":
        raise RequestError(f"a cluster is written to a .toml file (got {str(path)!r})")
    path.parent.mkdir(parents=True, exist_ok=True)
    check_target(path)
    launch(["calibrate", *(["--quick"] if quick else []), "-o", str(path)], nproc_per_node)
    return load_cluster(path)


def _time_layers(plan: Plan, budget_s: float | None) -> Cluster:
    check_timeable(plan)
    cluster = plan.hardware()
    budget = [] if budget_s is None else ["--profile-budget", f"{budget_s:.3f}s"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan.save(path)
        launch(["calibrate", "--layers", str(path), *budget], plan.devices)
    return replace(cluster, times=read_times(local_path().parent, timed_on(cluster), cluster.reference_s))
