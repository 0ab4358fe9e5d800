"""Plans from the fastest to the smallest, by the step that is run.

corners      fast and small by the sum of terms: what the search can prove     search/priced.py
baselines    and the plan that `plan` returns: what else may stand on the front
_front       all of them by the step with overlap simulated; what another beats is left out
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from slicewise.cluster.cluster import Cluster
from slicewise.errors import InfeasibleError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning.describing import describe
from slicewise.planning.fastest import fastest_plan
from slicewise.planning.modelling import model_for
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.pins import Pins
from slicewise.search.priced import corners
from slicewise.search.solver import Progress, Settings


def pareto_plans(graph: LayerGraph, cluster: Cluster, request: Request, progress: Progress) -> list[Plan]:
    """None of them is beaten in step and memory at once; the first is no slower than what `plan` returns."""
    fastest: list[Plan] = []
    with suppress(InfeasibleError):  # nothing fits the device: the front then shows how far it is from that
        fastest.append(fastest_plan(graph, cluster, request, progress))
    return _front([*fastest, *_others(graph, cluster, request, fastest, progress)])


def _others(
    graph: LayerGraph, cluster: Cluster, request: Request, fastest: Iterable[Plan], progress: Progress
) -> Iterator[Plan]:
    """The corners, and the baselines that pins allow; with gradients summed as in the fastest plan."""
    training = request.training
    for plan in fastest:
        training = replace(training, bucket_bytes=plan.training.bucket_bytes)
    model = model_for(graph, cluster, training, request.cost)
    pins = Pins.parse(request.fix, request.forbid)
    pins.check([layer.name for layer in model.graph])
    found, _ = baseline_slicings(model)
    pool = candidates(model, request.space, found, pins)
    plans = [tuple(rows) for chosen in found.values() if (rows := pool.rows(chosen)) is not None]
    points = [corner.choice for corner in corners(pool, plans, Settings(progress=progress))]
    for choice in dict.fromkeys([*points, *plans]):
        yield describe(model, pool.slicings(choice), request=request)


def _front(plans: Iterable[Plan]) -> list[Plan]:
    """The fastest first; of plans with one step the smallest."""
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: (plan.predicted.iteration_s, plan.predicted.peak_memory_bytes)):
        if not kept or plan.predicted.peak_memory_bytes < kept[-1].predicted.peak_memory_bytes:
            kept.append(plan)
    return kept
