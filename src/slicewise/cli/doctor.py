"""`slicewise doctor`: is this machine ready, and if not, which command helps."""

import argparse
from typing import TYPE_CHECKING

from slicewise.cli.options import CLUSTER, add_json, positive, print_json, progress
from slicewise.extras import require_torch

if TYPE_CHECKING:
    from slicewise.running.checkup import NetworkCheck

RANKS = 2  # that --network starts
HELP = "check what is installed, the cache, the profile and the network; say which command fixes what is missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--network",
        action="store_true",
        help="start ranks and time all-reduces between them; under torchrun: between its ranks",
    )
    parser.add_argument("--nproc-per-node", type=positive, metavar="K", help=f"ranks for --network (default: {RANKS})")
    parser.add_argument("--cluster", default="local", help=f"the profile: {CLUSTER} (default: local)")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    """0: ready. 1: something is wrong."""
    from slicewise.errors import RequestError
    from slicewise.running.calibrating import check_measurable
    from slicewise.running.launch import inside_a_rank, launch

    if options.nproc_per_node is not None and not options.network:
        raise RequestError(f"--nproc-per-node {options.nproc_per_node}: ranks are started for --network only; add it")
    if options.network and not inside_a_rank():
        ranks = options.nproc_per_node or RANKS
        check_measurable(ranks)
        require_torch()
        progress(f"timing all-reduces between {ranks} ranks")
        return launch(options.given, ranks)
    if options.network:
        return _between_ranks(options)
    return _told(options, None)


def _between_ranks(options: argparse.Namespace) -> int:
    from slicewise.running.checkup import check_up
    from slicewise.running.network import look_at_network
    from slicewise.runtime.devices import leave, start_rank

    network = look_at_network(start_rank(), check_up(options.cluster).cluster)
    return leave(0, lambda: _told(options, network))


def _told(options: argparse.Namespace, network: "NetworkCheck | None") -> int:
    from slicewise.report.checkup import checkup_document, show_checkup
    from slicewise.running.checkup import check_up

    checkup = check_up(options.cluster, network)
    if options.json:
        print_json(checkup_document(checkup))
    else:
        show_checkup(checkup)
    return 0 if checkup.well else 1
