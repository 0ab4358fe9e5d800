"""What would fit where nothing does."""

from dataclasses import replace

from slicewise.cluster.cluster import MOST_DEVICES
from slicewise.cost.model import CostModel
from slicewise.cost.training import Training
from slicewise.errors import RequestError
from slicewise.partition.legal import Space
from slicewise.search.candidates import candidates
from slicewise.search.memory import smallest_peak
from slicewise.search.pins import Pins
from slicewise.units import amount


def remedies(model: CostModel, limit: float, space: Space, pins: Pins) -> str:
    """What would fit, each change by itself."""
    graph, cluster, training = model.graph, model.cluster, model.training
    told = []
    changes: dict[str, list[tuple[str, int, int, Training]]] = {
        "recompute": [("`recompute=True`", graph.batch, cluster.devices, replace(training, recompute=True))],
        "devices": [
            (f"`devices={devices}`", graph.batch, devices, training)
            for devices in (cluster.devices << power for power in (1, 2, 3, 4))
            if devices <= MOST_DEVICES
        ],
        "batch": [
            (f"`batch={batch}`", batch, cluster.devices, training)
            for batch in (graph.batch >> power for power in (1, 2, 3, 4))
        ],
    }
    for tried in changes.values():
        for option, batch, devices, changed in tried:
            try:
                machine, sized = cluster.with_devices(devices), graph.with_batch(batch)
                other = type(model)(changed.normalised(sized, devices), machine, changed)
            except RequestError:  # no samples left, or too few for so many devices
                continue
            _, peak = smallest_peak(candidates(other, space, {}, pins))
            if peak <= limit:
                told.append(f"{option} ({amount(peak, 'B')})")
                break
    if told:
        return f"; would fit: {', '.join(told)}"
    return "; nor with `recompute=True`, 16 times the devices or 1/16 the batch"
