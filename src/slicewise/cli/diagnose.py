"""`slicewise diagnose (PLAN | MODEL --strategy S) --measured FILE...`: does a run behave as projected?"""

import argparse
from pathlib import Path

from slicewise.cli.options import add_json, add_trust, positive, print_json
from slicewise.cli.run import add_made, asked_plan
from slicewise.strategy import LAYERWISE, PLANNED

HELP = "does a run behave as projected, and if not: which term, which ranks, since which step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN|MODEL", help="what was run: a plan file; with --strategy a model")
    parser.add_argument("--strategy", help=f"the model ran so: {LAYERWISE}, {', '.join(PLANNED)}")
    parser.add_argument(
        "--measured",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="iteration times as CSV, the JSON or timeline of `slicewise run`, or torch.profiler traces",
    )
    parser.add_argument("--batch", type=positive, help="samples per step, over all ranks (default: the plan's)")
    add_made(parser)
    add_trust(parser)
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.diagnosis.diagnosing import judged
    from slicewise.diagnosis.readers.files import read_files

    record = read_files(options.measured)
    plan, graph = asked_plan(options, None)
    found = judged(plan, record, graph)
    if options.json:
        request = {"model": plan.model, "cluster": plan.cluster, "devices": plan.devices, "batch": plan.batch}
        print_json({**request, **found.to_dict()})
    else:
        from slicewise.report.diagnosis import show_diagnosis

        show_diagnosis(plan, found)
    return 0 if found.as_projected else 1
