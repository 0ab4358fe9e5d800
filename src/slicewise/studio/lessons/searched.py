"""Plans of the layer-wise lessons: what the search finds, what each layer would choose by itself, what both cost."""

from collections.abc import Callable, Mapping
from math import log10
from typing import Any

from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.graph.kind import Trait
from slicewise.graph.sources import load_graph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import legal_choices
from slicewise.partition.spelling import degrees, spelled
from slicewise.planning.asking import requested
from slicewise.planning.modelling import model_of
from slicewise.plans.request import Request
from slicewise.simulate.predicting import predicted_step
from slicewise.studio.lessons.machine import NETWORK, machine

COUNTS = (4, 8, 16)
SAMPLES = (128, 512, 2048)
GIGABYTES_PER_S = 5


def searched_tables(progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """`tables["512"]["8"]`: batch 512 on 8 devices."""
    graph = load_graph(NETWORK)
    found: dict[str, Any] = {}
    for batch in SAMPLES:
        for count in COUNTS:
            progress(f"searching the plan of batch {batch} on {count} devices")
            found.setdefault(str(batch), {})[str(count)] = _searched(graph.with_batch(batch), count)
    return found


def _searched(graph: Any, devices: int) -> dict[str, Any]:
    plan = requested(graph, machine(GIGABYTES_PER_S, devices), Request())
    model = model_of(plan, plan.network(), plan.hardware())
    sizes = tuple(plan.axes.values())
    selfish, choices = greedy(model)
    costs, alone = model.plan_costs(plan.slicings), model.plan_costs(selfish)
    moved, moved_alone = _moved(model, costs), _moved(model, alone)
    return {
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind.value,
                "told": spelled(plan.slicings[layer.name], plan.axes),
                "degrees": {d: n for d, n in degrees(plan.slicings[layer.name], sizes).items() if n > 1},
                "seconds": costs[layer.name].total_s,
                "moved": moved[layer.name],
                "alone": {
                    "told": spelled(selfish[layer.name], plan.axes),
                    "seconds": alone[layer.name].total_s,
                    "moved": moved_alone[layer.name],
                },
            }
            for layer in model.graph
            if layer.kind.has(Trait.PRODUCT)
        ],
        "step": plan.predicted.iteration_s,
        "terms": plan.predicted.waited,
        "selfish": predicted_step(model, selfish).iteration_s,
        "selfish_terms": predicted_step(model, selfish).waited,
        "baselines": {
            name: row["iteration_s"] for name, row in plan.baselines.items() if row.get("iteration_s") is not None
        },
        "space_log10": sum(log10(count) for count in choices.values()),
        "optimal": bool(plan.certificate["optimal"]),
        "gap": plan.certificate["gap"],
        "surviving": plan.certificate.get("surviving"),
        "configurations": plan.certificate.get("configurations"),
    }


def _moved(model: CostModel, costs: Mapping[str, Cost]) -> dict[str, float]:
    """Seconds of layout changes on the way from one matrix product to the next, by the latter."""
    found, since_s = {}, 0.0
    for layer in model.graph:
        since_s += costs[layer.name].transfer_s
        if layer.kind.has(Trait.PRODUCT):
            found[layer.name], since_s = since_s, 0.0
    return found


def greedy(model: CostModel) -> tuple[Mapping[str, Slicing], Mapping[str, int]]:
    """Each layer as would be best for it alone, whatever its neighbours do; and how many slicings it has."""
    chosen, counts = {}, {}
    for layer in model.graph:
        choices = legal_choices(layer, model.cluster.mesh)
        own = model.layer_seconds(layer, choices)
        chosen[layer.name] = choices[int(own.total_s.argmin())]
        counts[layer.name] = len(choices)
    return chosen, counts
