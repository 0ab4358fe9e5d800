"""Plans for people: the answer, then tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from slicewise.cost.breakdown import Cost
from slicewise.figures.step_terms import MEANING, TERMS, step_terms
from slicewise.graph.kind import Kind
from slicewise.partition.buckets import BUCKET_BYTES
from slicewise.partition.spelling import spelled
from slicewise.plans.plan import Plan, Stages
from slicewise.search.certificate import OPTIMUM
from slicewise.text.page import Page, Prose
from slicewise.text.tables import Table
from slicewise.units import amount, seconds

_WORTH_TELLING = 0.05  # of data parallelism's step


def show_plan(plan: Plan) -> None:
    page = Page()
    mesh = " x ".join(f"{name}={size}" for name, size in plan.axes.items())
    where = f": {plan.devices} devices ({mesh}), batch {plan.batch}, {plan.training.dtype}"
    page.say((plan.model, "bold"), " on ", (plan.cluster, "bold"), where)
    page.say(answer(plan))
    if plan.pipeline:
        page.show(*_stages(plan, plan.pipeline))
    else:
        page.show(_layer_table(plan))
    page.show(*_strategies(plan))
    if plan.training.bucket_bytes != BUCKET_BYTES:
        size = f"{plan.training.bucket_bytes / 2**20:g} MiB"
        why = "as asked" if plan.asked.bucket else "which is faster here than DDP's 25 MiB"
        page.say(f"Gradients are summed in buckets of {size}, {why}.")
    if plan.training.rings:
        page.say(rings_told(plan))
    if repeated := repeated_told(plan):
        page.say(repeated)
    if plan.certificate:
        page.say(proof_told(plan.certificate))


def answer(plan: Plan) -> str:
    """`A step takes 31.2 ms (16,433 samples/s), between 15.6 ms and 62.3 ms by preset figures; owt takes 40.8 ms.`"""
    row = plan.predicted
    told = f"A step takes {seconds(row['iteration_s'])} ({_rate(row)} samples/s)"
    if "low_s" in row:  # plans of older releases have no range
        told += f", between {seconds(row['low_s'])} and {seconds(row['high_s'])} by {row['origin']} figures"
    possible = {name: other for name, other in plan.baselines.items() if other.get("feasible", True)}
    if not possible:
        return f"{told}."
    same = [name for name, other in possible.items() if all(other.get(key) == value for key, value in row.items())]
    others = {name: other["iteration_s"] for name, other in possible.items() if name not in same}
    if same:
        told += f". This plan is {'data parallelism' if same[0] == 'data' else f'the strategy {same[0]}'}"
    if others:
        fastest = min(others, key=lambda name: others[name])
        which = "strategy that differs" if same else "other strategy"
        named = f"the fastest {which}, {fastest}," if len(possible) > 1 else fastest
        told += f"; {named} takes {seconds(others[fastest])}"
    return " ".join([f"{told}.", *_remarks(plan)])


def repeated_told(plan: Plan) -> str:
    """What every device computes whole, with time and memory: operators nobody taught us, or a share of the step."""
    if plan.pipeline or plan.devices == 1:
        return ""
    whole = {name: plan.costs.get(name, {}) for name, slicing in plan.slicings.items() if not any(slicing)}
    taken = {name: cost for name, cost in whole.items() if cost.get("compute_s", 0.0) > 0}
    spent_s = sum(cost["compute_s"] for cost in taken.values())
    unknown = [name for name in taken if plan.kinds.get(name) == Kind.OPAQUE]
    if not unknown and spent_s <= _WORTH_TELLING * plan.predicted.get("iteration_s", float("inf")):
        return ""
    most = max(unknown or taken, key=lambda name: taken[name]["compute_s"])
    held = amount(sum(cost["memory_bytes"] + cost["transient_bytes"] for cost in taken.values()), "B")
    layers = "1 layer is" if len(taken) == 1 else f"{len(taken)} layers are"
    own = f"{most} ({plan.kinds.get(most, '')}) takes {seconds(taken[most]['compute_s'])}"
    return f"{layers} whole on every device: {seconds(spent_s)} of compute and {held}; {own}."


def rings_told(plan: Plan) -> str:
    """Which attention does not gather its keys."""
    first, *others = plan.training.rings
    more = f" and {len(others)} more" if others else ""
    return f"Keys and values of {first}{more} are passed round in a ring, not gathered."


def _remarks(plan: Plan) -> Iterator[str]:
    """What a person should know before taking the plan: that fewer devices would do, and what exactness costs."""
    possible = {name: row for name, row in plan.references.items() if row.get("feasible", True)}
    alone, ddp, data = possible.get("one device"), possible.get("DDP"), plan.baselines.get("data", {})
    now_s = plan.predicted["iteration_s"]
    if alone and alone["iteration_s"] <= now_s:
        yield f"One device does it in {seconds(alone['iteration_s'])}: more of them do not help here."
    norms_s = data["reduce_s"] if ddp and data.get("feasible") else 0.0
    if norms_s and norms_s > _WORTH_TELLING * data["iteration_s"]:
        yield (
            f"Exact batch norms take {seconds(norms_s)} of the {seconds(data['iteration_s'])} of data parallelism, "
            "which DDP does not pay: `--batchnorm local` drops them."
        )


def _objective(proof: Mapping[str, Any]) -> str:
    name = proof["objective"]
    return f"sum of costs ({name})" if name == "additive_s" else str(name)


def proof_told(proof: Mapping[str, Any]) -> str:
    """What this plan takes, what is proven, and last what was searched and how."""
    told = [_claimed(proof)]
    if proof.get("simulated_lower_s") is not None:
        told.append(
            f"No plan of the space simulates below {seconds(proof['simulated_lower_s'])}, "
            f"{proof['simulated_gap']:.1%} less than this one."
        )
    limits = f", {', '.join(proof['constraints'])}" if proof["constraints"] else ""
    told.append(
        f"The space has 10^{proof['space_log10']:.0f} plans: {proof['space']}{limits}. {proof['configurations']:,} "
        f"slicings of {proof['layers']} layers, {proof['surviving']:,} after pruning; by {proof['method']}, tables "
        f"{seconds(proof['tables_s'])}, search {seconds(proof['search_s'])}."
    )
    return " ".join(told)


def _claimed(proof: Mapping[str, Any]) -> str:
    """Of the plan that is shown, and of the optimum where that is another one."""
    sure = ", proven" if proof["optimal"] else f" found, proven to within {proof['gap']:.2%}"
    smallest = f"the smallest {_objective(proof)}{sure}"
    row = proof.get("rescored")
    if row is None:
        return f"This plan has {smallest}."
    now, best = seconds(row["simulated_s"]), seconds(row["optimum_simulated_s"])
    if row["returned"] == OPTIMUM:
        others = f"With overlap simulated, none of {row['candidates'] - 1} others is faster."
        return f"This plan takes {now}. It has {smallest}. {others}"
    word = "faster" if row["simulated_s"] < row["optimum_simulated_s"] else "simpler"
    start = f"This plan takes {now}. The plan with {smallest}, simulates at {best}."
    return f"{start} This one is {word}: {row['returned']}."


def show_pareto(plans: Sequence[Plan]) -> None:
    page = Page()
    first = plans[0]
    where = f": {first.devices} devices, batch {first.batch}"
    page.say((first.model, "bold"), " on ", (first.cluster, "bold"), where)
    page.say("From the fastest plan to the one that keeps the fewest bytes.")
    notes = {name: PREDICTED_NOTES[name] for name in ("memory", "bytes")}
    table = Table("step", "samples/s", "memory", "bytes", "slicings", notes=notes)
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
    page.show(table)


def _layer_table(plan: Plan) -> Table:
    table = Table("layers", "slicing", "compute", "communication", "bytes sent", "kind")
    for names, slicing in stretches(plan):
        costs = [plan.costs[name] for name in names]
        total = sum((_cost(cost) for cost in costs), Cost())
        kinds = list(dict.fromkeys(plan.kinds[name] for name in names))
        table.add_row(
            _span(names),
            spelled(slicing, plan.axes),
            seconds(total.compute_s),
            seconds(total.communication_s),
            amount(total.bytes_moved, "B"),
            ", ".join(kinds[:3]) + (", ..." if len(kinds) > 3 else ""),
        )
    return table


def _stages(plan: Plan, pipeline: Stages) -> tuple[Table, Prose]:
    table = Table("rank", "layers", "forward", "backward", "receives")
    for rank, stage in enumerate(pipeline.stages):
        times = (seconds(stage[f"{term}_s"]) for term in ("forward", "backward", "transfer"))
        table.add_row(str(rank), f"{stage['first']} .. {stage['last']} ({stage['layers']})", *times)
    samples = plan.batch // pipeline.micro_batches
    told = f"{pipeline.schedule}, {pipeline.micro_batches} micro-batches of {samples}; times are of one micro-batch"
    return table, Prose(told, style="dim")


def stretches(plan: Plan) -> list[tuple[list[str], Any]]:
    """Consecutive layers with one slicing."""
    result: list[tuple[list[str], Any]] = []
    for name, slicing in plan.slicings.items():
        if result and result[-1][1] == slicing:
            result[-1][0].append(name)
        else:
            result.append(([name], slicing))
    return result


PREDICTED = ("memory", "bytes", *TERMS, "samples/s")
PREDICTED_NOTES = {"memory": "of one device", "bytes": "sent by all devices in a step", **MEANING}


def prediction_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns `PREDICTED`; those from compute to waiting add up to the step."""
    return (
        amount(row["peak_memory_bytes"], "B"),
        amount(row["bytes_moved"], "B"),
        *map(seconds, step_terms(row).values()),
        _rate(row),
    )


