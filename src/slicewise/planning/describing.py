"""Slicings and what they cost, as a plan."""

from collections.abc import Mapping
from typing import Any

from slicewise.cost.model import CostModel
from slicewise.graph.chunks import with_exact_statistics
from slicewise.graph.rings import with_rings
from slicewise.partition.layout import Slicing
from slicewise.plans.plan import Plan
from slicewise.plans.request import Request
from slicewise.simulate.predicting import predicted_step


def describe(
    model: CostModel,
    slicings: Mapping[str, Slicing],
    *,
    certificate: Mapping[str, object] | None = None,
    baselines: Mapping[str, Mapping[str, object]] | None = None,
    references: Mapping[str, Mapping[str, object]] | None = None,
    request: Request | None = None,
) -> Plan:
    """A plan file's content for given slicings."""
    return plan_of(
        model,
        slicings={layer.name: slicings[layer.name] for layer in model.graph},
        costs={name: cost.to_dict() for name, cost in model.plan_costs(slicings).items()},
        predicted=predicted_step(model, slicings),
        baselines=baselines or {},
        references=references or {},
        certificate=certificate or {},
        request=request,
    )


def plan_of(model: CostModel, **fields: Any) -> Plan:
    """A plan for what the model prices: network, machine, batch and training."""
    graph, cluster = model.graph, model.cluster
    return Plan(
        model=graph.name,
        cluster=cluster.name,
        devices=cluster.devices,
        batch=graph.batch,
        training=model.training,
        cost_model=model.name,
        input_shape=graph.inputs[0].shape[1:],
        axes={axis.name: axis.size for axis in cluster.mesh.axes},
        kinds={layer.name: layer.kind.value for layer in graph},
        graph=with_rings(with_exact_statistics(graph), ()),
        machine=cluster,
        **fields,
    )
