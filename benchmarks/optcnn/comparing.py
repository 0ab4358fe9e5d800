"""Ours beside the paper's: rows, and what they add up to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from benchmarks.optcnn.paper import BATCH_PER_GPU, GPUS, NETWORKS, STRATEGIES, Bar, bars
from benchmarks.optcnn.predicting import Side, StrategyFigures, model_of, prediction, predictions, scale_for
from slicewise.graph.kind import Trait


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    network: str
    strategy: str
    gpus: int
    paper: Bar
    ours: StrategyFigures

    @property
    def speed_error(self) -> float:
        return self.ours.images_per_s / self.paper.images_per_s - 1

    @property
    def step_error(self) -> float:
        """(estimated - measured) / measured seconds of a step, as the paper's table 4 has it."""
        return self.paper.images_per_s / self.ours.images_per_s - 1

    @property
    def bytes_error(self) -> float:
        assert self.paper.gib is not None
        return self.ours.gib / self.paper.gib - 1


def compare(side: Side, gpus: Sequence[int] = GPUS) -> list[Row]:
    """Every bar on several GPUs; one GPU is what compute is scaled to."""
    reported = bars()
    rows = []
    for network in NETWORKS:
        scale = scale_for(side, network, reported[network, "data", 1].images_per_s)
        for count in gpus:
            found = predictions(side, network, count, scale)
            rows += [
                Row(network=network, strategy=name, gpus=count, paper=reported[network, name, count], ours=found[name])
                for name in STRATEGIES
            ]
    return rows


def error_alone(side: Side, network: str) -> float:
    """The same on one GPU, with nothing scaled to it."""
    model = model_of(side, network, 1)
    images_per_s = prediction(model, {layer.name: () for layer in model.graph}).images_per_s
    return bars()[network, "data", 1].images_per_s / images_per_s - 1


def mean_error(rows: Iterable[Row]) -> float:
    errors = [abs(row.speed_error) for row in rows]
    return sum(errors) / len(errors)


def misordered(rows: Sequence[Row]) -> tuple[list[tuple[Row, Row]], int]:
    """Pairs of strategies that are not in the paper's order (ties are not), and how many pairs there are."""
    pairs = [
        (one, other) for one, other in combinations(rows, 2) if (one.network, one.gpus) == (other.network, other.gpus)
    ]
    wrong = [
        (one, other)
        for one, other in pairs
        if (one.paper.images_per_s - other.paper.images_per_s) * (one.ours.images_per_s - other.ours.images_per_s) <= 0
    ]
    return wrong, len(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Layer-wise over the best other strategy on the most GPUs."""

    paper: float
    ours: float

    @property
    def error(self) -> float:
        return self.ours / self.paper - 1


def lead(rows: Iterable[Row], network: str) -> Lead:
    most = {row.strategy: row for row in rows if row.network == network and row.gpus == GPUS[-1]}
    layerwise, others = most["layerwise"], [row for name, row in most.items() if name != "layerwise"]
    return Lead(
        paper=layerwise.paper.images_per_s / max(row.paper.images_per_s for row in others),
        ours=layerwise.ours.images_per_s / max(row.ours.images_per_s for row in others),
    )


def best_fitted_error(rows: Sequence[Row]) -> float:
    """The least mean error of any t_X that is bytes over a bandwidth, free for every GPU count; plans as they are.

    A bound for what another bandwidth could do, not a prediction: nothing else here is fitted to the bars.
    """
    moved = [row for row in rows if row.strategy in ("filter", "owt")]
    total = sum(abs(row.speed_error) for row in rows if row not in moved)
    for gpus in {row.gpus for row in moved}:
        total += min(
            sum(
                abs(_at_rate(row, s_per_byte).images_per_s / row.paper.images_per_s - 1)
                for row in moved
                if row.gpus == gpus
            )
            for s_per_byte in [0.0, *np.geomspace(1e-16, 1e-8, 4000)]
        )
    return total / len(rows)


def _at_rate(row: Row, s_per_byte: float) -> Bar:
    cost = row.ours.cost
    step_s = cost.compute_s + cost.sync_s + cost.transfer_bytes * s_per_byte
    return Bar(images_per_s=BATCH_PER_GPU * row.gpus / step_s, gib=row.ours.gib)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """What slicing every layer by output channel must bring into every node, whatever the schedule."""

    node_bytes: float  # forward and backward
    link_s: float
    paper_step_s: float


def least_gather(side: Side, network: str, gpus: int) -> Gather:
    """Every product reads all channels: what other nodes made enters once, and its gradient leaves once."""
    model = model_of(side, network, gpus)
    outer = model.cluster.tiers[0]
    read = sum(
        BATCH_PER_GPU * gpus * 4 * prod(layer.input_shapes[0][1:])
        for layer in model.graph
        if layer.kind.has(Trait.PRODUCT) and model.returns_gradient(layer, 0)
    )
    node_bytes = 2 * read * (outer.size - 1) / outer.size
    step_s = BATCH_PER_GPU * gpus / bars()[network, "filter", gpus].images_per_s
    return Gather(node_bytes=node_bytes, link_s=node_bytes / outer.bytes_per_s, paper_step_s=step_s)
