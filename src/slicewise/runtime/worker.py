"""What each rank of `slicewise run` does."""

from dataclasses import dataclass
from typing import Any

import torch

from slicewise.cluster.cluster import load_cluster
from slicewise.errors import PlanError, RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import build_model, load_graph
from slicewise.planning import model_of, predicted
from slicewise.plans import Plan
from slicewise.runtime.batches import Batch
from slicewise.runtime.measure import (
    Contender,
    alternate,
    count_step,
    ddp_contender,
    paired_ratio,
    sliced_contender,
    summary,
    whole_steps,
)
from slicewise.validate.numerics import check_numerics


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    plan: Plan
    iterations: int = 10
    warm_up: int = 2
    check: bool = False
    compare_ddp: bool = False
    seed: int = 0


def run_rank(request: RunRequest, device: torch.device) -> dict[str, Any]:
    """Check, measure, count; every rank returns the same numbers."""
    plan = request.plan
    if plan.training.dtype != "fp32":
        raise PlanError(f"`run` trains in fp32, the plan is for {plan.training.dtype}; use parallelize under autocast")
    if request.check and plan.training.batchnorm == "local":
        raise PlanError(
            "--check compares with one device, whose batch norms see the whole batch; plan with --batchnorm exact"
        )
    torch.manual_seed(request.seed)
    model, _ = build_model(plan.model, plan.input_shape)
    model = model.to(device)
    graph = load_graph(plan.model, plan.input_shape)
    classes = graph.outputs[0].shape[1:2]
    if len(graph.inputs) != 1 or len(graph.outputs) != 1 or classes < (2,):
        raise PlanError(
            f"{plan.model}: `run` trains networks with one input and one output of two or more classes "
            f"(got outputs {', '.join(str(output.shape) for output in graph.outputs)}); use parallelize in a script"
        )
    result: dict[str, Any] = {
        "model": plan.model,
        "devices": plan.devices,
        "batch": plan.batch,
        "dtype": plan.training.dtype,
    }
    if request.check:
        result["check"] = check_numerics(model, graph, plan, request.seed).to_dict()
    samples = Batch.synthetic(graph.with_batch(plan.batch), torch.float32, device, request.seed)
    contenders: list[Contender] = [sliced_contender(model, graph, plan, samples)]
    if request.compare_ddp:
        if plan.batch % plan.devices:
            raise PlanError(
                f"DDP needs a batch that divides over {plan.devices} ranks (got {plan.batch}); leave out --compare"
            )
        contenders.append(ddp_contender(model, samples))
    steps = alternate(contenders, request.iterations, request.warm_up)
    result |= summary(contenders[0], steps["slicewise"])
    result |= count_step(contenders[0])
    result["predicted"] = _predicted(plan, graph)
    if request.compare_ddp:
        result["ddp"] = {
            **whole_steps(contenders[1], steps["ddp"]),
            **count_step(contenders[1]),
            "speedup": paired_ratio(steps["ddp"], steps["slicewise"]),
        }
    return result


def _predicted(plan: Plan, graph: LayerGraph) -> dict[str, Any]:
    """For the plan as it is now, edited or not, on the cluster as described now; nothing where that is gone."""
    try:
        cluster = load_cluster(plan.cluster).with_devices(plan.devices)
    except RequestError:
        return {}
    return predicted(model_of(plan, graph, cluster), plan.slicings)
