"""Tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from slicewise.cost.breakdown import TERMS, Cost
from slicewise.plans import Pipeline, Plan, spelled
from slicewise.report.tables import console, table_of
from slicewise.units import amount, seconds


def show_plan(plan: Plan) -> None:
    out = console()
    mesh = " x ".join(f"{name}={size}" for name, size in plan.axes.items())
    out.print(
        f"[bold]{plan.model}[/] on [bold]{plan.cluster}[/]: {plan.devices} devices ({mesh}), batch {plan.batch}, "
        f"{plan.training.dtype}"
    )
    out.print(_stage_table(plan, plan.pipeline) if plan.pipeline else _layer_table(plan))
    out.print(_strategy_table(plan))
    if plan.certificate:
        out.print(_proof(plan.certificate), highlight=False)


def _proof(proof: Mapping[str, Any]) -> str:
    limits = f", {', '.join(proof['constraints'])}" if proof["constraints"] else ""
    space = f"the space of 10^{proof['space_log10']:.0f} plans ({proof['space']}{limits})"
    if proof["optimal"]:
        claim = f"Optimal: no plan in {space} has a smaller {proof['objective']}."
    else:
        claim = f"No plan in {space} has an {proof['objective']} smaller by more than {proof['gap']:.2%}: proven."
    told = (
        f"{claim} {proof['configurations']:,} slicings of {proof['layers']} layers, {proof['surviving']:,} after "
        f"pruning; by {proof['method']}, tables {seconds(proof['tables_s'])}, search {seconds(proof['search_s'])}."
    )
    return f"{told} {_rescored(proof)}" if "rescored" in proof else told


def _rescored(proof: Mapping[str, Any]) -> str:
    row = proof["rescored"]
    if row["simulated_s"] >= row["optimum_simulated_s"]:
        return f"With overlap simulated, none of {row['candidates'] - 1} others is faster than this optimum."
    return (
        f"With overlap simulated, another plan is faster than this optimum ({seconds(proof['optimum_s'])} by "
        f"additive_s): {row['returned']}, {seconds(row['simulated_s'])} against "
        f"{seconds(row['optimum_simulated_s'])}. It is the one shown."
    )


def show_pareto(plans: Sequence[Plan]) -> None:
    out = console()
    first = plans[0]
    out.print(f"[bold]{first.model}[/] on [bold]{first.cluster}[/]: {first.devices} devices, batch {first.batch}")
    table = table_of("step", "samples/s", "memory", "bytes", "slicings")
    for plan in plans:
        row = plan.predicted
        used = list(dict.fromkeys(spelled(slicing, plan.axes) for slicing in plan.slicings.values()))
        table.add_row(
            seconds(row["iteration_s"]),
            f"{row['samples_per_s']:,.0f}",
            amount(row["peak_memory_bytes"], "B"),
            amount(row["bytes_moved"], "B"),
            ", ".join(used[:4]) + (" ..." if len(used) > 4 else ""),
        )
    table.caption = "from the fastest plan to the one that keeps the fewest bytes; memory: of one device"
    out.print(table)


def _layer_table(plan: Plan) -> Table:
    table = table_of("layers", "kind", "slicing", "compute", "communication", "bytes sent")
    for names, slicing in stretches(plan):
        costs = [plan.costs[name] for name in names]
        total = sum((_cost(cost) for cost in costs), Cost())
        kinds = list(dict.fromkeys(plan.kinds[name] for name in names))
        table.add_row(
            _span(names),
            ", ".join(kinds[:3]) + (", ..." if len(kinds) > 3 else ""),
            spelled(slicing, plan.axes),
            seconds(total.compute_s),
            seconds(total.communication_s),
            amount(total.bytes_moved, "B"),
        )
    return table


def _stage_table(plan: Plan, pipeline: Pipeline) -> Table:
    table = table_of("rank", "layers", "forward", "backward", "receives")
    for rank, stage in enumerate(pipeline.stages):
        times = (seconds(stage[f"{term}_s"]) for term in ("forward", "backward", "transfer"))
        table.add_row(str(rank), f"{stage['first']} .. {stage['last']} ({stage['layers']})", *times)
    samples = plan.batch // pipeline.micro_batches
    table.caption = (
        f"{pipeline.schedule}, {pipeline.micro_batches} micro-batches of {samples}; times are of one micro-batch"
    )
    return table


def stretches(plan: Plan) -> list[tuple[list[str], Any]]:
    """Consecutive layers with one slicing."""
    result: list[tuple[list[str], Any]] = []
    for name, slicing in plan.slicings.items():
        if result and result[-1][1] == slicing:
            result[-1][0].append(name)
        else:
            result.append(([name], slicing))
    return result


PREDICTED = ("step", "samples/s", "compute", "transfer", "halo", "reduce", "sync", "bytes", "memory")


def _range(row: Mapping[str, Any]) -> list[str]:
    """Plans of older releases have none."""
    if "low_s" not in row:
        return []
    low, high = seconds(row["low_s"]), seconds(row["high_s"])
    return [f"by {row['origin']} figures, the first row's step is to be expected between {low} and {high}"]


def prediction_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns `PREDICTED`."""
    return (
        seconds(row["iteration_s"]),
        f"{row['samples_per_s']:,.0f}" if row["samples_per_s"] >= 10 else f"{row['samples_per_s']:.2f}",
        *(seconds(row[f"{term}_s"]) for term in ("compute", "transfer", "halo", "reduce", "sync")),
        amount(row["bytes_moved"], "B"),
        amount(row["peak_memory_bytes"], "B"),
    )


