"""`slicewise run PLAN` or `slicewise run MODEL --strategy S`: train for a few steps exactly so, on real ranks."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.cli.options import (
    CLUSTER,
    add_json,
    add_software,
    positive,
    print_json,
    progress,
    seed,
    shape,
    timeout,
)
from slicewise.dtype import PLAIN, RUN
from slicewise.extras import require_torch
from slicewise.strategy import LAYERWISE, PLANNED

if TYPE_CHECKING:
    from slicewise.graph.layer_graph import LayerGraph
    from slicewise.plans.plan import Plan

HELP = "run a plan on real ranks: measured beside predicted, checked against one device"
_MOST_ITERATIONS = 1_000_000  # the times of all are kept


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN|MODEL", help="a plan file; with --strategy a model, as `plan` takes it")
    parser.add_argument(
        "--strategy",
        help=f"plan the model so: {LAYERWISE}, {', '.join(PLANNED)}",
    )
    parser.add_argument(
        "--nproc-per-node", type=positive, metavar="K", help="ranks to start here (default: the plan's)"
    )
    parser.add_argument("--batch", type=positive, help="samples per step, over all ranks (default: the plan's)")
    steps = partial(positive, most=_MOST_ITERATIONS)
    parser.add_argument("--iterations", type=steps, default=10, help="measured steps (default: 10)")
    parser.add_argument("--check", action="store_true", help="compare loss and every gradient with one device")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline for ui.perfetto.dev")
    parser.add_argument(
        "--compare", metavar="ddp|fsdp|PLAN", help="measure that, or another plan, in turn with the plan, step by step"
    )
    parser.add_argument("--data", metavar="MODULE:FACTORY", help="batches of your own (default: synthetic)")
    parser.add_argument("--seed", type=seed, default=0, help="of weights and samples (default: 0)")
    add_kept(parser)
    add_made(parser)
    add_json(parser)


def add_kept(parser: argparse.ArgumentParser) -> None:
    """What long trainings need."""
    group = parser.add_argument_group("long trainings")
    group.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="save the training there after the last step")
    group.add_argument("--checkpoint-every", type=positive, metavar="K", help="and after every K steps")
    group.add_argument("--resume", action="store_true", help="go on from the last checkpoint that is whole, if any")
    group.add_argument(
        "--stall-timeout",
        type=timeout,
        default=60.0,
        metavar="TIME",
        help="end ranks that have not moved for so long, as in 60 or 10min; 0 for never (default: 60)",
    )


def add_made(parser: argparse.ArgumentParser, dtypes: Sequence[str] = RUN[1:]) -> None:
    """What a plan for a model asks for; `dtypes` beside fp32."""
    group = parser.add_argument_group("with --strategy")
    group.add_argument("--cluster", help=f"{CLUSTER} (default: local)")
    add_software(group)
    group.add_argument("--devices", type=positive, help="trim or grow the cluster to this many devices")
    group.add_argument("--input", type=shape, help="shape of one sample, as in 3x224x224")
    group.add_argument("--dtype", help=f"{PLAIN} (default) or {', '.join(dtypes)}: autocast around forward and loss")
    group.add_argument("--optimizer", help="sgd (default), momentum or adam")
    group.add_argument("--segments", type=positive, metavar="M", help="micro-batches of a pipeline (default: the best)")
    group.add_argument(
        "--batchnorm", help="exact (default): statistics of the whole batch; local: of batch / ranks samples, as DDP"
    )


def main(options: argparse.Namespace) -> int:
    from slicewise.environment import PLACE_FILE
    from slicewise.errors import StallError
    from slicewise.running.launch import check_ranks, crowding, inside_a_rank, launch
    from slicewise.runtime.whereabouts import record_to

    if inside_a_rank():
        if PLACE_FILE in os.environ:
            record_to(Path(os.environ[PLACE_FILE]))
        return _rank(options)
    require_torch()
    check_ranks(options.nproc_per_node or options.devices or 1)  # before a plan is made for them
    plan = requested_plan(options, options.nproc_per_node, "--nproc-per-node")
    check_ranks(plan.devices)
    if crowded := crowding(plan.devices):
        progress(crowded)
    progress(f"starting {plan.devices} ranks")
    try:
        if not options.strategy:
            batch = [f"--batch={options.batch}"] if options.batch else []
            return launch(["run", options.plan, *_handed_on(options), *batch], plan.devices, options.stall_timeout)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"
            plan.save(path)
            return launch(["run", str(path), *_handed_on(options)], plan.devices, options.stall_timeout)
    except StallError as error:
        if options.json:
            facts = {"model": plan.model, "devices": plan.devices, "batch": plan.batch}
            print_json({"schema_version": 1, **facts, "stalled": error.record})
        raise


def _handed_on(options: argparse.Namespace) -> list[str]:
    """What ranks need to know beside the plan."""
    names = ("iterations", "seed", "trace", "compare", "data", "checkpoint", "checkpoint_every")
    valued = {name.replace("_", "-"): getattr(options, name) for name in names}
    flags = [f"--{name}" for name in ("check", "json", "wide", "resume") if getattr(options, name)]
    return [f"--{name}={value}" for name, value in valued.items() if value is not None] + flags


def requested_plan(options: argparse.Namespace, ranks: int | None, said: str) -> "Plan":
    """The plan to run, made or loaded, and checked against model, ranks and batch before any work."""
    from slicewise.errors import PlanError, RequestError
    from slicewise.graph.sources import check_runnable
    from slicewise.saving import check_target

    if options.trace:
        check_target(options.trace)
    other = _other_plan(options)
    if options.data:
        from slicewise.graph.factories import load_factory

        load_factory(*options.data.rpartition(":")[::2])
    if options.plan.endswith(".pt2"):
        check_runnable(options.plan)
    _check_kept(options)
    plan, graph = _asked_plan(options, ranks)
    check_runnable(plan.model)
    if ranks not in (None, plan.devices):
        raise PlanError(f"the plan is for {plan.devices} devices, {said} is {ranks}; plan again with --devices {ranks}")
    if plan.training.dtype not in RUN:
        raise PlanError(f"`run` trains in {' or '.join(RUN)}, the plan is for {plan.training.dtype}; plan again")
    try:
        _check_sliced(plan, graph)
    except RequestError as error:
        if not options.batch:
            raise
        raise PlanError(f"the plan does not run with --batch {options.batch}: {error}; plan again") from error
    if len(graph.inputs) != 1 or len(graph.outputs) != 1 or graph.outputs[0].shape[1:2] < (2,):
        raise PlanError(
            f"{plan.model}: `run` trains networks with one input and one output of two or more classes "
            f"(got outputs {', '.join(str(output.shape) for output in graph.outputs)}); use parallelize in a script"
        )
    if other is not None:
        from slicewise.running.contenders import check_rival

        check_rival(plan, other)
        _check_sliced(other, graph)
    return plan


def _other_plan(options: argparse.Namespace) -> "Plan | None":
    """That `--compare` names a file of."""
    from slicewise.errors import RequestError
    from slicewise.plans.plan import Plan

    if options.compare in (None, "ddp", "fsdp"):
        return None
    if not Path(options.compare).exists() and not options.compare.endswith(".json"):
        raise RequestError(f"--compare takes ddp, fsdp or a plan file (got {options.compare!r})")
    other = Plan.load(Path(options.compare))
    return replace(other, batch=options.batch) if options.batch else other


def _check_sliced(plan: "Plan", graph: "LayerGraph") -> None:
    """Whether it fits the network."""
    if plan.pipeline:
        plan.pipeline.check(plan.sized(graph), plan.devices)
    else:
        plan.check(plan.sized(graph), plan.mesh)


def _check_kept(options: argparse.Namespace) -> None:
    """Checkpoints that cannot be meant, before any work."""
    from slicewise.checkpoints.manifest import checkpoints
    from slicewise.errors import RequestError

    if options.checkpoint is None:
        for name in ("checkpoint_every", "resume"):
            if getattr(options, name):
                raise RequestError(f"--{name.replace('_', '-')} needs a folder: --checkpoint FOLDER")
        return
    if options.compare:
        raise RequestError(f"--compare measures, --checkpoint trains; leave out --compare {options.compare}")
    if options.checkpoint.exists() and not options.checkpoint.is_dir():
        raise RequestError(f"{options.checkpoint} is not a folder; name one for the checkpoints")
    found = checkpoints(options.checkpoint)
    if found and not options.resume:
        raise RequestError(
            f"{options.checkpoint} has checkpoints, the last is {found[0].name}; --resume goes on from it, "
            "or name another folder"
        )


def _asked_plan(options: argparse.Namespace, ranks: int | None) -> "tuple[Plan, LayerGraph]":
    """The plan that was given, or one made for the model that was; and its network, by running the model's code."""
    from slicewise.graph.sources import load_graph

    if options.strategy:
        graph = load_graph(options.plan, options.input)  # an exported program is not run: no --trust
        return _made_plan(options, graph, ranks), graph
    plan = _loaded_plan(options)
    if plan.graph is None:
        return plan, load_graph(plan.model, plan.input_shape, folder=Path(options.plan).parent)
    return plan, plan.network()


