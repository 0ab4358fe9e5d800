"""`slicewise plan MODEL`: the best slicing of every layer."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cli.options import (
    CLUSTER,
    add_json,
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
from slicewise.strategy import LAYERWISE, PLANNED, listed

if TYPE_CHECKING:
    from slicewise.partition.legal import Space
    from slicewise.plans.plan import Plan

HELP = "find the slicing of every layer that makes a training step fastest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--cluster", default="local", help=f"{CLUSTER} (default: local)")
    parser.add_argument("--devices", type=positive, help="trim or grow the cluster to this many devices")
    parser.add_argument("--batch", type=positive, help="samples per step, over all devices (default: 32 per device)")
    parser.add_argument("--input", type=shape, help="shape of one sample, as in 3x224x224")
    parser.add_argument(
        "--strategy",
        default=LAYERWISE,
        help=f"{LAYERWISE} (default): searched, layer by layer; {listed(PLANNED)}",
    )
    parser.add_argument(
        "--segments", type=positive, metavar="K", help="micro-batches of a pipeline (default: predicted to be fastest)"
    )
    add_training(parser)
    group = parser.add_argument_group("search")
    group.add_argument("--cost", default="analytic", help="analytic (default), or optcnn: that paper's assumptions")
    group.add_argument("--space", default="full", help="full (default), or optcnn: that paper's configurations")
    group.add_argument(
        "--dims-per-layer", type=positive, metavar="K", help="different dims in one slicing (default: 3)"
    )
    group.add_argument("--dims-per-tier", type=positive, metavar="K", help="different dims within a tier (default: 2)")
    group.add_argument("--memory-limit", type=size, metavar="SIZE", help="per device, as 8GiB (default: the device's)")
    group.add_argument("--objective", default="time", help="time (default) or memory")
    group.add_argument("--pareto", action="store_true", help="plans from the fastest to the smallest")
    group.add_argument(
        "--fix", action="append", default=[], metavar="PATTERN=DIMS", help="as 'features.*=N', 'fc1=N4F4'"
    )
    group.add_argument(
        "--forbid", action="append", default=[], metavar="[PATTERN=]DIMS", help="as 'HW' or 'features.*=C'"
    )
    group.add_argument("--time-limit", type=duration, metavar="TIME", help="then the best plan so far and its gap")
    group.add_argument(
        "--gap", type=share, default=0.0, metavar="SHARE", help="proven this close to the optimum will do, as 0.01"
    )
    group.add_argument("--search", default="elimination", help="elimination (default) or exhaustive")
    parser.add_argument("-o", "--output", type=Path, help="write the plan here")
    parser.add_argument("--figure", type=Path, help="draw the plan here (.svg, .png, .pdf; needs matplotlib)")
    parser.add_argument("--trace", type=Path, help="write the predicted step as a timeline for ui.perfetto.dev")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster
    from slicewise.graph.sources import load_graph
    from slicewise.planning import baseline_plan, pareto, plan
    from slicewise.saving import check_target

    for path in (options.output, options.figure, options.trace):
        if path:
            check_target(path)
    cluster = load_cluster(options.cluster)
    cluster = cluster.with_devices(options.devices) if options.devices else cluster
    batch = options.batch or 32 * cluster.devices
    graph = load_graph(options.model, options.input, trust=options.trust)
    progress(f"planning {graph.name}: {len(graph)} layers on {cluster.devices} devices")
    request: dict[str, Any] = {"batch": batch, "training": training_of(options)}
    search: dict[str, Any] = {
        "space": _space(options),
        "fix": options.fix,
        "forbid": options.forbid,
        "progress": patient(progress),
    }
    if options.pareto:
        return _show_pareto(pareto(graph, cluster, **request, **search), options.json)
    if options.strategy == LAYERWISE:
        made = plan(
            graph,
            cluster,
            **request,
            **search,
            search=options.search,
            cost=options.cost,
            objective=options.objective,
            memory_limit_bytes=options.memory_limit,
            time_limit_s=options.time_limit or float("inf"),
            gap=options.gap,
        )
    else:
        made = baseline_plan(
            graph, cluster, options.strategy, **request, cost=options.cost, micro_batches=options.segments
        )
    if options.output:
        made.save(options.output)
        progress(f"wrote {options.output}")
    if options.figure:
        from slicewise.report.figures import draw_plan

        draw_plan(made, options.figure)
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


def _space(options: argparse.Namespace) -> "Space":
    from slicewise.errors import UnknownName
    from slicewise.partition.legal import SPACES

    if options.space not in SPACES:
        raise UnknownName("space", options.space, SPACES)
    given = {"dims_per_layer": options.dims_per_layer, "dims_per_tier": options.dims_per_tier}
    return replace(SPACES[options.space], **{name: value for name, value in given.items() if value is not None})


def _show_pareto(plans: "list[Plan]", as_json: bool) -> int:
    if as_json:
        print_json({"plans": [made.to_dict() for made in plans]})
    else:
        from slicewise.report.terminal import show_pareto

        show_pareto(plans)
    return 0
