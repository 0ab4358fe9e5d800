"""Where a step's time goes: terms that add up to it, for tables and figures."""

from collections.abc import Mapping
from typing import Any

from slicewise.terms import LAYER_TERMS
from slicewise.units import ROUNDING

WAITING = "waiting"
_FIRST = ("compute", "transfer", "sync")  # those that matter most
_ORDERED = sorted(LAYER_TERMS, key=lambda term: term.name not in _FIRST)
TERMS = (*(term.name for term in _ORDERED), WAITING)
MEANING = {"sync": "what is not hidden behind compute", WAITING: "for links that gradients use, or for other stages"}


def step_terms(row: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by term, adding up to `iteration_s`: what is hidden is not counted, what remains is `waiting`.

    Communication beside gradients on the same links takes longer than alone, and a pipeline's stages wait for each
    other: neither is in the terms of the prediction.
    """
    terms, left_s = {}, float(row["iteration_s"])
    for term in _ORDERED:
        terms[term.name] = min(left_s, float(row[f"{term.waited}_s"]))
        left_s -= terms[term.name]
    return terms | {WAITING: left_s if left_s > ROUNDING * row["iteration_s"] else 0.0}