def _loaded_plan(options: argparse.Namespace) -> "Plan":
    """From the file that was given, for the batch that was given."""
    from slicewise.errors import RequestError
    from slicewise.plans.plan import Plan

    for name in ("cluster", "devices", "input", "dtype", "optimizer", "batchnorm", "segments", "software"):
        if getattr(options, name) is not None:
            raise RequestError(f"--{name} is decided by the plan; give a model and --strategy, or plan again")
    if not Path(options.plan).exists() and not options.plan.endswith(".json"):
        raise RequestError(
            f"{options.plan}: no such plan; to run a model, say how: --strategy {LAYERWISE}, {PLANNED[0]}, ..."
        )
    plan = Plan.load(Path(options.plan))
    return replace(plan, batch=options.batch) if options.batch else plan


def _made_plan(options: argparse.Namespace, graph: "LayerGraph", ranks: int | None) -> "Plan":
    """For the model that was given, under --strategy."""
    from slicewise.cluster.cluster import machine_of
    from slicewise.planning.asking import PER_DEVICE, plan

    cluster = machine_of(options.cluster or "local", options.devices or ranks, options.software)
    given = {name: getattr(options, name) for name in ("dtype", "optimizer", "batchnorm", "segments")}
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    progress(f"planning {graph.name}: {len(graph)} layers on {cluster.devices} devices")
    batch = options.batch or PER_DEVICE * cluster.devices
    return plan(graph, cluster, batch=batch, strategy=options.strategy, **asked)


