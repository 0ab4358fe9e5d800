"""Plans of real networks: no baseline is cheaper, and no small change makes them so."""

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.cost.analytic import AnalyticModel
from slicewise.graph.sources import load_graph
from slicewise.graph.zoo import ZOO
from slicewise.partition.choices import Choices, Floats
from slicewise.partition.legal import Space
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.certificate import Certificate
from slicewise.search.optimum import best_slicings
from slicewise.search.pins import Pins

DRAWS = 1000
# samples per device, where 32 are too many
BATCH = {"unet3d": 1, "cosmoflow": 4, "swin_unetr": 1, "unetr": 1, "weather_swin": 1}
QUICK = [
    *[("lenet5", 2), ("lenet5", 8), ("alexnet", 4), ("alexnet", 8), ("vgg16", 8), ("resnet50", 4)],
    ("inception_v3", 2),
]
ALL = [(name, devices) for name in ZOO for devices in (2, 4, 8, 16, 64)]


@dataclass(frozen=True)
class Planned:
    """The candidates, and the plan and its baselines as choices among them."""

    pool: Candidates
    plan: list[int]
    baselines: dict[str, list[int]]
    certificate: Certificate


@pytest.fixture(
    scope="module",
    params=[pair if pair in QUICK else pytest.param(pair, marks=pytest.mark.long) for pair in ALL],
    ids=lambda pair: f"{pair[0]}-{pair[1]}",
)
def planned(request: pytest.FixtureRequest) -> Planned:
    name, devices = request.param
    cluster = load_cluster("p100-4x4").with_devices(devices)
    model = AnalyticModel(load_graph(name).with_batch(BATCH.get(name, 32) * devices), cluster)
    known, _ = baseline_slicings(model)
    best, certificate = best_slicings(model, Space(), known, memory_limit_bytes=cluster.device.memory_bytes)
    pool = candidates(model, Space(), known, Pins())
    found = {name: rows for name, plan in {"": best, **known}.items() if (rows := pool.rows(plan)) is not None}
    return Planned(pool=pool, plan=found.pop(""), baselines=found, certificate=certificate)


def plan_seconds(pool: Candidates, plans: list[list[int]]) -> Floats:
    """Layers and edges, all plans at once."""
    seconds = sum((vector[list(rows)] for vector, rows in zip(pool.vectors, zip(*plans, strict=True), strict=True)))
    held = [choices.rows(np.array(rows)) for choices, rows in zip(pool.choices, zip(*plans, strict=True), strict=True)]
    for i, j, slot in pool.model.graph.edges:
        seconds = seconds + pool.model.edge_seconds(pool.model.graph.layers[j], slot, held[i], held[j]).diagonal()
    return np.asarray(seconds)


def test_no_baseline_that_fits_is_cheaper_than_the_plan(planned: Planned) -> None:
    pool = planned.pool
    limit = pool.model.cluster.device.memory_bytes
    assert pool.memory(planned.plan)[1] <= limit
    assert planned.baselines
    best_s, *baselines_s = plan_seconds(pool, [planned.plan, *planned.baselines.values()])
    for (name, choice), seconds in zip(planned.baselines.items(), baselines_s, strict=True):
        assert pool.memory(choice)[1] > limit or best_s <= seconds * (1 + 1e-9), name


def test_no_change_of_one_layer_or_of_two_improves_the_plan(planned: Planned) -> None:
    """Every change of one layer; of two neighbours a thousand or more, drawn over all edges."""
    assert planned.certificate.optimal
    pool = planned.pool
    graph, choice = pool.model.graph, planned.plan
    chosen = [choices.rows(np.array([a])) for choices, a in zip(pool.choices, choice, strict=True)]
    seconds = plan_seconds(pool, [choice])[0]
    worse = [vector - vector[a] for vector, a in zip(pool.vectors, choice, strict=True)]
    for i, j, slot in graph.edges:
        before = edge(pool, i, j, slot, pool.choices[i], chosen[j])[:, 0]
        after = edge(pool, i, j, slot, chosen[i], pool.choices[j])[0]
        worse[i], worse[j] = worse[i] + before - before[choice[i]], worse[j] + after - after[choice[j]]
    assert min(float(change.min()) for change in worse) >= -1e-9 * seconds

    chooser = np.random.default_rng(0)
    pairs = dict.fromkeys((i, j) for i, j, _ in graph.edges)
    few = ceil(sqrt(DRAWS / len(pairs)))
    for i, j in pairs:
        one, other = (np.append(chooser.integers(len(pool.choices[node]), size=few), choice[node]) for node in (i, j))
        table = np.zeros((len(one), len(other)))
        for slot in (slot for source, target, slot in graph.edges if (source, target) == (i, j)):
            table += edge(pool, i, j, slot, pool.choices[i].rows(one), pool.choices[j].rows(other))
        together = table - table[:, -1:] - table[-1:, :] + table[-1, -1]
        assert (worse[i][one][:, None] + worse[j][other] + together).min() >= -1e-9 * seconds


def edge(pool: Candidates, i: int, j: int, slot: int, before: Choices, after: Choices) -> Floats:
    return pool.model.edge_seconds(pool.model.graph.layers[j], slot, before, after)
