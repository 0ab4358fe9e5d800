"""`slicewise oracle MODEL`: every strategy, projected to any number of devices."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cli.options import (
    add_cluster,
    add_json,
    add_measured,
    add_model,
    add_training,
    patient,
    positive,
    print_json,
    progress,
    shape,
    size,
    training_of,
)
from slicewise.cli.spelling import flag, speller
from slicewise.strategy import STRATEGIES, listed

if TYPE_CHECKING:
    from slicewise.strategies.forms import Formula
    from slicewise.strategies.limits import Limit, Stop
    from slicewise.strategies.projecting import Oracle, ProjectionTable

HELP = "project every strategy to any number of devices: time by term, memory, epoch, and what is possible at all"
MOST_COUNTS = 1000  # in one table
NOT_CSV = ("best", "limits", "forms", "wide")  # what has no place among rows


def counts(text: str) -> list[int]:
    """`1,4,16,64` or `1,4,...,1024`: the dots go on with the last factor."""
    items = [item.strip() for item in text.split(",")]
    found: list[int] = []
    for position, item in enumerate(items):
        if item in ("...", ".."):
            if len(found) < 2 or position != len(items) - 2:
                raise argparse.ArgumentTypeError(f"dots need two counts before them and one behind (got {text!r})")
            factor, last = found[-1] / found[-2], positive(items[-1])
            if factor <= 1:
                raise argparse.ArgumentTypeError(f"counts before the dots must grow (got {text!r})")
            while found[-1] * factor < last:
                found.append(round(found[-1] * factor))
                if len(found) > MOST_COUNTS:
                    raise argparse.ArgumentTypeError(f"makes more than {MOST_COUNTS} counts (got {text!r})")
        else:
            found.append(positive(item))
    return found


def per_device(text: str) -> float:
    """`32`, or `0.25`: four devices share a sample."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number (got {text!r})")
    return value


def split(text: str) -> tuple[int, int]:
    """`16x4`."""
    sizes = shape(text)
    if len(sizes) != 2:
        raise argparse.ArgumentTypeError(f"must look like 16x4: groups x devices of a group (got {text!r})")
    return sizes[0], sizes[1]


