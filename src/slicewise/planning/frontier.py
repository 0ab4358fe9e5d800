"""Plans from the fastest to the smallest."""

from slicewise.cluster.cluster import Cluster
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning.describing import describe
from slicewise.planning.modelling import model_for
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.pins import Pins
from slicewise.search.priced import frontier
from slicewise.search.solver import Progress, Settings


def pareto_plans(graph: LayerGraph, cluster: Cluster, request: Request, progress: Progress) -> list[Plan]:
    """No plan of them is beaten in time and memory at once."""
    model = model_for(graph, cluster, request.training)
    pins = Pins.parse(request.fix, request.forbid)
    pins.check([layer.name for layer in model.graph])
    found, _ = baseline_slicings(model)
    pool = candidates(model, request.space, found, pins)
    plans = [rows for chosen in found.values() if (rows := pool.rows(chosen)) is not None]
    points = frontier(pool, plans, Settings(progress=progress))
    return [describe(model, pool.slicings(point.choice), request=request) for point in points]
