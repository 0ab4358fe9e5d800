"""What a search without any structure still finds: `python -m benchmarks.search.annealing [--seconds 25]`.

From the plan that is returned, random layers and stretches of layers take random slicings, 48 plans at a time; the best
of them is kept if it simulates faster, and now and then if it does not (simulated annealing, from the best again every
200 rounds). It knows nothing of tables, bounds or weights. The plan that is returned may be simpler than the fastest,
at half a percent of its step (`--simplify`).
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

from benchmarks.markdown import show
from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.graph.sources import load_graph
from slicewise.partition.legal import Space
from slicewise.planning import plan
from slicewise.planning.modelling import model_of
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import Candidates, candidates
from slicewise.search.pins import Pins
from slicewise.simulate.many import ManyPlans

AT_ONCE = 48
ROUNDS = 200  # until it starts from the best again, colder
FIRST_HEAT, COOLING = 0.003, 0.7  # of the step
PROMISING = 40  # slicings of a layer, by what they cost alone


@dataclass(frozen=True, slots=True)
class Setting:
    network: str
    cluster: str
    devices: int
    batch: int
    slower: int = 1  # times: the links between nodes

    @property
    def machine(self) -> Cluster:
        cluster = load_cluster(self.cluster).with_devices(self.devices)
        outer, *inner = cluster.tiers
        if self.slower == 1:
            return cluster
        return replace(
            cluster, tiers=(replace(outer, bytes_per_s=outer.bytes_per_s / self.slower, collectives={}), *inner)
        )


SETTINGS = (
    Setting("alexnet", "abci-v100", 32, 1024),
    Setting("vgg16", "p100-4x4", 16, 128, slower=4),
    Setting("vgg16", "dgx-a100", 8, 64, slower=20),
    Setting("vgg16", "abci-v100", 256, 1024),
    Setting("resnet50", "p100-4x4", 16, 64, slower=8),
    Setting("resnet152", "abci-v100", 32, 256, slower=2),
    Setting("inception_v3", "abci-v100", 64, 512),
    Setting("densenet121", "p100-4x4", 8, 32),
    Setting("vit_b_16", "abci-v100", 16, 64, slower=5),
    Setting("swin_t", "dgx-a100", 16, 32, slower=10),
    Setting("unet3d", "abci-v100", 16, 4),
    Setting("unetr", "dgx-a100", 16, 4),
    Setting("cosmoflow", "abci-v100", 64, 64),
    Setting("diffusion_unet", "dgx-a100", 16, 32, slower=5),
    Setting("textcnn", "abci-v100", 8, 512, slower=4),
)


class Annealing:
    """Of plans in one pool, judged by the step that is simulated."""

    def __init__(self, pool: Candidates, memory_bytes: float) -> None:
        self.pool, self.memory_bytes = pool, memory_bytes
        self.many = ManyPlans(pool.model)
        self.numbers = self.many.numbers(pool.choices)
        self.rows_of = [{int(key): row for row, key in enumerate(choices.keys)} for choices in pool.choices]
        self.promising = [timed.total_s.argsort()[:PROMISING].tolist() for timed in pool.seconds]
        self.chance = random.Random(0)
        self.tried = 0

    def steps_s(self, plans: Sequence[list[int]]) -> list[float]:
        self.tried += len(plans)
        columns = [numbers[list(rows)] for numbers, rows in zip(self.numbers, zip(*plans, strict=True), strict=True)]
        return self.many.steps_s(columns, len(plans))

    def from_(self, start: list[int], seconds: float) -> float:
        """The shortest step that was found, of a plan that fits."""
        best, best_s = start, self.steps_s([start])[0]
        now, now_s, heat, rounds = best, best_s, FIRST_HEAT, 0
        ends_s = time.perf_counter() + seconds
        while time.perf_counter() < ends_s:
            near = [self._moved(now) for _ in range(AT_ONCE)]
            near_s, found = min(zip(self.steps_s(near), near, strict=True))
            if self.chance.random() < exp(min(0.0, (1 - near_s / now_s) / heat)):
                now, now_s = found, near_s
            if now_s < best_s and self.pool.memory(now)[1] <= self.memory_bytes:
                best, best_s = now, now_s
            rounds += 1
            if rounds % ROUNDS == 0:
                now, now_s, heat = best, best_s, heat * COOLING
        return best_s

    def _moved(self, plan: list[int]) -> list[int]:
        moved = list(plan)
        for _ in range(1 if self.chance.random() < 0.7 else 2):
            self._move(moved)
        for tie in self.pool.model.graph.ties:
            for node in tie[1:]:
                moved[node] = moved[tie[0]]
        return moved

    def _move(self, plan: list[int]) -> None:
        """One layer, or a stretch from it on: to a slicing of its own, or to one that another layer has."""
        first = self.chance.randrange(len(plan))
        if self.chance.random() < 0.35:
            anything = range(len(self.pool.choices[first]))
            plan[first] = self.chance.choice(self.promising[first] if self.chance.random() < 0.8 else anything)
            return
        source = first if self.chance.random() < 0.5 else self.chance.randrange(len(plan))
        row = plan[source] if self.chance.random() < 0.5 else self.chance.choice(self.promising[source])
        key = int(self.pool.choices[source].keys[row])
        for node in range(first, min(len(plan), first + 1 + int(self.chance.expovariate(1 / 8)))):
            plan[node] = self.rows_of[node].get(key, plan[node])


def row(setting: Setting, seconds: float) -> list[str]:
    graph, cluster = load_graph(setting.network), setting.machine
    made = plan(graph, cluster, batch=setting.batch)
    model = model_of(made, graph.with_batch(setting.batch), cluster)
    known = {**baseline_slicings(model)[0], "returned": made.slicings}
    pool = candidates(model, Space(), known, Pins())
    annealing = Annealing(pool, cluster.device.memory_bytes)
    start = pool.rows(made.slicings)
    assert start is not None, "the plan is of the pool"
    step_s = made.predicted.iteration_s
    found_s = annealing.from_(start, seconds)
    links = f", links / {setting.slower}" if setting.slower > 1 else ""
    return [
        f"{setting.network}, {setting.cluster} x {setting.devices}, batch {setting.batch:,}{links}",
        f"{1000 * step_s:.2f} ms",
        f"{1000 * found_s:.2f} ms",
        f"{annealing.tried:,}",
        f"{max(0.0, 1 - found_s / step_s):.2%}",
        f"{made.certificate['simulated_gap']:.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25.0, help="of annealing, for each setting (default: 25)")
    parser.add_argument("--only", help="a network (default: all)")
    options = parser.parse_args()
    chosen = [setting for setting in SETTINGS if options.only in (None, setting.network)]
    show(
        "Annealing from the plan that is returned",
        ["setting", "returned", "annealed", "plans tried", "shorter by", "proven gap"],
        (row(setting, options.seconds) for setting in chosen),
    )


if __name__ == "__main__":
    main()