def add_request(parser: argparse.ArgumentParser, *, needs_batch: bool) -> None:
    """What `oracle` and `provision` ask alike."""
    add_model(parser)
    add_cluster(parser)
    add_measured(parser)
    parser.add_argument(
        "--layer-times",
        type=Path,
        metavar="FILE.csv",
        help="your own times of whole layers; columns layer, shape (samples first), forward_s, backward_s, update_s",
    )
    batch = parser.add_mutually_exclusive_group(required=needs_batch)
    batch.add_argument("--batch-per-device", type=per_device, metavar="B", help="weak scaling: samples per device")
    batch.add_argument("--batch", type=positive, help="strong scaling: samples per step, over all devices")
    data = parser.add_mutually_exclusive_group(required=not needs_batch)
    data.add_argument("--dataset", help="imagenet, cosmoflow, coco, cifar10, ...: for the time of an epoch")
    data.add_argument("--samples", type=positive, help="samples of an epoch, of any other data set")
    parser.add_argument("--input", type=shape, help="shape of one sample, as in 3x224x224")
    parser.add_argument(
        "--strategies", metavar="A,B", help=f"some of these (default: all). {listed(tuple(STRATEGIES))}"
    )
    parser.add_argument("--split", type=split, metavar="P1xP2", help="of hybrids: P1 groups of P2 (default: the best)")
    parser.add_argument(
        "--engine",
        default="paradl",
        help="paradl (default): closed forms; slicewise: the strategy as a plan, simulated",
    )
    parser.add_argument("--memory-limit", type=size, metavar="SIZE", help="per device, as 8GiB (default: the device's)")
    add_training(parser, batchnorm="local")
    parser.add_argument(
        "--overlap",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="gradient exchange beside backward (default: slicewise yes, paradl where the software is tuned)",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_request(parser, needs_batch=True)
    parser.add_argument(
        "--devices", type=counts, metavar="P,P,...", required=True, help="device counts, as 1,4,16 or 1,4,...,1024"
    )
    parser.add_argument("--layerwise", action="store_true", help="the planner's optimum too; takes longer, comes last")
    parser.add_argument("--best", action="store_true", help="name the best strategy and say why, in a paragraph")
    parser.add_argument(
        "--limits", action="store_true", help="what holds each strategy back, its price, and where it stops paying"
    )
    parser.add_argument("--forms", action="store_true", help="paradl's closed forms with their numbers, at one count")
    parser.add_argument("--figure", type=Path, help="draw strategies over device counts here, as .svg or .png")
    parser.add_argument("--csv", action="store_true", help="the rows as CSV, and nothing else")
    add_json(parser)


def oracle_from(options: argparse.Namespace, batch_per_device: float | None) -> "Oracle":
    from slicewise.cluster.cluster import machine_of
    from slicewise.graph.sources import load_graph
    from slicewise.strategies.projecting import oracle_of

    return oracle_of(
        load_graph(options.model, options.input, trust=options.trust),
        machine_of(options.cluster, software=options.software),
        batch_per_device=batch_per_device,
        batch=options.batch,
        dataset=options.dataset,
        samples=options.samples,
        engine=options.engine,
        training=training_of(options),
        overlap=options.overlap,
        split=options.split,
        memory_limit_bytes=options.memory_limit,
        measured=options.measured,
        layer_times=options.layer_times,
    )


def strategies_of(options: argparse.Namespace) -> tuple[str, ...]:
    from slicewise.strategies.registry import check_strategies

    named = options.strategies.split(",") if options.strategies else list(STRATEGIES)
    return check_strategies([name.strip() for name in named])


def main(options: argparse.Namespace) -> int:
    from slicewise.errors import RequestError
    from slicewise.planning.asking import refuse
    from slicewise.strategies.projecting import table_of

    if options.csv and options.json:
        raise RequestError("--csv and --json: one document at a time")
    if options.csv:
        refuse("--csv", [flag(name) for name in NOT_CSV if getattr(options, name)])
    if options.figure:
        from slicewise.report.pictures import check_picture
        from slicewise.saving import check_target

        check_target(options.figure)
        check_picture(options.figure)
    names = strategies_of(options)
    oracle = oracle_from(options, options.batch_per_device)
    if options.forms:
        from slicewise.strategies.forms import check_forms

        check_forms(oracle.engine)
    found = table_of(oracle, names, options.devices, layerwise=options.layerwise, progress=patient(progress, 1.0))
    if options.figure:
        from slicewise.figures.scaling import scaling_figure
        from slicewise.report.pictures import write_picture

        write_picture(options.figure, scaling_figure([row.to_dict() for row in found]))
        progress(f"wrote {options.figure}")
    if options.csv:
        sys.stdout.write(found.to_csv())
    elif options.json:
        print_json(document_of(found, options) | _answers(found, options))
    else:
        from slicewise.report.oracle import show_forms, show_limits, show_oracle
        from slicewise.strategies.ranking import verdict

        show_oracle(found, verdict(found) if options.best else "", speller(options))
        if options.limits:
            show_limits(*limits_and_stops(found))
        if options.forms:
            show_forms(_forms(found))
    return 0 if any(row.feasible for row in found) else 1


def limits_and_stops(found: "ProjectionTable") -> "tuple[list[Limit], list[Stop]]":
    from slicewise.strategies.limits import last_paying, limits_of

    held_back = [limit for row in found if row.terms for limit in limits_of(found.oracle, row)]
    stops = [last_paying(found.oracle, name) for name in dict.fromkeys(row.strategy for row in found)]
    return held_back, [stop for stop in stops if stop]


def _forms(found: "ProjectionTable") -> "list[Formula]":
    """At the largest of the counts where most strategies are possible."""
    from slicewise.strategies.forms import forms

    possible = Counter({row.devices: 0 for row in found})
    possible.update(row.devices for row in found if row.feasible)
    return forms(found.oracle, max(possible, key=lambda devices: (possible[devices], devices)))


def document_of(found: "ProjectionTable", options: argparse.Namespace) -> dict[str, Any]:
    """The JSON, which advises in the words of the command."""
    document = found.to_dict()
    if advice := document["measure_next"]:
        advice["measure"] = speller(options)(advice["measure"])
    return document


def _answers(found: "ProjectionTable", options: argparse.Namespace) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    if options.best:
        from slicewise.strategies.ranking import verdict

        chosen = found.best()
        answers["best"] = {"row": chosen.to_dict() if chosen else None, "why": speller(options)(verdict(found))}
    if options.limits:
        held_back, stops = limits_and_stops(found)
        answers["limits"] = [limit.to_dict() for limit in held_back]
        answers["stops_paying"] = [stop.to_dict() for stop in stops]
    if options.forms:
        answers["closed_forms"] = [form.to_dict() for form in _forms(found)]
    return answers
