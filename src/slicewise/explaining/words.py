"""Explanations in sentences: what a choice saves, what it costs, and when it would be another."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from slicewise.cost.breakdown import Cost
from slicewise.explaining.flips import Flip
from slicewise.graph.dims import Dim
from slicewise.terms import LAYER_TERMS, Nature, Term
from slicewise.units import amount, seconds

if TYPE_CHECKING:
    from slicewise.explaining.decisions import Alternative, Decision, Explanation

_DIMS = {
    Dim.N: "sample",
    Dim.F: "filter",
    Dim.C: "input channel",
    Dim.D: "depth",
    Dim.H: "height",
    Dim.W: "width",
    Dim.A: "head",
    Dim.Q: "query",
    Dim.K: "column",
}
_SMALL = 0.02  # of the largest difference: terms that differ by less are not told


def sentences(decision: "Decision", explanation: "Explanation") -> str:
    """`fc1 is sliced by filter (F16): saves 392 MB of gradient all-reduce (27.1 ms), costs ...`."""
    reference, runner_up = decision.reference, decision.runner_up
    if reference is None and runner_up is None:
        return f"{span(decision.layers)}: {decision.slicing} is all that the contract with the training loop allows."
    told = [_choice(decision, explanation)]
    if runner_up is not None and reference is not None:
        told.append(_runner_up(decision, runner_up))
    if decision.flips:
        told.append(f"Others fixed, {_flips(decision.flips, decision)}.")
    return " ".join(told)


def _choice(decision: "Decision", explanation: "Explanation") -> str:
    against = decision.against
    assert against is not None
    by = f"{_sliced(decision.dims)} ({decision.slicing})"
    if decision.reference is None:
        worse = decision.worth_s
        start = f"{span(decision.layers)} {verb(decision.layers)} {by}, as under {explanation.reference} parallelism: "
        change = f"it {balance(against.cost - decision.cost)}{_hiding(decision, against)}"
        if worse < 0:
            return f"{start}with {against.slicing} a step would be {seconds(-worse)} shorter: {change}."
        return f"{start}with the next best, {against.slicing}, a step would be {seconds(worse)} longer: {change}."
    saved_s, hiding = decision.worth_s, _hiding(decision, against)
    worth = (
        f"worth {seconds(saved_s)} of the step"
        if saved_s >= 0
        else f"a step {seconds(-saved_s)} longer than with {against.slicing}"
    )
    if hiding:
        work_s = decision.less_work_s(against)
        worth = f"{seconds(abs(work_s))} {'less' if work_s >= 0 else 'more'} work, {worth}{hiding}"
    fits = "" if against.fits else f"; {against.slicing} would not fit in memory"
    change = balance(decision.cost - against.cost)
    return f"{span(decision.layers)} {verb(decision.layers)} {by}: {change}: {worth}{fits}."


def _hiding(decision: "Decision", against: "Alternative") -> str:
    """Why the step differs by another amount than the terms, which are work; nothing where they agree."""
    work_s, step_s = decision.less_work_s(against), decision.worth_s
    if abs(work_s - step_s) <= _SMALL * max(abs(work_s), abs(step_s)):
        return ""
    return "; the rest hides behind compute" if work_s > step_s >= 0 else "; what hides behind compute changes too"


def _runner_up(decision: "Decision", other: "Alternative") -> str:
    gap_s = decision.longer_s(other)
    if abs(gap_s) < 1e-9:
        return f"{other.slicing} would do as well."
    if gap_s < 0:
        return f"With {other.slicing} a step would be {seconds(-gap_s)} shorter."
    return f"With the next best, {other.slicing}, a step would be {seconds(gap_s)} longer."


def balance(change: Cost) -> str:
    """`saves 392 MB of gradient all-reduce (27.1 ms), costs 12.8 MB of activations ... (794 us)`."""
    largest = max(abs(change.seconds(term.name)) for term in LAYER_TERMS)
    if largest < 1e-9:
        return "changes nothing"
    told = [term for term in LAYER_TERMS if abs(change.seconds(term.name)) > _SMALL * largest]
    saves = [_term(term, change) for term in told if change.seconds(term.name) < 0]
    costs = [_term(term, change) for term in told if change.seconds(term.name) > 0]
    parts = [f"{word} {_listed(terms)}" for word, terms in (("saves", saves), ("costs", costs)) if terms]
    return ", ".join(parts)


def _term(term: Term, change: Cost) -> str:
    took = seconds(abs(change.seconds(term.name)))
    if term.nature is Nature.COMPUTE:
        return f"{took} of {term.told}"
    moved = abs(change.sent_bytes[term.name])
    return f"{amount(moved, 'B')} of {term.told} ({took})" if moved else f"{took} of {term.name}"


def _flips(flips: Sequence[Flip], decision: "Decision") -> str:
    """`it would become N16 with 3.1x the inter bandwidth (34 GB/s) or a batch above 4,096`."""
    by_target: dict[str, list[str]] = {}
    for flip in flips:
        by_target.setdefault(flip.becomes, []).append(threshold(flip))
    word = "it" if len(decision.layers) == 1 else "they"
    return "; ".join(
        f"{word} would become {target} with {_listed(reasons, 'or')}" for target, reasons in by_target.items()
    )


def threshold(flip: Flip) -> str:
    if flip.what == "batch":
        return f"a batch {'above' if flip.factor > 1 else 'below'} {flip.value:,.0f}"
    tier = flip.what.removesuffix(" bandwidth")
    side = "more" if flip.factor > 1 else "less"
    return f"{side} than {flip.factor:.2g}x the {tier} bandwidth ({amount(flip.value, 'B/s')})"


def short(flip: Flip) -> str:
    """`inter > 1.5x`, `batch < 273`."""
    sign = ">" if flip.factor > 1 else "<"
    if flip.what == "batch":
        return f"batch {sign} {flip.value:,.0f}"
    return f"{flip.what.removesuffix(' bandwidth')} {sign} {flip.factor:.2g}x"


def _sliced(dims: Sequence[str]) -> str:
    if not dims:
        return "left whole"
    return f"sliced by {_listed([_DIMS[Dim(dim)] for dim in dims])}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def verb(layers: Sequence[str]) -> str:
    return "is" if len(layers) == 1 else "are"


def span(layers: Sequence[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]} ({len(layers)})"


def heading(explanation: "Explanation") -> str:
    now, then = explanation.predicted, explanation.reference_predicted
    why = f" ({explanation.reason})" if explanation.reason else ""
    saved_s = then.iteration_s - now.iteration_s
    word = "saves" if saved_s >= 0 else "costs"
    return (
        f"{explanation.title}: a step is predicted to take {seconds(now.iteration_s)}, {seconds(then.iteration_s)} "
        f"under {explanation.reference} parallelism{why}: the plan {word} {seconds(abs(saved_s))}. Work (compute "
        f"and communication, hidden or not) adds up to {seconds(now.additive_s)} against {seconds(then.additive_s)}."
    )


def text(explanation: "Explanation") -> str:
    most = [f"{number}. {sentences(decision, explanation)}" for number, decision in enumerate(explanation.most, 1)]
    rest = [sentences(decision, explanation) for decision in explanation.decisions if decision not in explanation.most]
    return "\n".join([heading(explanation), *most, *rest])


def html(explanation: "Explanation") -> str:
    """For a notebook."""
    most = "".join(f"<li>{escape(sentences(decision, explanation))}</li>" for decision in explanation.most)
    rest = "".join(
        f"<li>{escape(sentences(decision, explanation))}</li>"
        for decision in explanation.decisions
        if decision not in explanation.most
    )
    return f"<p>{escape(heading(explanation))}</p>{drawn(explanation)}<ol>{most}</ol><ul>{rest}</ul>"


def drawn(explanation: "Explanation") -> str:
    """What each decision is worth, as a picture; nothing where none has an alternative."""
    rows = [
        (span(decision.layers), decision.slicing, decision.worth_s, sentences(decision, explanation))
        for decision in explanation.decisions
        if decision.against is not None
    ]
    from slicewise.figures.worth import worth_figure  # explaining itself draws nothing

    return worth_figure(rows) if rows else ""
