"""How well predictions did, for people; and as a section of a report."""

from collections.abc import Mapping
from typing import Any

from slicewise.figures.agreement import scatter_figure
from slicewise.report.document_files import ValidationFields
from slicewise.report.sections import Facts, Figure, Section
from slicewise.terms import LAYER_TERMS
from slicewise.text.page import Page
from slicewise.text.tables import Table
from slicewise.units import amount, seconds


def show_validation(found: Mapping[str, Any]) -> None:
    page = Page()
    scores = found["accuracy"]
    page.say(
        ("accuracy ", "bold"),
        f"{_share(scores['all'])} over {len(found['bars'])} bars; compute {_share(scores['compute'])}, "
        f"communication {_share(scores['communication'])}, memory {_share(found['memory_accuracy'])}",
    )
    page.say(
        f"null predictor: {_share(found['null_accuracy'])}; runs of one plan differ by {_share(found['repeatability'])}"
    )
    if found["drift"] is not None:
        page.say(
            f"the same work took {found['drift']:.2f} times as long as when the machine was calibrated; accuracy "
            f"without that: {_share(scores['steady'])}"
        )
    if found["most_wrong"]:
        worst = found["most_wrong"]
        told = f"predicted {seconds(worst['predicted_s'])}, measured {seconds(worst['measured_s'])} over all bars"
        page.say(f"most wrong: {worst['term']}: {told}")
    if found["rankings"]:
        page.say(f"near-optimal plans: spearman {_number(found['spearman'])}, regret {_share(found['regret'])}")
    page.show(_bars(found), _by_model(found), *([_rankings(found)] if found["rankings"] else []))
    for name, sizes in found["input"].items():
        page.say(f"samples of {name}: {'x'.join(map(str, sizes))}")
    for item in found["skipped"]:
        by = f", {item['cost_model']}" if "cost_model" in item else ""
        page.say(f"left out: {item['model']}, {item['strategy']}, {item['ranks']} ranks{by}: {item['reason']}")


def _bars(found: Mapping[str, Any]) -> Table:
    notes = {"accuracy": "* where runs differ by more than the error", "spread": "of the measured runs"}
    terms = [term.name for term in LAYER_TERMS]
    table = Table(
        "model", "strategy", "ranks", "cost", "predicted", "measured", "accuracy", "spread", "memory",
        *terms, keys=4, notes=notes,
    )  # fmt: skip
    for bar in found["bars"]:
        parts = [bar["terms"].get(name, {"predicted_s": 0.0, "measured_s": 0.0}) for name in terms]
        memory = bar["memory_bytes"]
        table.add_row(
            bar["model"],
            bar["strategy"],
            str(bar["ranks"]),
            bar["cost_model"],
            seconds(bar["predicted_s"]),
            seconds(bar["measured_s"]),
            f"{bar['accuracy']:.0%}{'*' if bar['doubtful'] else ''}",
            f"{bar['spread']:.0%}",
            f"{amount(memory['predicted'], 'B')} / {amount(memory['measured'], 'B')}",
            *(f"{seconds(part['predicted_s'])} / {seconds(part['measured_s'])}" for part in parts),
        )
    return table


def _by_model(found: Mapping[str, Any]) -> Table:
    every = found["accuracy"]["by_cost_model"]
    names = list(dict.fromkeys(name for scores in every.values() for name in scores["by_strategy"]))
    table = Table("cost model", "all", *names, "compute", "communication")
    for cost, scores in every.items():
        own = [_share(scores["by_strategy"].get(name)) for name in names]
        table.add_row(cost, _share(scores["all"]), *own, _share(scores["compute"]), _share(scores["communication"]))
    return table


def _rankings(found: Mapping[str, Any]) -> Table:
    table = Table("model", "ranks", "cost", "plans", "spearman", "regret", keys=3)
    for item in found["rankings"]:
        count = str(len(item["measured_s"]))
        told = _number(item["spearman"]), _share(item["regret"])
        table.add_row(item["model"], str(item["ranks"]), item["cost_model"], count, *told)
    return table


def validation_section(source: str, found: ValidationFields) -> Section:
    points = [
        (f"{bar.model}, {bar.strategy}, {bar.ranks} ranks, {bar.cost_model}", bar.predicted_s, bar.measured_s)
        for bar in found.bars
    ]
    items = [("accuracy", _share(found.accuracy.all)), ("null predictor", _share(found.null_accuracy))]
    items += [("memory", _share(found.memory_accuracy)), ("bars", str(len(points)))]
    if found.spearman is not None and found.regret is not None:
        items += [("spearman", _number(found.spearman)), ("regret", _share(found.regret))]
    figures = [Figure(name="validation", svg=scatter_figure(points))] if points else []
    return Section(title="Predictions against runs", parts=[Facts(items=items), *figures], source=source)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
