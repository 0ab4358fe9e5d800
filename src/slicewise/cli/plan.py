"""`slicewise plan MODEL`: the best slicing of every layer."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cli.options import (
    add_cluster,
    add_json,
    add_measured,
    add_model,
    add_training,
    duration,
    patient,
    positive,
    print_json,
    progress,
    shape,
    share,
    size,
    training_of,
)
from slicewise.cli.spelling import flag
from slicewise.strategy import LAYERWISE, PLANNED, listed

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

PARETO = ("space", "dims_per_layer", "dims_per_tier", "fix", "forbid")  # what --pareto uses of a search's options
PARETO_FILE = "plan-{:02}.json"

HELP = "find the slicing of every layer that makes a training step fastest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_cluster(parser)
    add_measured(parser)
    parser.add_argument("--devices", type=positive, help="trim or grow the cluster to this many devices")
    parser.add_argument("--batch", type=positive, help="samples per step, over all devices (default: 32 per device)")
    parser.add_argument("--input", type=shape, help="shape of one sample, as in 3x224x224")
    parser.add_argument(
        "--strategy",
        help=f"{LAYERWISE} (default): searched, layer by layer; {listed(PLANNED)}",
    )
    parser.add_argument(
        "--segments", type=positive, metavar="K", help="micro-batches of a pipeline (default: predicted to be fastest)"
    )
    add_training(parser)
    group = parser.add_argument_group("search")
    group.add_argument(
        "--cost",
        help="calibrated (default where `slicewise calibrate` measured), analytic (elsewhere), "
        "measured: layers timed here, or optcnn: that paper's assumptions",
    )
    group.add_argument(
        "--profile-budget", type=duration, metavar="TIME", help="with --cost measured: time layers no longer than TIME"
    )
    group.add_argument(
        "--layer-times",
        type=Path,
        metavar="FILE.csv",
        help="with --cost measured or optcnn: your own times; "
        "columns layer, slicing or shape, forward_s, backward_s, update_s",
    )
    group.add_argument("--space", help="full (default), or optcnn: that paper's configurations")
    group.add_argument(
        "--dims-per-layer", type=positive, metavar="K", help="different dims in one slicing (default: 3)"
    )
    group.add_argument("--dims-per-tier", type=positive, metavar="K", help="different dims within a tier (default: 2)")
    group.add_argument("--memory-limit", type=size, metavar="SIZE", help="per device, as 8GiB (default: the device's)")
    group.add_argument("--objective", help="time (default) or memory")
    group.add_argument(
        "--pareto", action="store_true", help="plans from the fastest to the smallest; -o names a folder for them"
    )
    group.add_argument("--fix", action="append", metavar="PATTERN=DIMS", help="as 'features.*=N', 'fc1=N4F4'")
    group.add_argument("--forbid", action="append", metavar="[PATTERN=]DIMS", help="as 'HW' or 'features.*=C'")
    group.add_argument(
        "--time-limit", type=duration, metavar="TIME", help="stop after TIME; return the best plan and its proven gap"
    )
    group.add_argument("--gap", type=share, metavar="SHARE", help="proven this close to the optimum will do, as 0.01")
    group.add_argument(
        "--simplify",
        type=share,
        metavar="SHARE",
        help="what a plan with fewer changes of slicing may cost, of the step (default: 0.5%%; 0: nothing)",
    )
    group.add_argument(
        "--bucket",
        type=size,
        metavar="SIZE",
        help="sum this many bytes of gradients together, as 4MiB (default: the fastest of 1, 2, 4, 10, 25 and 100 MiB)",
    )
    group.add_argument("--search", help="elimination (default) or exhaustive, which takes no --gap")
    parser.add_argument("-o", "--output", type=Path, help="write the plan here; with --pareto the plans, into a folder")
    parser.add_argument("--figure", type=Path, help="draw the plan here, as .svg or .png")
    parser.add_argument("--trace", type=Path, help="write the predicted step as a timeline for ui.perfetto.dev")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import machine_of
    from slicewise.graph.sources import load_graph
    from slicewise.planning.asking import PER_DEVICE, pareto, plan

    given = _given(options)
    _prepare(options)
    cluster = machine_of(options.cluster, options.devices, options.software)
    batch = options.batch or PER_DEVICE * cluster.devices
    graph = load_graph(options.model, options.input, trust=options.trust)
    progress(f"planning {graph.name}: {len(graph)} layers on {cluster.devices} devices")
    asked: dict[str, Any] = {**given, **training_of(options).options(), "batch": batch, "progress": patient(progress)}
    if options.pareto:
        return _show_pareto(pareto(graph, cluster, **asked), options)
    made = plan(graph, cluster, strategy=options.strategy or LAYERWISE, **asked)
    if options.output:
        made.save(options.output)
        progress(f"wrote {options.output}")
    if options.figure:
        from slicewise.figures.slicings import plan_figure
        from slicewise.report.pictures import write_picture

        write_picture(options.figure, plan_figure(made))
        progress(f"wrote {options.figure}")
    if options.trace:
        from slicewise.report.timelines import predicted_events
        from slicewise.timelines.chrome import write_trace

        write_trace(options.trace, predicted_events(made, graph, cluster), f"{graph.name}, predicted")
        progress(f"wrote {options.trace}")
    if options.json:
        print_json(made.to_dict())
    else:
        from slicewise.report.terminal import show_plan

        show_plan(made)
    return 0


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked beside batch and training; what the chosen mode does not use is refused."""
    from slicewise.planning.asking import SEARCHED, refuse, unused

    names = (*SEARCHED, "cost", "segments", "measured", "layer_times", "profile_budget")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.pareto:
        outputs = [name for name in ("strategy", "figure", "trace") if getattr(options, name) is not None]
        refuse("--pareto", [flag(name) for name in (*given, *outputs) if name not in PARETO])
    else:
        strategy = options.strategy or LAYERWISE
        refuse(f"--strategy {strategy}", [flag(name) for name in unused(strategy, given)])
    return given


def _prepare(options: argparse.Namespace) -> None:
    """Before any work: refuse places where nothing can be written."""
    from slicewise.saving import check_target

    if options.pareto and options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        check_target(options.output / PARETO_FILE.format(1))
        return
    for path in (options.output, options.figure, options.trace):
        if path:
            check_target(path)
    if options.figure:
        from slicewise.report.pictures import check_picture

        check_picture(options.figure)


def _show_pareto(plans: "list[Plan]", options: argparse.Namespace) -> int:
    if options.output:
        for number, made in enumerate(plans, 1):
            made.save(options.output / PARETO_FILE.format(number))
        progress(f"wrote {len(plans)} plans into {options.output}, the fastest first")
    if options.json:
        print_json({"plans": [made.to_dict() for made in plans]})
    else:
        from slicewise.report.terminal import show_pareto

        show_pareto(plans)
    return 0
