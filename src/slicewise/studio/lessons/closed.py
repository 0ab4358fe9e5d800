"""Tables of the closed forms: strategy -> bandwidth -> batch -> devices -> what a step takes, and what goes into it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from slicewise.cost.training import PLAIN
from slicewise.errors import InfeasibleError
from slicewise.factors import divisors
from slicewise.graph.dims import SPACE
from slicewise.graph.sources import load_graph
from slicewise.strategies.engines import ParadlEngine, chosen
from slicewise.strategies.filter import cut_layers, gathered
from slicewise.strategies.pipeline import project as stages
from slicewise.strategies.setting import Setting, Terms
from slicewise.strategies.space import best_depth, divided, halo_items
from slicewise.studio.lessons.machine import BATCHES, DEVICES, GIGABYTES_PER_S, NETWORK, machine

Row = dict[str, Any]
Question = Callable[[ParadlEngine, int, int], Row]
PLAIN_STRATEGIES = ("data", "filter", "channel", "owt")
HYBRID_STRATEGIES = ("data+filter", "data+spatial")


def closed_tables() -> dict[str, Any]:
    """`tables["data"]["5"]["512"]["8"]` is data parallelism at 5 GB/s, batch 512, 8 devices."""
    engine = ParadlEngine(graph=load_graph(NETWORK), cluster=machine(GIGABYTES_PER_S[0]), training=PLAIN)
    engines = {rate: replace(engine, cluster=machine(rate), profiled=engine.profile) for rate in GIGABYTES_PER_S}
    questions: dict[str, Question] = {
        **{name: partial(_plain, name) for name in PLAIN_STRATEGIES},
        "spatial": lambda e, p, b: _row(lambda: _spatial(e.setting(p, b))),
        "pipeline": lambda e, p, b: _pipeline(e.setting(p, b)),
        **{name: partial(_splits, name) for name in HYBRID_STRATEGIES},
    }

    def table(ask: Question, rate: int) -> dict[str, Any]:
        return {str(batch): {str(count): ask(engines[rate], count, batch) for count in DEVICES} for batch in BATCHES}

    return {name: {str(rate): table(ask, rate) for rate in GIGABYTES_PER_S} for name, ask in questions.items()}


def network_facts() -> dict[str, Any]:
    """Of the lessons' network: what the formulas sum over."""
    engine = ParadlEngine(graph=load_graph(NETWORK), cluster=machine(GIGABYTES_PER_S[0]), training=PLAIN)
    at = engine.setting(1, 1)
    profile = at.profile
    handed_on = gathered(at, cut_layers(at))
    samples = sorted({-(-batch // count) for batch in BATCHES for count in DEVICES})
    products = [
        {
            "name": layer.name,
            "kind": layer.kind.value,
            "x": float(profile.x[position]),
            "y": float(profile.y[position]),
            "w": float(profile.w[position]),
        }
        for position, layer in enumerate(profile.layers)
        if profile.products[position]
    ]
    return {
        "products": products,
        "weights": float(profile.w.sum()),
        "handed_on": float(handed_on.sum()),  # items per sample that products but the last hand on
        "messages": int((handed_on > 0).sum()),
        "update_s": float(at.update_s.sum()),
        "both_s": {str(count): float(at.seconds(count).both.sum()) for count in samples},
        "memory_bytes": int(engine.cluster.device.memory_bytes),
        "cuts": at.profile.cuts.most_stages,
    }


def _row(ask: Callable[[], Terms | tuple[Terms, Row]]) -> Row:
    """What the page needs of a projection, or why there is none."""
    try:
        found = ask()
    except InfeasibleError as error:
        return {"reason": str(error)}
    terms, more = found if isinstance(found, tuple) else (found, {})
    named = {
        "compute": terms.compute_s,
        "update": terms.update_s,
        "gradient": terms.gradient_s,
        "layerwise": terms.layerwise_s,
        "halo": terms.halo_s,
        "p2p": terms.p2p_s,
        "memory": terms.memory_bytes,
    }
    kept = {name: float(f"{value:.9g}") for name, value in named.items() if value}
    return {**kept, "step": float(f"{terms.iteration_s:.9g}"), "split": terms.split, **more}


def _spatial(at: Setting) -> tuple[Terms, Row]:
    """The best cut of space, with what its halo and its gather carry."""
    every = [(*best_depth(at, found), found.degrees) for found in divided(at, at.batch, at.devices)]
    terms = chosen([terms for terms, _, _ in every], at.profile.cluster.device.memory_bytes)
    inside, degrees = next((inside, degrees) for other, inside, degrees in every if other is terms)
    exchanges, items = 0, 0.0
    for dim in SPACE:
        if degrees.get(dim, 1) > 1:
            halos = np.where(inside, halo_items(at)[dim], 0.0)
            exchanges += int((halos > 0).sum())
            items += float(halos.sum()) * degrees[dim] / at.devices
    last = int(inside.sum()) - 1
    return terms, {
        "exchanges": exchanges,
        "halo_items": items,
        "gathered": float(at.profile.alive[last]),
    }


def _pipeline(at: Setting) -> Row:
    """The best cuts for every number of segments that the batch divides into."""
    try:
        found = list(stages(at))
    except InfeasibleError as error:
        return {"reason": str(error)}
    by_segments: dict[int, list[Terms]] = {}
    for terms in found:
        by_segments.setdefault(_segments(terms), []).append(terms)
    capacity = at.profile.cluster.device.memory_bytes
    rows = {str(count): _one(chosen(terms, capacity)) for count, terms in sorted(by_segments.items())}
    best = chosen(found, capacity)
    return {**_one(best), "segments": rows, "best": _segments(best)}


def _segments(terms: Terms) -> int:
    told = re.search(r"(\d+) segments", terms.split)
    assert told is not None
    return int(told[1])


def _one(terms: Terms) -> Row:
    return _row(lambda: terms)


def _plain(strategy: str, engine: ParadlEngine, devices: int, batch: int) -> Row:
    return _row(lambda: engine.terms(strategy, devices, batch))


def _splits(strategy: str, engine: ParadlEngine, devices: int, batch: int) -> Row:
    """Every p1 x p2, and the best of them."""
    rows = {}
    for split in _pairs(devices):
        rows["x".join(map(str, split))] = _row(partial(engine.terms, strategy, devices, batch, split))
    return {**_plain(strategy, engine, devices, batch), "splits": rows}


def _pairs(devices: int) -> Iterator[tuple[int, int]]:
    for p2 in divisors(devices):
        if 1 < p2 < devices:
            yield devices // p2, p2
