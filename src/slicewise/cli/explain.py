"""`slicewise explain PLAN`: what each layer's slicing is worth, as the file has it now."""

import argparse
from dataclasses import asdict
from pathlib import Path

from slicewise.cli.options import add_json, print_json

HELP = "show what each layer's slicing costs and saves against data parallelism"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="a plan file, edited or not")
    parser.add_argument(
        "--per-layer", action="store_true", help="a row for every layer, not for stretches sliced alike"
    )
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster
    from slicewise.explaining import explain
    from slicewise.graph.sources import load_graph
    from slicewise.planning import model_of
    from slicewise.plans import Plan

    plan = Plan.load(options.plan)
    cluster = load_cluster(plan.cluster).with_devices(plan.devices)
    graph = load_graph(plan.model, plan.input_shape)
    plan.check(plan.sized(graph), cluster.mesh)
    explanation = explain(model_of(plan, graph, cluster), plan.slicings, per_layer=options.per_layer)
    if options.json:
        print_json(
            {
                "reference": explanation.reference,
                "reason": explanation.reason,
                "saved_s": explanation.total.saved_s,
                "stretches": [
                    {**asdict(row), "saved_s": row.saved_s, "saved_bytes": row.saved_bytes}
                    for row in explanation.stretches
                ],
            }
        )
    else:
        from slicewise.report.terminal import show_explanation

        show_explanation(plan, explanation)
    return 0
