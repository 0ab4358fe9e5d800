"""`slicewise explain PLAN [OTHER]`: why each layer is sliced as it is, as the file has it now."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cli.options import add_json, patient, print_json, progress

if TYPE_CHECKING:
    from slicewise.plans.plan import Plan

HELP = "say why each layer is sliced as it is, what two plans differ in, or what would change a plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="a plan file, edited or not")
    parser.add_argument("other", type=Path, nargs="?", help="another plan: what differs, and what it is worth")
    parser.add_argument("--layer", metavar="NAME", help="one layer alone, term by term")
    parser.add_argument(
        "--per-layer", action="store_true", help="a row for every layer, not for stretches sliced alike"
    )
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="CHANGE",
        help="plan again with inter.bandwidth=2x, intra.latency=10us, batch=64, devices=8, memory=8GiB, dtype=bf16, "
        "optimizer=adam or batchnorm=local; several, separated by commas or given again",
    )
    parser.add_argument("-o", "--output", type=Path, help="write the plan of --what-if here")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError
    from slicewise.plans.plan import Plan
    from slicewise.saving import check_target

    plan = Plan.load(options.plan)
    changes = [change for text in options.what_if for change in text.split(",") if change.strip()]
    asked = {
        "another plan": options.other is not None,
        "--layer": options.layer is not None,
        "--per-layer": options.per_layer,
        "--what-if": bool(changes),
    }
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise RequestError(f"{' and '.join(given)} are different questions; ask one at a time")
    if options.output and not changes:
        raise RequestError("-o writes the plan of --what-if; give one")
    if options.output:
        check_target(options.output)
    if options.other:
        return _compare(plan, Plan.load(options.other), options.json)
    if changes:
        return _what_if(plan, changes, options)
    from slicewise.explaining.decisions import explain

    explanation = explain(plan, layer=options.layer, per_layer=options.per_layer)
    if options.json:
        print_json(explanation.to_dict())
    else:
        from slicewise.report.explanations import show_explanation

        show_explanation(explanation)
    return 0


def _compare(plan: "Plan", other: "Plan", as_json: bool) -> int:
    from slicewise.explaining.differences import compare

    comparison = compare(plan, other)
    if as_json:
        print_json(comparison.to_dict())
    else:
        from slicewise.report.explanations import show_comparison

        show_comparison(comparison)
    return 0


def _what_if(plan: "Plan", changes: list[str], options: argparse.Namespace) -> int:
    from slicewise.explaining.what_if import what_if

    answer = what_if(plan, changes, progress=patient(progress))
    if options.output:
        answer.after.save(options.output)
        progress(f"wrote {options.output}")
    if options.json:
        print_json(answer.to_dict())
    else:
        from slicewise.report.explanations import show_what_if

        show_what_if(answer)
    return 0
