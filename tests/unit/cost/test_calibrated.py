"""Layers as they were measured."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.lines import PIPELINE, STEP, Line
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.calibrated import CalibratedModel, line_kind, runs_plainly
from slicewise.cost.compute import shares
from slicewise.cost.registry import usual_model
from slicewise.cost.training import Training
from slicewise.graph.dims import Dim
from slicewise.graph.sources import load_graph
from slicewise.partition.choices import Choices
from slicewise.partition.legal import legal_choices
from slicewise.planning.asking import plan
from tests.builders import DEVICE, Net, machine, small_cnn
from tests.campaigns import examples

LINE = Line(call_s=1e-5, s_per_flop=1e-10, s_per_item=1e-9, s_per_weight=1e-8)
LINES = {
    "window": {"forward": LINE, "backward_input": LINE, "backward_weight": LINE},
    "norm": {"forward": Line(s_per_item=1e-9), "backward_input": Line(s_per_item=2e-9)},
    "shared_norm": {"forward": Line(s_per_item=5e-9), "backward_input": Line(s_per_item=7e-9)},
    "update": {"sgd": Line(call_s=1e-4, s_per_weight=1e-9)},
}
PAIR = replace(machine(2), device=replace(DEVICE, layers=LINES))


def seconds(name: str, dim: Dim | None, net: Net, model: type = CalibratedModel) -> tuple[float, float, float]:
    made = model(net.graph, PAIR)
    found = made.layer_seconds(net.graph[name], Choices.of([(dim,)], PAIR.mesh))
    return float(found.forward_s[0]), float(found.backward_s[0]), float(found.update_s[0])


def test_a_layer_takes_what_the_line_of_its_kind_says() -> None:
    net = Net()
    name = net.conv(net.relu(net.conv(net.input(4, 3, 8, 8), 3)), 6)
    net.output(net.relu(name))
    layer = net.graph[name]
    assert line_kind(layer) == "window"
    weights, items = sum(weight.size for weight in layer.weights), 2 * 3 * 8 * 8 + 2 * 6 * 8 * 8
    expected = 1e-5 + 1e-10 * layer.flops() / 2 + 1e-9 * items + 1e-8 * weights
    forward_s, backward_s, update_s = seconds(name, Dim.N, net)
    assert forward_s == pytest.approx(expected)
    assert backward_s == pytest.approx(2 * expected)
    assert update_s == pytest.approx(1e-4 * len(layer.weights) + 1e-9 * weights)


def test_a_norm_across_ranks_is_a_kind_of_its_own() -> None:
    net = Net()
    name = net.norm(net.conv(net.input(4, 3, 8, 8), 4))
    net.output(net.relu(name))
    items = 2 * 4 * 4 * 8 * 8 / 2
    assert seconds(name, Dim.F, net)[:2] == pytest.approx((1e-9 * items, 2e-9 * items))
    assert seconds(name, Dim.N, net)[:2] == pytest.approx((5e-9 * items, 7e-9 * items))


@given(
    samples=st.sampled_from([1, 2, 15, 16]),
    channels=st.sampled_from([1, 4, 32, 128]),
    sides=st.tuples(*[st.integers(5, 40)] * 3),
    kernel=st.sampled_from([1, 3, 5]),
)
@examples(200)
def test_the_plain_kernel_of_volumes_runs_where_pytorch_takes_it(
    samples: int, channels: int, sides: tuple[int, int, int], kernel: int
) -> None:
    net = Net()
    name = net.conv(net.input(samples, channels, *sides), 4, kernel=kernel, padding=kernel // 2)
    part = shares(net.graph[name], Choices.of([(None,)], PAIR.mesh))
    x, weight = torch.empty(samples, channels, *sides), torch.empty(4, channels, *[kernel] * 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        chosen = torch._C._select_conv_backend(x, weight, None, [1] * 3, [kernel // 2] * 3, [1] * 3, False, [0] * 3, 1)
    finally:
        torch.set_num_threads(threads)
    assert bool(runs_plainly([kernel] * 3, part)) == (chosen.name == "Slow3d")


def test_a_volume_that_the_plain_kernel_runs_is_a_kind_of_its_own() -> None:
    lines = {"volume": {"forward": Line(call_s=1.0)}, "plain_volume": {"forward": Line(call_s=3.0)}}
    pair = replace(PAIR, device=replace(DEVICE, layers=lines))
    net = Net()
    name = net.conv(net.input(2, 4, 8, 8, 8), 4)
    taken = CalibratedModel(net.graph, pair).layer_seconds(
        net.graph[name], Choices.of([(None,), (Dim.N,), (Dim.H,)], pair.mesh)
    )
    assert taken.forward_s.tolist() == [1.0, 3.0, 1.0]


@pytest.mark.parametrize(
    ("op", "kind"),
    [("aten.relu.default", "elementwise"), ("aten.elu.default", "smooth"), ("aten.dropout.default", "smooth")],
)
def test_functions_of_many_instructions_are_known_by_name(op: str, kind: str) -> None:
    net = Net()
    name = net.relu(net.input(4, 3, 8, 8))
    assert line_kind(replace(net.graph[name], options={"op": op})) == kind


def test_what_was_not_measured_is_priced_as_analytic_prices_it() -> None:
    net = Net()
    name = net.relu(net.conv(net.input(4, 3, 8, 8), 4))
    net.output(name)
    assert seconds(name, Dim.N, net) == seconds(name, Dim.N, net, AnalyticModel)


def test_being_cut_makes_no_layer_cheaper_in_all() -> None:
    graph = small_cnn(8)
    one = replace(PAIR, tiers=machine(1).tiers)
    for layer in graph:
        if not layer.inputs:
            continue
        choices = legal_choices(layer, PAIR.mesh, CalibratedModel.space)
        cut = CalibratedModel(graph, PAIR).layer_seconds(layer, choices)
        whole = CalibratedModel(graph, one).layer_seconds(layer, Choices.of([()], one.mesh))
        assert np.all(2 * cut.forward_s >= whole.forward_s * (1 - 1e-12)), layer.name
        assert np.all(cut.forward_s <= whole.forward_s * (1 + 1e-12)) or layer.statistics


def test_a_machine_whose_layers_were_measured_is_planned_by_them() -> None:
    assert usual_model(PAIR) is CalibratedModel
    assert usual_model(machine(2)) is AnalyticModel
    made = plan(small_cnn(8), PAIR)
    assert made.cost_model == "calibrated"
    assert made.certificate["optimal"]
    assert plan(small_cnn(8), PAIR, cost="analytic").cost_model == "analytic"
    assert plan(small_cnn(8), PAIR, strategy="pipeline").cost_model == "calibrated"


def test_other_dtypes_are_not_measured() -> None:
    half = replace(PAIR, device=replace(PAIR.device, reduced_flops_per_s={"bf16": 2e12}))
    graph, training = small_cnn(8), Training(dtype="bf16")
    models = (CalibratedModel(graph, half, training), AnalyticModel(graph, half, training))
    calibrated, analytic = (model.whole_seconds() for model in models)
    assert calibrated == analytic


@pytest.mark.parametrize(
    ("layer", "own", "other"),
    [
        ("encoder.layers.encoder_layer_0.self_attention.scaled_dot_product_attention", "attention", "product"),
        ("encoder.layers.encoder_layer_0.ln_1", "layer_norm", "norm"),
    ],
)
def test_kinds_that_older_profiles_do_not_have_take_the_line_of_their_relatives(
    layer: str, own: str, other: str
) -> None:
    graph = load_graph("vit_b_16").with_batch(2)

    def forward_s(**lines: float) -> float:
        told = {kind: {"forward": Line(call_s=call_s)} for kind, call_s in lines.items()}
        cluster = replace(machine(2), device=replace(DEVICE, layers=told))
        made = CalibratedModel(graph, cluster).layer_seconds(graph[layer], Choices.of([(Dim.N,)], cluster.mesh))
        return float(made.forward_s[0])

    assert line_kind(graph[layer]) == own
    assert forward_s(**{other: 2.0}) == 2.0
    assert forward_s(**{other: 2.0, own: 3.0}) == 3.0


def test_a_pipeline_pays_for_its_step_once_and_for_every_turn() -> None:
    def iteration_s(line: Line) -> float:
        lines = {**LINES, STEP: {"forward": Line(call_s=5.0), PIPELINE: line}}
        cluster = replace(PAIR, device=replace(DEVICE, layers=lines))
        made = plan(small_cnn(8), cluster, strategy="pipeline", cost="calibrated", segments=4)
        return float(made.predicted["iteration_s"])

    free_s = iteration_s(Line())
    assert free_s < 5.0  # sliced layers have a step of their own
    assert iteration_s(Line(call_s=3e-3)) == pytest.approx(free_s + 3e-3)
    assert iteration_s(Line(s_per_item=1e-3)) == pytest.approx(free_s + 5e-3, rel=0.02)  # 4 micro-batches, 2 stages


@pytest.mark.parametrize("strategy", ["data", "layerwise", "pipeline"])
def test_what_a_step_costs_beside_its_layers_is_paid_once(strategy: str) -> None:
    stepping = replace(PAIR, device=replace(DEVICE, layers={**LINES, STEP: {"forward": Line(call_s=3e-3)}}))
    count = 4 if strategy == "pipeline" else None
    without, made = (
        plan(small_cnn(8), cluster, strategy=strategy, cost="calibrated", segments=count)
        for cluster in (PAIR, stepping)
    )
    assert made.predicted["iteration_s"] == pytest.approx(without.predicted["iteration_s"] + 3e-3)
    assert made.predicted["compute_s"] == pytest.approx(without.predicted["compute_s"] + 3e-3)
    assert sum(cost["forward_s"] for cost in made.costs.values()) == pytest.approx(
        sum(cost["forward_s"] for cost in without.costs.values()) + 3e-3
    )
