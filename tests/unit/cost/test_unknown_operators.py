"""An operator that nobody taught us is never priced below what its matrices take."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import slicewise as sw
from slicewise.cluster.cluster import load_cluster
from slicewise.cluster.lines import Line
from slicewise.cluster.mesh import Mesh
from slicewise.cost.compute import shares, unknown_flops
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Weight
from slicewise.partition.choices import Choices

STEPS, WIDE, HIDDEN = 50, 128, 256
FORWARD_FLOPS_PER_SAMPLE = 2 * STEPS * 4 * HIDDEN * (WIDE + HIDDEN)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(WIDE, HIDDEN, batch_first=True)
        self.head = nn.Sequential(nn.Linear(HIDDEN, 64), nn.Linear(64, 16))

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


class LookUp(nn.Module):
    """Rows of a table, as a model of its own has them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(50_000, 256))
        self.head = nn.Linear(256, 10)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.head(self.table[rows])
        return scores


class Embedded(LookUp):
    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.head(nn.functional.embedding(rows, self.table))
        return scores


def test_a_look_up_multiplies_nothing() -> None:
    rows = torch.zeros(4, 20, dtype=torch.long)
    with pytest.warns(match="does not know how to slice aten.index"):
        unknown = sw.capture(LookUp(), rows)
    known = sw.capture(Embedded(), rows)
    taken = []
    for graph in (unknown, known):
        (row,) = sw.oracle(graph, "dgx-a100", batch=1024, devices=[1], strategies=["serial"])
        taken.append(row.iteration_s)
    assert 0.5 < taken[0] / taken[1] < 4


@pytest.mark.parametrize(("op", "channels"), [("mine.deformed.default", 16), ("aten.lstm.input", 16), ("aten.roll", 0)])
def test_channels_are_the_extent_that_the_matrix_has_too(graph: sw.LayerGraph, op: str, channels: int) -> None:
    """A window's weights are 16 x 8 x 3 x 3; every one of them meets 4 x 7 x 7 positions."""
    weight = Weight(name="w", shape=(16, 8, 3, 3), dims="****")
    (layer,) = (layer for layer in graph if layer.kind is Kind.OPAQUE)
    layer = replace(layer, shape=(4, 16, 7, 7), dims="b***", weights=(weight,), buffers=(), options={"op": op})
    part = shares(layer, Choices.of([(None,)], Mesh.of({"local": 2})))
    expected = 2 * (4 * 7 * 7) * weight.size if channels else 0
    assert unknown_flops(layer, part, "forward") == expected
    assert unknown_flops(layer, part, "backward_input") == 2 * expected


@pytest.mark.parametrize("strategy", ["filter", "channel", "data+filter", "owt"])
def test_closed_forms_cut_it_by_samples_alone(graph: sw.LayerGraph, strategy: str) -> None:
    """Nobody knows how to cut its channels, so every device of a group runs it whole."""
    (whole,) = sw.oracle(graph, "dgx-a100", batch=64, devices=[1], strategies=["serial"])
    split = (2, 4) if strategy == "data+filter" else None
    (row,) = sw.oracle(graph, "dgx-a100", batch=64, devices=[8], strategies=[strategy], split=split)
    groups = {"data+filter": 2, "owt": 8}.get(strategy, 1)
    assert row.terms is not None
    assert whole.terms is not None
    assert row.terms.compute_s > 0.9 * whole.terms.compute_s / groups


def test_a_calibrated_machine_runs_it_as_a_linear_layer(graph: sw.LayerGraph) -> None:
    cluster = load_cluster("p100-4x4").with_devices(2)
    lines = {"linear": dict.fromkeys(("forward", "backward_input"), Line(s_per_flop=1e-11))}
    lines["copy"] = dict.fromkeys(("forward", "backward_input"), Line(call_s=1e-6))
    machine = replace(cluster, device=replace(cluster.device, layers=lines))
    plan = sw.plan(graph, machine, batch=64, cost="calibrated")
    assert plan.predicted.iteration_s > 3 * 64 * FORWARD_FLOPS_PER_SAMPLE * 1e-11
