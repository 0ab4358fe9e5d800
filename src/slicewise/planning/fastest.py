"""The slicing of every layer that makes one training step fastest, with proof and baselines.

model_for            graph, machine and training -> what everything costs
candidates           every slicing that may be chosen, and its price           search/candidates.py
best_of              the optimum by the sum of terms, and its certificate      search/optimum.py
simulated_bound      beside it: what no plan's step goes below                 search/reweighting.py
best_step            from there to the fastest step with overlap simulated     search/best_step.py
worth_trying         keys of attention passed round instead of gathered        planning/rings.py
describe             the plan, beside the baselines
_price_again         the same plan by an evaluator that shares no code         cost/recost.py
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from slicewise.cluster.cluster import Cluster
from slicewise.cost.model import CostModel
from slicewise.cost.prediction import Prediction
from slicewise.cost.recost import recost
from slicewise.cost.recount import recount_memory
from slicewise.cost.registry import model_named
from slicewise.cost.training import Training
from slicewise.errors import InfeasibleError, MemoryLimitError, RequestError, SlicewiseError, UnknownName
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.planning.describing import describe
from slicewise.planning.modelling import model_for
from slicewise.planning.references import references, told
from slicewise.planning.remedies import remedies
from slicewise.planning.rings import possible_rings, with_used_rings, worth_trying
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.search.baselines import baseline_slicings
from slicewise.search.beside import Beside
from slicewise.search.best_step import BestStep, best_step
from slicewise.search.candidates import candidates
from slicewise.search.deadline import over
from slicewise.search.descent import BUCKETS
from slicewise.search.optimum import best_of
from slicewise.search.pins import Pins
from slicewise.search.registry import search_named
from slicewise.search.reweighting import simulated_bound
from slicewise.search.solver import Progress, Settings, entries
from slicewise.simulate.predicting import predicted_step
from slicewise.units import ROUNDING

OBJECTIVES = ("time", "memory")
_WIDE_GAP, _EXPOSED = 0.05, 0.02  # between step and bound; of the step
_LARGE = 2e6  # entries of tables that keep a second core busy for longer than it takes to start


def fastest_plan(graph: LayerGraph, cluster: Cluster, request: Request, progress: Progress) -> Plan:
    """For the batch that `graph` has.

    Searched with attention's keys gathered, and where that takes a share of the step, or nothing fits, with keys passed
    round.
    """
    _check(request)
    searched = partial(_fastest, graph, cluster, request, progress)
    rings = possible_rings(graph) if model_named(request.cost).overlaps else ()
    try:
        gathering = searched(())
    except InfeasibleError as error:
        if rings and isinstance(error.__cause__, MemoryLimitError):
            with suppress(InfeasibleError):
                return searched(rings)
        raise
    if request.objective != "time" or not worth_trying(gathering, rings):
        return gathering
    with suppress(InfeasibleError):
        passing = searched(rings)
        return min(gathering, passing, key=lambda plan: plan.predicted.iteration_s)
    return gathering


def _fastest(graph: LayerGraph, cluster: Cluster, request: Request, progress: Progress, rings: tuple[str, ...]) -> Plan:
    settings = Settings(
        search=request.search,
        time_limit_s=float("inf") if request.time_limit_s is None else request.time_limit_s,
        gap=request.gap,
        progress=progress,
    )
    training = replace(request.training, rings=rings)
    training = training if request.bucket is None else replace(training, bucket_bytes=request.bucket)
    model = model_for(graph, cluster, training, request.cost)
    pins = Pins.parse(request.fix, request.forbid)
    pins.check([layer.name for layer in model.graph])
    found, reasons = baseline_slicings(model)
    asked_bytes = request.memory_limit_bytes
    limit = model.cluster.device.memory_bytes if asked_bytes is None else asked_bytes
    judged = request.objective == "time" and model.overlaps  # by the step that is run
    began_s = time.perf_counter()
    pool = candidates(model, request.space, found, pins)
    priced_s = time.perf_counter() - began_s
    bounding = partial(simulated_bound, pool, found, limit)
    with Beside(bounding, settings, worth_it=judged and sum(entries(model, pool.choices)) > _LARGE) as beside:
        try:
            slicings, certificate = best_of(
                pool,
                request.space,
                found,
                settings=settings,
                pins=pins,
                memory_limit_bytes=limit,
                objective=request.objective,
            )
        except MemoryLimitError as error:
            raise InfeasibleError(f"{error}{remedies(model, limit, request.space, pins)}") from error
        began_s = time.perf_counter()
        patience_s = max(1.0, (certificate.tables_s + certificate.search_s) / 2)
        bound = beside.result(min(patience_s, (settings.deadline_s - began_s) / 2)) if judged else None
    certificate = replace(certificate, tables_s=certificate.tables_s + priced_s)
    proof = certificate.to_dict()
    if bound:
        stepped = partial(
            best_step,
            optimum=slicings,
            baselines=found,
            settings=settings,
            memory_limit_bytes=limit,
            simplify=request.simplify,
            bound=bound,
        )
        best = stepped(pool)
        size = _other_size(best, bound.lower_s, training) if request.bucket is None else None
        if size is not None and not over(settings.deadline_s):
            other = replace(model, training=replace(training, bucket_bytes=size))
            again = stepped(replace(pool, model=other), before=best)
            if again.simulated_s < best.simulated_s:
                best, model = again, other
        slicings = dict(best.slicings)
        certificate = replace(
            certificate,
            search_s=certificate.search_s + time.perf_counter() - began_s,
            simulated_lower_s=bound.lower_s,
            simulated_gap=max(0.0, 1 - bound.lower_s / best.simulated_s),
        )
        proof = replace(certificate, returned=best.origin).to_dict() | {
            "rescored": {
                "returned": best.origin,
                "candidates": best.candidates,
                "simulated_s": best.simulated_s,
                "optimum_simulated_s": best.optimum_s,
                "fastest_s": best.fastest_s,
                "changes": best.changes,
                "fastest_changes": best.fastest_changes,
            }
        }
    model = with_used_rings(model, slicings)
    baselines = {name: told(partial(predicted_step, model, chosen), limit) for name, chosen in found.items()}
    baselines |= {name: {"feasible": False, "reason": reason} for name, reason in reasons.items()}
    made = describe(
        model,
        slicings,
        certificate=proof,
        baselines=baselines,
        references=references(model, limit),
        request=request,
    )
    if model.recosted:
        _price_again(model, slicings, made.predicted)
    return made


def _other_size(best: BestStep, lower_s: float, training: Training) -> int | None:
    """Of buckets to search with once more: the one that the plan wants. One that wants none of another size may only
    have been found because gradients travelled in large buckets: small ones set out earlier, which favours other plans.
    """
    if best.bucket_bytes != training.bucket_bytes:
        return best.bucket_bytes
    open_still = best.simulated_s > (1 + _WIDE_GAP) * lower_s and best.exposed_s > _EXPOSED * best.simulated_s
    return min(BUCKETS) if open_still and training.bucket_bytes > min(BUCKETS) else None


def _check(request: Request) -> None:
    """Before any work."""
    search_named(request.search)
    if request.objective not in OBJECTIVES:
        raise UnknownName("objective", request.objective, OBJECTIVES)
    if request.space.reductions and not model_named(request.cost).space.reductions:
        raise RequestError(
            f'`cost="{request.cost}"` has no price for sliced input channels; use it with `space="{request.cost}"`'
        )


def _price_again(model: CostModel, slicings: Mapping[str, Slicing], predicted: Prediction) -> None:
    """By an evaluator that shares no code with the tables: where the two differ, a plan is not to be trusted. What
    layers were measured to take is taken as it is; links, memory and sums are worked out again.
    """
    additive_s = predicted.additive_s
    given = None
    if not model.formulated:
        costs = model.plan_costs(slicings)
        given = {name: (cost.forward_s, cost.backward_s, cost.update_s) for name, cost in costs.items()}
    again_s = recost(model.graph, model.cluster, slicings, model.training, given)
    held, again = predicted.peak_memory_bytes, recount_memory(model.graph, model.cluster, slicings, model.training)
    if abs(again_s - additive_s) > ROUNDING * additive_s or again != held:
        raise SlicewiseError(
            f"the plan costs {additive_s!r} s and {held:,} B by the tables, and {again_s!r} s and {again:,} B by the "
            f"independent evaluator; please report this with the command and the model"
        )
