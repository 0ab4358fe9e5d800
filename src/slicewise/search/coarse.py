"""A machine with its innermost axes merged: bounds for many slicings at once.

Keep the first k mesh axes and take the devices that differ only along the others for one large device: its links carry
what all of theirs carry, and whatever moves inside it is free. Slicings that agree on the first k axes are one group. A
group is at least as cheap as its cheapest member, and a layout change between groups as between any of their members:
the coarse problem is a lower bound of the fine one, with a fraction of the choices.

A merged device cannot tell which of its links a byte takes. So every tier is at least as quick as those around it: then
less over an outer tier never costs more, and a gather never more than the all-to-all that its members may need. Racks
are left out, for they only cost; but a ring through racks has fewer steps, so latencies shrink by as much as it may.
"""

from dataclasses import replace
from math import prod
from weakref import WeakKeyDictionary

from slicewise.cluster.cluster import COLLECTIVES, Cluster, Tier
from slicewise.cluster.racks import steps_per_member
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.model import CostModel

_MADE: WeakKeyDictionary[CostModel, dict[int, AnalyticModel]] = WeakKeyDictionary()


def coarse_model(model: CostModel, axes: int) -> AnalyticModel:
    """The network on the machine with all but its first `axes` merged; what it has priced serves the next search."""
    made = _MADE.setdefault(model, {})
    if axes not in made:
        made[axes] = AnalyticModel(model.graph, merged(model.cluster, axes), model.training)
    return made[axes]


def merged(cluster: Cluster, axes: int) -> Cluster:
    """`cluster` with all but its first `axes` mesh axes merged."""
    kept, inner = cluster.mesh.axes[:axes], cluster.mesh.axes[axes:]
    together = prod(axis.size for axis in inner)
    tiers: list[Tier] = []
    quickest = 0.0
    for number, tier in enumerate(cluster.tiers):
        size = prod(axis.size for axis in kept if axis.tier == number)
        links = [tier.link(operation) for operation in COLLECTIVES]
        quickest = max(quickest, *(cluster.bytes_per_s(number, operation) for operation in COLLECTIVES))
        latency_s = min(link.latency_s for link in links)
        if tier.racks is not None:
            sizes = [axis.size for axis in cluster.mesh.axes if axis.tier == number]
            latency_s = min(latency_s, *(tier.racks.link(operation).latency_s for operation in COLLECTIVES))
            latency_s *= steps_per_member(sizes, tier.racks.size)
        tiers.append(
            replace(
                tier,
                size=size,
                latency_s=latency_s,
                queue_s=None,
                racks=None,
                bytes_per_s=together * quickest,
                ports=cluster.devices,  # shares are counted already
                collectives={},
            )
        )
    return replace(cluster, tiers=tuple(tiers))
