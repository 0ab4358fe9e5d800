"""A request in, a plan out.

asking       the front door: plan() and pareto(), keywords -> a request (plans/request.py)
fastest      layer-wise: the search, with proof and baselines          named, staged   strategies without a search
frontier     from the fastest to the smallest                          remedies        what would fit where nothing does
modelling    what a request or a plan is priced by                     predicting      the step of a plan
describing   slicings and costs -> Plan
timing       plans by layers that are timed here                       layer_table     times of the user's own
"""

from slicewise.planning.asking import pareto, plan
from slicewise.planning.describing import describe
from slicewise.planning.modelling import model_of
from slicewise.planning.named import baseline_plan
from slicewise.planning.predicting import predict, predicted_of
from slicewise.planning.staged import pipeline_plan

__all__ = [
    "baseline_plan",
    "describe",
    "model_of",
    "pareto",
    "pipeline_plan",
    "plan",
    "predict",
    "predicted_of",
]
