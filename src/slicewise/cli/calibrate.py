"""`slicewise calibrate`: measure this machine, or learn another one from runs that somebody measured on it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cli.options import add_json, positive, print_json, progress

if TYPE_CHECKING:
    from slicewise.fitting.fit import Fit

HELP = "measure this machine, so that --cluster local predicts it; with --from, learn another from measured runs"
BASE = "abci-v100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of about a minute")
    parser.add_argument("--nproc-per-node", type=positive, metavar="K", default=2, help="ranks to measure (default: 2)")
    parser.add_argument("-o", "--output", type=Path, help="where to write (default: the user's cache)")
    group = parser.add_argument_group("from measured runs")
    group.add_argument(
        "--from",
        dest="runs",
        type=Path,
        metavar="RUNS.csv",
        help="fit a cluster to runs: columns model, strategy, devices, batch, iteration_s; "
        "also split, dtype, input, compute_s, communication_s",
    )
    group.add_argument("--cluster", help=f"the cluster to begin with: a preset or a .toml file (default: {BASE})")
    add_json(parser)


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError

    if options.runs is not None:
        return _from_runs(options)
    if options.cluster is not None or options.json:
        raise RequestError("--cluster and --json belong to calibrate --from RUNS.csv; this machine needs neither")
    return _measure(options)


def _from_runs(options: argparse.Namespace) -> int:
    from slicewise.cluster.cluster import load_cluster
    from slicewise.cluster.writing import to_toml
    from slicewise.errors import RequestError
    from slicewise.fitting.fit import fit
    from slicewise.fitting.runs import read_runs
    from slicewise.report.fitting import remarks, show_fit

    if options.output is not None and options.output.suffix != ".toml":
        raise RequestError(f"-o must name a .toml file, which --cluster then takes (got {str(options.output)!r})")
    runs = read_runs(options.runs)
    base = options.cluster or BASE
    progress(f"fitting {len(runs)} runs of {options.runs}, from what {base} says")
    learned = fit(runs, load_cluster(base))
    if options.json:
        print_json(_document(learned, options))
    else:
        show_fit(learned, runs)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(to_toml(learned.cluster, remarks(learned, len(runs), options.runs.name, base)))
        progress(f"wrote {options.output}; use it as --cluster {options.output}")
    return 0


def _document(learned: "Fit", options: argparse.Namespace) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "base": options.cluster or BASE,
        "runs": len(learned.projected_s),
        "margin": learned.margin,
        "parameters": [asdict(item) for item in learned.parameters],
        "projected_s": list(learned.projected_s),
        "output": str(options.output) if options.output else None,
    }


def _measure(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError
    from slicewise.runtime.launch import inside_a_rank, launch

    if not inside_a_rank():
        if options.nproc_per_node < 2:
            raise RequestError("calibrate measures links, which takes at least 2 ranks (got --nproc-per-node 1)")
        progress(f"measuring compute and links on {options.nproc_per_node} ranks")
        return launch(options.given, options.nproc_per_node)

    import torch.distributed as dist

    from slicewise.cluster.cluster import local_path
    from slicewise.cluster.writing import to_toml
    from slicewise.cost.profiler import QUICK, THOROUGH, measure_cluster
    from slicewise.runtime.devices import leave, start_rank

    cluster = measure_cluster(start_rank(), QUICK if options.quick else THOROUGH)
    if dist.get_rank() == 0:
        path = options.output or local_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_toml(cluster))
        from slicewise.report.clusters import show_cluster

        show_cluster(cluster)
        progress(f"wrote {path}")
    return leave(0)
