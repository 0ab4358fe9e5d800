"""`slicewise capture MODEL -o graph.json`: a network as slicewise sees it, saved."""

import argparse
from pathlib import Path

from slicewise.cli.options import add_model, progress, shape
from slicewise.units import amount

HELP = "capture a model's layers into a graph file that plans without torch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--input", type=shape, help="shape of one sample, as in 3x224x224")
    parser.add_argument("-o", "--output", type=Path, required=True, help="write the graph here")


def main(options: argparse.Namespace) -> int:
    from slicewise.graph.sources import capture_model
    from slicewise.saving import check_target

    check_target(options.output)
    graph = capture_model(options.model, options.input, trust=options.trust)
    graph.save(options.output)
    parameters, flops = sum(w.size for w in graph.weights), sum(layer.flops() for layer in graph) / graph.batch
    progress(
        f"wrote {options.output}: {len(graph)} layers, {parameters:,} parameters, "
        f"{amount(flops, 'FLOP')} per sample forward"
    )
    return 0