def telling(rows: Collection[Mapping[str, Any]]) -> tuple[str, ...]:
    """Columns of `PREDICTED` in the order that they get room: first every row's largest term, then by their shares."""
    found = [step_terms(row) for row in rows]
    largest = {max(terms, key=lambda name: terms[name]) for terms in found}
    share = {name: max(terms[name] / sum(terms.values()) for terms in found) for name in TERMS}
    ordered = sorted(TERMS, key=lambda name: -share[name])
    rest = [name for name in ordered if name not in largest]
    return (*(name for name in ordered if name in largest), "memory", "bytes", *rest)


def _rate(row: Mapping[str, Any]) -> str:
    return f"{row['samples_per_s']:,.0f}" if row["samples_per_s"] >= 10 else f"{row['samples_per_s']:.2f}"


def _strategies(plan: Plan) -> list[Table | Prose]:
    notes = {"speed-up": "of the first row over this one", **PREDICTED_NOTES}
    mine = "layer-wise" if plan.certificate else "this plan"
    told: Mapping[str, Mapping[str, Any]] = {mine: plan.predicted, **plan.baselines, **plan.references}
    rows = {name: row for name, row in told.items() if row.get("feasible", True)}
    impossible = [f"{name}: not possible here, {row['reason']}" for name, row in told.items() if name not in rows]
    table = Table("strategy", "step", "speed-up", *PREDICTED, first=("speed-up", *telling(rows.values())), notes=notes)
    for name, row in rows.items():
        faster = row["iteration_s"] / plan.predicted["iteration_s"]
        table.add_row(
            name,
            seconds(row["iteration_s"]),
            "" if name == mine else f"{faster:.2f}x",
            *prediction_cells(row),
            style="bold" if name == mine else "",
        )
    return [table, Prose("\n".join(impossible), style="dim")] if impossible else [table]


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)})"


def _cost(fields: Mapping[str, Any]) -> Cost:
    return Cost(**{name: fields[name] for name in Cost.__dataclass_fields__ if name in fields})