def _strategy_table(plan: Plan) -> Table:
    impossible: list[str] = []
    table = table_of("strategy", *PREDICTED, "speed-up")
    mine = "layer-wise" if plan.certificate else "this plan"
    rows: Mapping[str, Mapping[str, Any]] = {mine: plan.predicted, **plan.baselines}
    for name, row in rows.items():
        if not row.get("feasible", True):
            impossible.append(f"{name}: not possible here, {row['reason']}")
            continue
        faster = row["iteration_s"] / plan.predicted["iteration_s"]
        table.add_row(
            name,
            *prediction_cells(row),
            "" if name == mine else f"{faster:.2f}x",
            style="bold" if name == mine else None,
        )
    table.caption = "\n".join(
        [
            "bytes: sent by all devices in a step; memory: of one device; speed-up: of the first row over this one",
            *_range(plan.predicted),
            *impossible,
        ]
    )
    return table


def show_run(result: Mapping[str, Any]) -> None:
    out = console()
    out.print(
        f"[bold]{result['model']}[/] on {result['devices']} ranks, batch {result['batch']}, {result['dtype']}, "
        f"{result['optimizer']}"
    )
    check = result.get("check")
    if check:
        verdict = "[green]equal[/]" if check["passed"] else "[red]NOT EQUAL[/]"
        out.print(
            f"check ({check['note']}): loss and all {check['gradients']} gradients {verdict} to one device; "
            f"largest relative difference {check['max_relative_error']:.1e} ({check['worst']}), "
            f"allowed {check['tolerance']:.0e}",
            highlight=False,
        )
    predicted, step = result["predicted"], result["iteration_s"]
    table = table_of("per step", "predicted", "measured", "predicted / measured")
    names = {f"{term}_s": term for term in TERMS if term != "sync"} | {"exposed_sync_s": "sync (not hidden)"}
    measured = {**result, "exposed_sync_s": result["sync_s"], "iteration_s": step["median"]}
    for key, name in (names | {"iteration_s": "step"}).items():
        expected = predicted.get(key)
        if max(expected or 0.0, measured[key]) < 1e-7:
            continue
        ratio = f"{expected / measured[key]:.2f}" if expected is not None and measured[key] > 1e-7 else ""
        told = "" if expected is None else seconds(expected)
        table.add_row(name, told, seconds(measured[key]), ratio, style="bold" if name == "step" else None)
    out.print(table)
    collectives = ", ".join(f"{count} {name}" for name, count in result["collectives"].items()) or "none"
    if predicted:
        same = "[green]equal[/]" if _sent(result) == _sent(predicted) else "[red]NOT EQUAL[/]"
        verdict = f"predicted {_sent(predicted)}, counted {_sent(result)} ({same})"
    else:
        verdict = f"counted {_sent(result)} (no prediction: the plan's cluster is not known here)"
    out.print(f"bytes sent by all ranks: {verdict}; collectives: {collectives}", highlight=False)
    told = f" (predicted {amount(predicted['peak_memory_bytes'], 'B')})" if predicted else ""
    peak = amount(max(result["peak_memory_bytes"]), "B")
    out.print(f"memory of the rank that holds most: {peak}{told}", highlight=False)
    if "data_s" in result:
        out.print(f"waiting for data: {seconds(result['data_s'])} before each step", highlight=False)
    for key, name in (("ddp", "DistributedDataParallel"), ("fsdp", "FSDP2")):
        if key in result:
            speedup = result[key]["speedup"]
            out.print(
                f"against {name}, step by step in the same run: {seconds(step['median'])} against "
                f"{seconds(result[key]['iteration_s']['median'])}, [bold]{speedup['median']:.2f}x[/] its speed "
                f"(95 % interval {speedup['low']:.2f} to {speedup['high']:.2f}, {speedup['pairs']} pairs); bytes "
                f"{amount(result['bytes_moved'], 'B')} against {amount(result[key]['bytes_moved'], 'B')}",
                highlight=False,
            )


def _sent(counted: Mapping[str, Any]) -> str:
    """`1,024`, or `inter 0, intra 1,024` where there are several tiers."""
    tiers = counted["bytes_by_tier"]
    if len(tiers) < 2:
        return f"{counted['bytes_moved']:,}"
    return ", ".join(f"{name} {sent:,}" for name, sent in tiers.items())


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)})"


def _cost(fields: Mapping[str, Any]) -> Cost:
    return Cost(**{name: fields[name] for name in Cost.__dataclass_fields__ if name in fields})
