"""The timeline of `slicewise run --trace`: the spans of every step on every rank."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from slicewise.diagnosis.record import FileKind, Floats, Record
from slicewise.errors import RequestError
from slicewise.formats.words import shown
from slicewise.terms import LAYER_TERMS, MOVING
from slicewise.timelines.chrome_file import ChromeEvent

KIND = FileKind(
    name="timeline of `slicewise run --trace`",
    can_tell=(
        "all that the JSON of `slicewise run` can",
        "in which layer a slow rank loses most; more in ui.perfetto.dev",
    ),
    cannot_tell=(
        "which of several links is slow: a collective is as slow as the slowest it uses",
        "a link that is slow from the first step from one that is described as too fast",
        "all ranks slow alike from the first step from a wrong cost model",
        "small changes: timing every kernel costs a little",
        "what goes on inside a pipeline: its ranks wait for each other unseen",
    ),
)
_STEP = re.compile(r"step ([0-9]{1,15})")
_WAITED = [term.name for term in LAYER_TERMS if term.name in MOVING and not term.exposed]  # nothing hides them
_Span = tuple[float, float, str, str]  # start, length, term, layer


def reads(spans: Sequence[ChromeEvent]) -> bool:
    return any(span.cat == "step" and _STEP.fullmatch(span.name) for span in spans)


def read(events: Sequence[ChromeEvent], name: str) -> Record:
    bounds: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)  # rank -> step -> from, to
    spans: dict[int, list[_Span]] = defaultdict(list)
    computed: dict[str, dict[int, float]] = defaultdict(
        lambda: defaultdict(float)
    )  # layer -> rank -> seconds of all steps
    for event in events:
        start, length = event.start_us / 1e6, event.dur / 1e6
        rank, lane, said = _rank(event, name), event.cat, event.args or {}
        numbered = _STEP.fullmatch(event.name) if lane == "step" else None
        if numbered:
            bounds[rank][int(numbered[1])] = (start, start + length)
        elif event.name == "wait for data":
            spans[rank].append((start, length, "data", ""))
        elif event.name == "wait for gradients" or lane in _WAITED:
            spans[rank].append((start, length, _term(event, name), str(said.get("layer", event.name))))
        elif said.get("term") == "update":
            spans[rank].append((start, length, "update", ""))
        elif lane == "compute" and "layer" in said:
            computed[str(said["layer"])][rank] += length
    ranks = sorted(bounds)
    steps = sorted(set.intersection(*(set(bounds[rank]) for rank in ranks)))
    if not steps:
        raise RequestError(f"{name}: its ranks have no step in common")
    tables = [_by_step(steps, bounds[rank], spans[rank]) for rank in ranks]
    step_s = np.array([[bounds[rank][step][1] - bounds[rank][step][0] for rank in ranks] for step in steps])
    return Record(
        kind=KIND,
        files=(name,),
        steps=tuple(steps),
        ranks=tuple(ranks),
        seconds=_terms(tables, step_s),
        layers={layer: [by[rank] / len(steps) for rank in ranks] for layer, by in computed.items()},
    )


def _rank(event: ChromeEvent, name: str) -> int:
    if not isinstance(event.pid, int) or event.pid < 0:
        raise RequestError(f"{name}: pid of {shown(event.name)} is {shown(event.pid)}; must be the number of a rank")
    return event.pid


def _term(event: ChromeEvent, name: str) -> str:
    term = (event.args or {}).get("term", event.cat)
    if term not in MOVING:
        raise RequestError(f"{name}: term of {shown(event.name)} is {shown(term)}; must be one of {', '.join(MOVING)}")
    return str(term)


def _by_step(
    steps: Sequence[int], bounds: dict[int, tuple[float, float]], spans: Sequence[_Span]
) -> list[dict[tuple[str, str, int], float]]:
    """For each step, the length of each span, known by term, layer and how many of the kind came before."""
    starts = np.array([bounds[step][0] for step in steps])
    tables: list[dict[tuple[str, str, int], float]] = [{} for _ in steps]
    before: list[Counter[tuple[str, str]]] = [Counter() for _ in steps]
    for start, length, term, layer in sorted(spans):
        # a batch is waited for before its step
        place = int(np.searchsorted(starts, start, side="right")) - (term != "data")
        if 0 <= place < len(steps):
            number = before[place][term, layer]
            before[place][term, layer] += 1
            tables[place][term, layer, number] = length
    return tables


def _terms(tables: Sequence[list[dict[tuple[str, str, int], float]]], step_s: Floats) -> dict[str, Floats]:
    """A collective takes as long as for the rank that came last; what the others spend in it beyond that, they wait."""
    zeros = np.zeros_like(step_s)
    terms = {term: zeros.copy() for term in ("data", "wait", *MOVING, "update")}
    for place in range(len(step_s)):
        here = [table[place] for table in tables]
        for key in dict.fromkeys(key for table in here for key in table):
            lengths = np.array([table.get(key, 0.0) for table in here])
            if key[0] in ("data", "update"):
                terms[key[0]][place] += lengths
            else:
                terms[key[0]][place] += lengths.min()
                terms["wait"][place] += lengths - lengths.min()
    moving = sum((terms[term] for term in MOVING), zeros)
    return {"step": step_s, "compute": step_s - moving - terms["wait"] - terms["update"], **terms}
