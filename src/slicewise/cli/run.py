"""`slicewise run PLAN`: train for a few steps exactly as planned, on real ranks."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cli.options import add_json, positive, print_json, progress

if TYPE_CHECKING:
    from slicewise.plans import Plan

HELP = "run a plan on real ranks: measured beside predicted, checked against one device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="a plan file")
    parser.add_argument(
        "--nproc-per-node", type=positive, metavar="K", help="ranks to start here (default: the plan's)"
    )
    parser.add_argument("--iterations", type=positive, default=10, help="measured steps (default: 10)")
    parser.add_argument("--check", action="store_true", help="compare loss and every gradient with one device")
    parser.add_argument("--compare", choices=["ddp"], help="measure DistributedDataParallel in turn with the plan")
    parser.add_argument("--seed", type=int, default=0, help="of weights and samples (default: 0)")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import PlanError
    from slicewise.plans import Plan
    from slicewise.runtime.launch import inside_a_rank, launch

    plan = Plan.load(options.plan)
    if not inside_a_rank():
        ranks = options.nproc_per_node or plan.devices
        if ranks != plan.devices:
            raise PlanError(
                f"the plan is for {plan.devices} devices, --nproc-per-node is {ranks}; "
                f"plan again with --devices {ranks}"
            )
        progress(f"starting {ranks} ranks")
        return launch(options.given, ranks)
    return _rank(options, plan)


def _rank(options: argparse.Namespace, plan: "Plan") -> int:
    import torch.distributed as dist

    from slicewise.runtime.devices import start_rank
    from slicewise.runtime.worker import RunRequest, run_rank

    device = start_rank()
    request = RunRequest(
        plan=plan,
        iterations=options.iterations,
        check=options.check,
        compare_ddp=options.compare == "ddp",
        seed=options.seed,
    )
    result = run_rank(request, device)
    as_predicted = result["predicted"].get("bytes_moved") in (None, result["bytes_moved"])
    passed = result.get("check", {}).get("passed", True) and as_predicted
    if dist.get_rank() == 0:
        if options.json:
            print_json(result)
        else:
            from slicewise.report.terminal import show_run

            show_run(result)
    dist.destroy_process_group()
    return 0 if passed else 1
