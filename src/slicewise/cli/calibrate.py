"""`slicewise calibrate`: measure this machine, so that `--cluster local` predicts it."""

import argparse
from pathlib import Path

from slicewise.cli.options import positive, progress

HELP = "measure this machine, so that --cluster local predicts it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of about a minute")
    parser.add_argument("--nproc-per-node", type=positive, metavar="K", default=2, help="ranks to measure (default: 2)")
    parser.add_argument("-o", "--output", type=Path, help="where to write (default: the user's cache)")


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError
    from slicewise.runtime.launch import inside_a_rank, launch

    if not inside_a_rank():
        if options.nproc_per_node < 2:
            raise RequestError("calibrate measures links, which takes at least 2 ranks (got --nproc-per-node 1)")
        progress(f"measuring compute and links on {options.nproc_per_node} ranks")
        return launch(options.given, options.nproc_per_node)

    import torch.distributed as dist

    from slicewise.cluster.cluster import local_path
    from slicewise.cost.profiler import QUICK, THOROUGH, measure_cluster, to_toml
    from slicewise.runtime.devices import start_rank

    cluster = measure_cluster(start_rank(), QUICK if options.quick else THOROUGH)
    if dist.get_rank() == 0:
        path = options.output or local_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_toml(cluster))
        from slicewise.report.clusters import show_cluster

        show_cluster(cluster)
        progress(f"wrote {path}")
    dist.destroy_process_group()
    return 0
