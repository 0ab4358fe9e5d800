"""An operator that nobody taught us is never priced below what its matrices take."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import slicewise as sw
from slicewise.cluster.cluster import load_cluster
from slicewise.cluster.lines import Line

STEPS, WIDE, HIDDEN = 50, 128, 256
FORWARD_FLOPS_PER_SAMPLE = 2 * STEPS * 4 * HIDDEN * (WIDE + HIDDEN)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(WIDE, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.cells(x)[0]
        scores: Tensor = self.head(hidden[:, -1])
        return scores


@pytest.fixture(scope="module")
def graph() -> sw.LayerGraph:
    with pytest.warns(match="does not know how to slice aten.lstm"):
        return sw.capture(Recurrent(), torch.zeros(4, STEPS, WIDE))


@pytest.mark.parametrize("batch", [64, 4096])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_a_recurrent_layer_takes_what_its_products_take(graph: sw.LayerGraph, batch: int, dtype: str) -> None:
    cluster = load_cluster("dgx-a100")
    (row,) = sw.oracle(graph, cluster, batch=batch, devices=[1], strategies=["serial"], dtype=dtype)
    least_s = 3 * batch * FORWARD_FLOPS_PER_SAMPLE / cluster.device.flops(dtype)
    assert least_s < row.iteration_s < 100 * least_s + 1e-3


def test_plans_are_priced_alike_by_both_evaluators(graph: sw.LayerGraph) -> None:
    for name in ("dgx-a100", "p100-4x4", "abci-v100"):
        plan = sw.plan(graph, name, batch=64, devices=4)  # refused where the second evaluator differs
        cluster = load_cluster(name)
        assert plan.predicted.iteration_s > 3 * 64 * FORWARD_FLOPS_PER_SAMPLE / cluster.device.flops("fp32")


def test_a_calibrated_machine_runs_it_as_a_linear_layer(graph: sw.LayerGraph) -> None:
    cluster = load_cluster("p100-4x4").with_devices(2)
    lines = {"linear": dict.fromkeys(("forward", "backward_input"), Line(s_per_flop=1e-11))}
    lines["copy"] = dict.fromkeys(("forward", "backward_input"), Line(call_s=1e-6))
    machine = replace(cluster, device=replace(cluster.device, layers=lines))
    plan = sw.plan(graph, machine, batch=64, cost="calibrated")
    assert plan.predicted.iteration_s > 3 * 64 * FORWARD_FLOPS_PER_SAMPLE * 1e-11
