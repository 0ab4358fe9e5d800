"""`slicewise diagnose (PLAN | MODEL --strategy S) --measured FILE...`: does a run behave as projected?"""

import argparse
from dataclasses import asdict, fields
from pathlib import Path

from slicewise.cli.options import add_json, add_trust, patient, positive, print_json, progress
from slicewise.cli.oracle import split
from slicewise.cli.run import add_made
from slicewise.dtype import REDUCED
from slicewise.strategy import LAYERWISE, STRATEGIES

HELP = "does a run behave as projected, and if not: which term, which ranks, since which step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN|MODEL", help="what was run: a plan file; with --strategy a model")
    parser.add_argument("--strategy", help=f"the model ran so: {LAYERWISE}, {', '.join(STRATEGIES)}")
    parser.add_argument(
        "--measured",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="iteration times as CSV, the JSON or timeline of `slicewise run`, or torch.profiler traces",
    )
    parser.add_argument("--batch", type=positive, help="samples per step, over all ranks (default: the plan's)")
    add_made(parser, REDUCED)
    parser.add_argument(
        "--engine",
        help="what a strategy is projected by. slicewise: a plan. paradl: closed forms, as frameworks run it; default "
        "with --split, or where the cluster's [tuning] describes a framework",
    )
    parser.add_argument("--split", type=split, metavar="P1xP2", help="of hybrids: P1 groups of P2 (default: the best)")
    add_trust(parser)
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.diagnosis.diagnosing import Ran, answered
    from slicewise.diagnosis.readers.files import read_files

    given = {item.name: getattr(options, item.name) for item in fields(Ran) if item.name in options}
    asked, found = answered(Ran(what=options.plan, **given), read_files(options.measured), patient(progress))
    if options.json:
        print_json({**asdict(asked), **found.to_dict()})
    else:
        from slicewise.report.diagnosis import show_diagnosis

        show_diagnosis(asked, found)
    return 0 if found.as_projected else 1
