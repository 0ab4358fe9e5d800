"""Where a step's time goes: terms that add up to it, for tables and figures."""

from collections.abc import Mapping
from typing import Any

TERMS = ("compute", "transfer", "sync", "halo", "reduce", "update", "waiting")
MEANING = {"sync": "what is not hidden behind compute", "waiting": "for links that gradients use, or for other stages"}


def step_terms(row: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by term, adding up to `iteration_s`: what is hidden is not counted, what remains is `waiting`.

    Communication beside gradients on the same links takes longer than alone, and a pipeline's stages wait for each
    other: neither is in the terms of the prediction.
    """
    terms, left_s = {}, float(row["iteration_s"])
    for term in TERMS[:-1]:
        terms[term] = min(left_s, float(row["exposed_sync_s" if term == "sync" else f"{term}_s"]))
        left_s -= terms[term]
    return terms | {"waiting": left_s if left_s > 1e-9 * row["iteration_s"] else 0.0}
