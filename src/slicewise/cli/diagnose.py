"""`slicewise diagnose (PLAN | MODEL --strategy S) --measured FILE...`: does a run behave as projected?"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cli.options import add_json, add_trust, positive, print_json
from slicewise.cli.oracle import split
from slicewise.cli.run import add_made, asked_plan
from slicewise.dtype import REDUCED
from slicewise.strategy import LAYERWISE, PLANNED

if TYPE_CHECKING:
    from slicewise.diagnosis.diagnosing import Asked
    from slicewise.diagnosis.diagnosis import Diagnosis
    from slicewise.diagnosis.record import Record

PARADL = "paradl"  # the engine of closed forms

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
    from slicewise.diagnosis.diagnosing import asked_of, judged
    from slicewise.diagnosis.readers.files import read_files

    record = read_files(options.measured)
    if _as_framework(options):
        asked, found = _judged_as(options, record)
    else:
        plan, graph = asked_plan(options, None)
        asked, found = asked_of(plan), judged(plan, record, graph)
    if options.json:
        print_json({**asdict(asked), **found.to_dict()})
    else:
        from slicewise.report.diagnosis import show_diagnosis

        show_diagnosis(asked, found)
    return 0 if found.as_projected else 1


def _as_framework(options: argparse.Namespace) -> bool:
    """Whether the run is judged by closed forms, as a framework runs the strategy; not by a plan."""
    from slicewise.cluster.cluster import load_cluster
    from slicewise.errors import RequestError
    from slicewise.strategies.engines import ENGINES, engine_named

    given = [f"--{name}" for name in ("engine", "split") if getattr(options, name)]
    if not options.strategy or options.strategy == LAYERWISE:
        if given:
            raise RequestError(f"{' and '.join(given)}: give a model and --strategy {', '.join(PLANNED)}")
        return False
    if options.engine:
        engine_named(options.engine)
    if options.split and options.engine not in (None, PARADL):
        raise RequestError(f"--split: engine {options.engine} plans its own; give --engine {next(iter(ENGINES))}")
    if options.engine:
        return bool(options.engine == PARADL)
    return bool(options.split) or load_cluster(options.cluster or "local").tuning.describes_framework


def _judged_as(options: argparse.Namespace, record: "Record") -> "tuple[Asked, Diagnosis]":
    from slicewise.cluster.cluster import machine_of
    from slicewise.cost.training import Training
    from slicewise.diagnosis.diagnosing import Asked, judged_as
    from slicewise.graph.sources import load_graph
    from slicewise.planning.asking import PER_DEVICE
    from slicewise.strategies.projecting import oracle_of
    from slicewise.strategies.registry import check_strategies

    (strategy,) = check_strategies([options.strategy])
    cluster = machine_of(options.cluster or "local", software=options.software)
    devices = options.devices or cluster.devices
    batch = options.batch or PER_DEVICE * devices
    given = {name: getattr(options, name) for name in ("dtype", "optimizer", "batchnorm")}
    training = Training(**{"batchnorm": "local"} | {name: value for name, value in given.items() if value is not None})
    graph = load_graph(options.plan, options.input, trust=options.trust)
    projection = oracle_of(graph, cluster, batch=batch, training=training, split=options.split).project(
        strategy, devices
    )
    asked = Asked(model=graph.name, cluster=cluster.name, devices=devices, batch=batch)
    return asked, judged_as(projection, asked, record)
