"""A machine with its innermost axes merged: bounds for many slicings at once.

Keep the first k mesh axes and take the devices that differ only along the others for one large device: its links carry
what all of theirs carry, and whatever moves inside it is free. Slicings that agree on the first k axes are one group. A
group is at least as cheap as its cheapest member, and a layout change between groups as between any of their members:
the coarse problem is a lower bound of the fine one, with a fraction of the choices.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from slicewise.cluster.cluster import COLLECTIVES, Cluster, Tier
from slicewise.cost.model import CostModel
from slicewise.partition.choices import Choices, Floats, Ints
from slicewise.search.problem import Problem, edge_tables


@dataclass(frozen=True)
class Grouped:
    """The coarse problem, and which group every choice of every layer is in."""

    problem: Problem
    group: tuple[Ints, ...]

    def above_group(self, vectors: Sequence[Floats]) -> list[Floats]:
        """What each choice costs more than the cheapest of its group."""
        return [
            vector - least[group]
            for vector, least, group in zip(vectors, self.problem.vectors, self.group, strict=True)
        ]


def grouped(model: CostModel, axes: int, choices: Sequence[Choices], vectors: Sequence[Floats]) -> Grouped:
    """The problem on the first `axes` mesh axes."""
    cluster = merged(model.cluster, axes)
    coarse_model = CostModel(model.graph, cluster, model.training)
    groups, leasts, members = [], [], []
    for rows, vector in zip(choices, vectors, strict=True):
        labels, group = np.unique(rows.labels[:, :axes], axis=0, return_inverse=True)
        least = np.full(len(labels), np.inf)
        np.minimum.at(least, group, vector)
        groups.append(Choices(labels, cluster.mesh))
        leasts.append(least)
        members.append(group)
    return Grouped(Problem(vectors=tuple(leasts), matrices=edge_tables(coarse_model, groups)), tuple(members))


def merged(cluster: Cluster, axes: int) -> Cluster:
    """`cluster` with all but its first `axes` mesh axes merged."""
    kept, inner = cluster.mesh.axes[:axes], cluster.mesh.axes[axes:]
    together = prod(axis.size for axis in inner)
    tiers: list[Tier] = []
    for number, tier in enumerate(cluster.tiers):
        size = prod(axis.size for axis in kept if axis.tier == number)
        links = [tier.link(operation) for operation in COLLECTIVES]
        tiers.append(
            replace(
                tier,
                size=size,
                latency_s=min(link.latency_s for link in links),
                bytes_per_s=together * max(cluster.bytes_per_s(number, operation) for operation in COLLECTIVES),
                ports=cluster.devices,  # shares are counted already
                collectives={},
            )
        )
    return replace(cluster, tiers=tuple(tiers))
