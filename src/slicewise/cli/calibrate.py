"""`slicewise calibrate`: measure this machine, or learn another one from runs that somebody measured on it."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cli.options import add_json, duration, positive, print_json, progress
from slicewise.extras import require_torch
from slicewise.fitting import BASE

if TYPE_CHECKING:
    from slicewise.fitting.fit import Fit
    from slicewise.running.profiler import Calibration

HELP = "measure this machine, so that --cluster local predicts it; with --from, learn another from measured runs"
PLACE = "local.toml in SLICEWISE_CACHE, else in XDG_CACHE_HOME/slicewise, else in ~/.cache/slicewise"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="half a minute instead of some minutes")
    parser.add_argument("--nproc-per-node", type=positive, metavar="K", default=2, help="ranks to measure (default: 2)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help=f"where to write (default: {PLACE}; with --from: nowhere). "
        "An older file is kept beside it: local.1.toml, local.2.toml, ...",
    )
    parser.add_argument("--figure", type=Path, help="draw the fitted lines and the timed layers here, as .svg or .png")
    layers = parser.add_argument_group("layers of a plan, for --cost measured")
    layers.add_argument(
        "--layers", type=Path, metavar="PLAN.json", help="time every layer as the plan slices it, if it was not yet"
    )
    layers.add_argument(
        "--profile-budget", type=duration, metavar="TIME", help="stop after TIME; what is timed is kept"
    )
    group = parser.add_argument_group("from measured runs")
    group.add_argument(
        "--from",
        dest="runs",
        type=Path,
        metavar="RUNS.csv",
        help="fit a cluster to runs: columns model, strategy, devices, batch, iteration_s; "
        "also split, dtype, input, compute_s, communication_s, memory_bytes",
    )
    group.add_argument("--cluster", help=f"the cluster to begin with: a preset or a .toml file (default: {BASE})")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError
    from slicewise.planning.asking import refuse

    if options.runs is not None and options.figure is not None:
        raise RequestError("--figure draws what is measured here; leave it out with --from")
    if options.runs is not None:
        return _from_runs(options)
    if options.cluster is not None:
        raise RequestError("--cluster belongs to calibrate --from RUNS.csv; this machine needs none")
    if options.layers is not None:
        vain = [f"--{name}" for name in ("quick", "output", "figure") if getattr(options, name)]
        refuse("--layers", vain)
        return _time_layers(options)
    if options.profile_budget is not None:
        raise RequestError("--profile-budget is for --layers PLAN.json, the layers of a plan; give both")
    return _measure(options)


def _from_runs(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster
    from slicewise.cluster.writing import to_toml
    from slicewise.errors import RequestError
    from slicewise.fitting.fit import fit
    from slicewise.fitting.runs import read_runs
    from slicewise.report.fitting import remarks, show_fit

    if options.output is not None and options.output.suffix != ".toml":
        raise RequestError(f"-o must name a .toml file, which --cluster then takes (got {str(options.output)!r})")
    if options.output is not None:
        _prepare(options.output)
    runs = read_runs(options.runs)
    base = options.cluster or BASE
    progress(f"fitting {len(runs)} runs of {options.runs}, from what {base} says")
    learned = fit(runs, load_cluster(base))
    kept = None
    if options.output is not None:  # before anything is printed: whoever reads it may stop reading
        kept = _write(options.output, to_toml(learned.cluster, remarks(learned, len(runs), options.runs.name, base)))
        progress(f"use it as --cluster {options.output}")
    if options.json:
        print_json({**_document(learned, options), "kept": str(kept) if kept else None})
    else:
        show_fit(learned, runs)
    return 0


def _prepare(path: Path) -> None:
    """Before anything is measured: make the folder, or refuse the place."""
    from slicewise.saving import check_target

    path.parent.mkdir(parents=True, exist_ok=True)
    check_target(path)


def _write(path: Path, text: str) -> Path | None:
    """What somebody measured is never thrown away."""
    from slicewise.saving import write_file

    kept = write_file(path, text, keep_older=True)
    if kept is not None:
        progress(f"kept the older one as {kept}")
    progress(f"wrote {path}")
    return kept


def _document(learned: "Fit", options: argparse.Namespace) -> dict[str, object]:
    return {
        "base": options.cluster or BASE,
        "runs": len(learned.projected_s),
        "margin": learned.margin,
        "parameters": [asdict(item) for item in learned.parameters],
        "projected_s": list(learned.projected_s),
        "output": str(options.output) if options.output else None,
    }


def _measure(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import local_path
    from slicewise.running.calibrating import check_measurable
    from slicewise.running.launch import inside_a_rank, launch

    if not inside_a_rank():
        check_measurable(options.nproc_per_node)
        require_torch()
        _prepare(options.output or local_path())
        if options.figure:
            from slicewise.report.pictures import check_picture

            _prepare(options.figure)
            check_picture(options.figure)
        progress(f"measuring compute and links on {options.nproc_per_node} ranks")
        return launch(options.given, options.nproc_per_node)

    from slicewise.running.profiler import QUICK, THOROUGH, measure_cluster
    from slicewise.runtime.devices import leave, start_rank

    found = measure_cluster(start_rank(), QUICK if options.quick else THOROUGH)
    return leave(0, lambda: _keep(found, options))


def _keep(found: "Calibration", options: argparse.Namespace) -> None:
    from slicewise.cluster.cluster import local_path
    from slicewise.cluster.writing import to_fields, to_toml
    from slicewise.units import amount

    path = options.output or local_path()
    kept = _write(path, to_toml(found.cluster))
    for tier, burst_bytes in found.burst_bytes.items():
        progress(
            f"{tier}: messages of up to {amount(burst_bytes, 'B')} pass more than twice as fast as larger ones do, "
            "as on a shaped link; steps that send no more than that are predicted too long"
        )
    if options.figure:
        from slicewise.figures.fits import fit_figure
        from slicewise.report.pictures import write_picture

        write_picture(options.figure, fit_figure(found.drawn()))
        progress(f"wrote {options.figure}")
    if options.json:
        points = [asdict(point) for point in found.points]
        told = {"points": points, "burst_bytes": found.burst_bytes, **_places(path, kept)}
        print_json({"schema_version": 1, **to_fields(found.cluster), **told})
    else:
        from slicewise.report.clusters import show_cluster

        show_cluster(found.cluster)


def _places(path: Path, kept: Path | None) -> dict[str, str | None]:
    return {"output": str(path), "kept": str(kept) if kept else None}


def _time_layers(options: argparse.Namespace) -> int:
    """Times are kept beside local.toml, and written as they come: who interrupts loses little."""
    from slicewise.cluster.cluster import local_path
    from slicewise.cluster.times import keep_times, times_path
    from slicewise.planning.timing import timed_on, timing_model, untimed
    from slicewise.plans.plan import Plan
    from slicewise.running.calibrating import check_timeable
    from slicewise.running.launch import inside_a_rank, launch

    plan = Plan.load(options.layers)
    check_timeable(plan)
    cluster = plan.hardware()
    missing, folder, kept_for = untimed(plan), local_path().parent, timed_on(cluster)
    if not inside_a_rank():
        require_torch()
        progress(f"timing {len(missing)} layers of {plan.model} on {plan.devices} ranks")
        return launch(options.given, plan.devices)

    from slicewise.running.layer_timing import Timer
    from slicewise.running.ranks import rank
    from slicewise.runtime.devices import leave, start_rank

    device = start_rank()
    timer = Timer(model=timing_model(plan), device=device)
    work = [(key, name, plan.slicings[name]) for key, name in missing.items()]
    found = {}
    for number, (key, timed) in enumerate(timer.times(work, options.profile_budget or float("inf")), 1):
        found[key] = timed
        if rank() == 0 and number % 20 == 0:
            keep_times(folder, kept_for, found, cluster.reference_s)

    def tell() -> None:
        path = keep_times(folder, kept_for, found, cluster.reference_s) if found else times_path(folder, kept_for)
        told = {"model": plan.model, "timed": len(found), "left": len(missing) - len(found), "output": str(path)}
        if options.json:
            print_json({"schema_version": 1, **told, "times": {key: asdict(timed) for key, timed in found.items()}})
        else:
            progress(f"timed {len(found)} of {len(missing)} layers; kept in {path}")

    return leave(0, tell)
