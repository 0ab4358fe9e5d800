"""`slicewise plan MODEL`: the best slicing of every layer."""

import argparse
from pathlib import Path

from slicewise.cli.options import add_json, add_model, positive, print_json, progress, shape

HELP = "find the slicing of every layer that makes a training step fastest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--cluster", default="local", help="a preset, 'local', or a TOML file (default: local)")
    parser.add_argument("--devices", type=positive, help="trim or grow the cluster to this many devices")
    parser.add_argument("--batch", type=positive, help="samples per step, over all devices (default: 32 per device)")
    parser.add_argument("--input", type=shape, help="shape of one sample, as in 3x224x224")
    parser.add_argument(
        "--strategy",
        default="layerwise",
        help="layerwise (default) searches; data, filter, spatial and owt slice every layer by their one rule",
    )
    parser.add_argument("--search", default="elimination", help="elimination (default) or exhaustive")
    parser.add_argument("-o", "--output", type=Path, help="write the plan here")
    parser.add_argument("--figure", type=Path, help="draw the plan here (.svg, .png, .pdf; needs matplotlib)")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster
    from slicewise.errors import RequestError
    from slicewise.graph.sources import load_graph
    from slicewise.planning import baseline_plan, plan

    for path in (options.output, options.figure):
        if path and not path.parent.is_dir():
            raise RequestError(f"cannot write {path}: {path.parent} is not a folder")
    cluster = load_cluster(options.cluster)
    cluster = cluster.with_devices(options.devices) if options.devices else cluster
    batch = options.batch or 32 * cluster.devices
    graph = load_graph(options.model, options.input)
    progress(f"planning {graph.name}: {len(graph)} layers on {cluster.devices} devices")
    if options.strategy == "layerwise":
        made = plan(graph, cluster, batch=batch, search=options.search)
    else:
        made = baseline_plan(graph, cluster, options.strategy, batch=batch)
    if options.output:
        made.save(options.output)
        progress(f"wrote {options.output}")
    if options.figure:
        from slicewise.report.figures import draw_plan

        draw_plan(made, options.figure)
        progress(f"wrote {options.figure}")
    if options.json:
        print_json(made.to_dict())
    else:
        from slicewise.report.terminal import show_plan

        show_plan(made)
    return 0
