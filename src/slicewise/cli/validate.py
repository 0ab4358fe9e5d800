"""`slicewise validate`: predictions against real runs, for several networks, strategies and cost models."""

import argparse
from pathlib import Path

from slicewise.cli.options import add_json, duration, positive, print_json, progress, shape
from slicewise.extras import require_torch

HELP = "run networks under every strategy and score what each cost model predicted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    lists = "; spaces or commas between them"
    parser.add_argument(
        "--models",
        nargs="+",
        metavar="MODEL",
        help=f"as `plan` takes them{lists} (default: lenet5, alexnet, resnet50, cosmoflow, textcnn)",
    )
    parser.add_argument(
        "--strategies",
        nargs="+",
        metavar="S",
        help=f"as `plan` takes them{lists} (default: layerwise, data, spatial, filter, channel, pipeline)",
    )
    parser.add_argument("--nproc-per-node", nargs="+", metavar="K", help=f"ranks, as 2,4{lists} (default: 2)")
    parser.add_argument(
        "--cost",
        nargs="+",
        metavar="COST",
        help=f"analytic, calibrated, measured, optcnn, or all{lists} (default: calibrated)",
    )
    parser.add_argument("--rank", type=positive, metavar="K", help="also the order of K near-optimal plans per network")
    parser.add_argument("--batch", type=positive, help="samples per step, over all ranks (default: 4 per rank)")
    parser.add_argument(
        "--input",
        nargs="+",
        type=_sample,
        metavar="MODEL=SHAPE",
        help="shape of a network's samples, where that is not its own (default: cosmoflow=4x152x152x152)",
    )
    parser.add_argument(
        "--iterations", type=positive, default=5, help="measured steps of each run; more if they are short (default: 5)"
    )
    parser.add_argument("--repeats", type=positive, default=3, help="runs of each plan, in turn (default: 3)")
    parser.add_argument("--cluster", help="what this machine does, a .toml file (default: it is measured first)")
    parser.add_argument(
        "--profile-budget", type=duration, metavar="TIME", help="for the cost model measured: no longer per plan"
    )
    parser.add_argument("-o", "--output", type=Path, help="write the report here, as JSON; `slicewise report` reads it")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.running.validating import INPUT, USUAL_NETWORKS, USUAL_STRATEGIES, listed, validate

    require_torch()
    counts = [_count(text) for text in listed(options.nproc_per_node or "2")]
    costs = listed(options.cost or "calibrated")
    found = validate(
        models=options.models or USUAL_NETWORKS,
        strategies=options.strategies or USUAL_STRATEGIES,
        nproc_per_node=counts,
        cost="all" if "all" in costs else costs,
        rank=options.rank,
        batch=options.batch,
        input=dict(options.input) if options.input else INPUT,
        iterations=options.iterations,
        repeats=options.repeats,
        cluster=options.cluster,
        profile_budget=options.profile_budget,
        output=options.output,
        progress=progress,
    )
    if options.output:
        progress(f"wrote {options.output}")
    if options.json:
        print_json(found.to_dict())
    else:
        from slicewise.report.validation import show_validation

        show_validation(found.to_dict())
    return 0


def _sample(text: str) -> tuple[str, tuple[int, ...]]:
    """`cosmoflow=4x152x152x152`."""
    model, equals, sizes = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must look like resnet50=3x128x128 (got {text!r})")
    return model, shape(sizes)


def _count(text: str) -> int:
    from slicewise.errors import RequestError

    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise RequestError(f"--nproc-per-node {error}") from error
