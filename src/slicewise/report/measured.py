"""What a run measured, beside what was predicted, for people."""

from collections.abc import Mapping
from math import isfinite
from statistics import median
from typing import Any

from slicewise.cost.tiers import sent_as_predicted
from slicewise.terms import LAYER_TERMS
from slicewise.text.page import Page
from slicewise.text.tables import Table
from slicewise.units import amount, seconds

_DRIFTED = 1.1  # times as long, or as short: more than a step of itself differs from the next
_EQUAL = {True: ("equal", "green"), False: ("NOT EQUAL", "red")}


def show_run(result: Mapping[str, Any]) -> None:
    """Verdicts first, then where the time goes."""
    page = Page()
    settings = f"batch {result['batch']}, {result['dtype']}, {result['optimizer']}"
    page.say((result["model"], "bold"), f" on {result['devices']} ranks, {settings}")
    _show_losses(page, result)
    if "check" in result:
        _show_check(page, result["check"])
    _show_bytes(page, result)
    for key, name in (("ddp", "DistributedDataParallel"), ("fsdp", "FSDP2"), ("other", "the other plan")):
        if key in result:
            _show_opponent(page, result, result[key], name)
    page.show(_table(result))
    _show_drift(page, result.get("drift"))
    predicted = result["predicted"]
    told = f" (predicted {amount(predicted['peak_memory_bytes'], 'B')})" if predicted else ""
    page.say(f"memory of the rank that holds most: {amount(max(result['peak_memory_bytes']), 'B')}{told}")
    if "data_s" in result:
        page.say(f"waiting for data: {seconds(result['data_s'])} before each step")
    if "checkpoints" in result:
        _show_checkpoints(page, result)


def _show_drift(page: Page, drift: float | None) -> None:
    if drift is not None and not 1 / _DRIFTED < drift < _DRIFTED:
        page.say(
            f"the same work takes {drift:.2f} times as long as when this machine was calibrated, and predictions are "
            "for then; `slicewise calibrate` measures it again"
        )


def _show_losses(page: Page, result: Mapping[str, Any]) -> None:
    first = result["first_nan_step"]
    if first is not None:
        begin = result.get("first_step", 0)
        last = begin + len(result["losses"]) - 1
        told = f": the loss is NaN or infinite from step {first} on (of steps {begin} to {last})"
        page.say(("NOT FINITE", "red"), told)


def _show_checkpoints(page: Page, result: Mapping[str, Any]) -> None:
    saves_s = result["checkpoints"]["saves_s"]
    begun = f"went on from step {result['first_step']}; " if result["first_step"] else ""
    page.say(f"{begun}{len(saves_s)} checkpoints, {seconds(median(saves_s))} each; {result['checkpoints']['last']}")


def _show_check(page: Page, check: Mapping[str, Any]) -> None:
    error = check["max_relative_error"]
    told = f"{check['worst']} is NaN, infinite or missing, on ranks or on one device"
    if isfinite(error):
        told = f"largest relative difference {error:.1e} ({check['worst']}), allowed {check['tolerance']:.0e}"
    page.say(
        f"check ({check['note']}): loss and all {check['gradients']} gradients ",
        _EQUAL[check["passed"]],
        f" to one device; {told}",
    )


def _show_bytes(page: Page, result: Mapping[str, Any]) -> None:
    predicted = result["predicted"]
    collectives = ", ".join(f"{count} {name}" for name, count in result["collectives"].items()) or "none"
    if predicted:
        page.say(
            f"bytes sent by all ranks: predicted {_sent(predicted)}, counted {_sent(result)} (",
            _EQUAL[sent_as_predicted(result, predicted)],
            f"); collectives: {collectives}",
        )
    else:
        unknown = "no prediction: the plan's cluster is not known here"
        page.say(f"bytes sent by all ranks: counted {_sent(result)} ({unknown}); collectives: {collectives}")


def _show_opponent(page: Page, result: Mapping[str, Any], other: Mapping[str, Any], name: str) -> None:
    speedup = other["speedup"]
    page.say(
        f"against {name}, step by step in the same run: {seconds(result['iteration_s']['median'])} against "
        f"{seconds(other['iteration_s']['median'])}, ",
        (f"{speedup['median']:.2f}x", "bold"),
        f" its speed (95 % interval {speedup['low']:.2f} to {speedup['high']:.2f}, {speedup['pairs']} pairs); bytes "
        f"{amount(result['bytes_moved'], 'B')} against {amount(other['bytes_moved'], 'B')}",
    )


def _table(result: Mapping[str, Any]) -> Table:
    predicted = result["predicted"]
    table = Table("per step", "predicted", "measured", "predicted / measured")
    rows = [
        (f"{term.name} (not hidden)" if term.exposed else term.name, f"{term.waited}_s", result[f"{term.name}_s"])
        for term in LAYER_TERMS
    ]
    for name, key, measured in [*rows, ("step", "iteration_s", result["iteration_s"]["median"])]:
        expected = predicted.get(key)
        if max(expected or 0.0, measured) < 1e-7:
            continue
        ratio = f"{expected / measured:.2f}" if expected is not None and measured > 1e-7 else ""
        told = "" if expected is None else seconds(expected)
        table.add_row(name, told, seconds(measured), ratio, style="bold" if name == "step" else "")
    return table


def _sent(counted: Mapping[str, Any]) -> str:
    """`1,024`, or `inter 0, intra 1,024` where there are several tiers."""
    tiers = counted["bytes_by_tier"]
    if len(tiers) < 2:
        return f"{counted['bytes_moved']:,}"
    return ", ".join(f"{name} {sent:,}" for name, sent in tiers.items())