def _rank(options: argparse.Namespace) -> int:
    from slicewise.cost.tiers import sent_as_predicted
    from slicewise.errors import RankError, SlicewiseError
    from slicewise.running.ranks import rank, watch_and_end
    from slicewise.running.worker import RunRequest, run_rank
    from slicewise.runtime.devices import leave, start_rank
    from slicewise.runtime.failures import described
    from slicewise.runtime.whereabouts import DONE, mark

    device = start_rank()
    watch_and_end(options.stall_timeout)
    try:
        plan, other = _agreed_plans(options)
        request = RunRequest(
            plan=plan,
            iterations=options.iterations,
            check=options.check,
            compare=other or options.compare,
            trace=options.trace,
            data=options.data,
            seed=options.seed,
            folder=Path(options.plan).parent,
            checkpoint=options.checkpoint,
            checkpoint_every=options.checkpoint_every,
            resume=options.resume,
        )
        result = run_rank(request, device)
    except (SlicewiseError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a model or its data that calls exit() has not done its work
        raise RankError(described(error, rank())) from error
    as_predicted = sent_as_predicted(result, result["predicted"])
    finite = result["first_nan_step"] is None
    passed = result.get("check", {}).get("passed", True) and as_predicted and finite
    mark(DONE)
    return leave(0 if passed else 1, lambda: _show(result, options.json))


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"schema_version": 1, **result})
    else:
        from slicewise.report.measured import show_run

        show_run(result)


def _agreed_plans(options: argparse.Namespace) -> "tuple[Plan, Plan | None]":
    """And the one that it is compared with. Rank 0 makes or loads them and tells the others, or why there is none."""
    from slicewise.environment import FAILURE_FILE
    from slicewise.plans.plan import Plan
    from slicewise.running.ranks import ranks, told_by_the_first

    def make() -> dict[str, Any]:
        # a launcher has checked the plan already
        launched = FAILURE_FILE in os.environ
        plan = _loaded_plan(options) if launched else requested_plan(options, ranks(), "the number of ranks")
        other = _other_plan(options)
        return {"plan": plan.to_dict(), "other": other and other.to_dict()}

    told = told_by_the_first(make)
    other = Plan.from_dict(told["other"], options.compare) if told["other"] else None
    return Plan.from_dict(told["plan"], options.plan), other
