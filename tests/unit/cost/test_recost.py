"""Two ways to one number: the planner's seconds, and the page's."""

import ast
import inspect
from dataclasses import replace
from itertools import product

import pytest

from slicewise.cluster.cluster import SOFTWARE, machine_of
from slicewise.cluster.device import load_device
from slicewise.cost import recost as module
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.cost.model import CostModel
from slicewise.cost.recost import recost, recost_terms
from slicewise.cost.training import PLAIN, Training
from slicewise.graph.dims import Dim
from slicewise.graph.sources import load_graph
from slicewise.graph.zoo import ZOO
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.search.baselines import baseline_slicings
from slicewise.search.optimum import best_slicings
from tests.builders import Net, machine, residual_net
from tests.campaigns import sample
from tests.pricing import cost_of

QUICK = ("lenet5", "alexnet", "textcnn", "cosmoflow")
DEVICES = (2, 4, 8, 16)


def model_of(
    network: str, devices: int, training: Training = PLAIN, cluster: str = "p100-4x4", software: str = "plain"
) -> CostModel:
    graph = load_graph(network).with_batch(32 * devices)
    return AnalyticModel(training.normalised(graph, devices), machine_of(cluster, devices, software), training)


def check(model: CostModel, slicings: dict[str, Slicing]) -> None:
    total = cost_of(model, slicings)
    found = recost_terms(model.graph, model.cluster, slicings, model.training)
    for term, seconds in found.items():
        assert seconds == pytest.approx(getattr(total, term), rel=1e-9, abs=1e-15), term
    assert recost(model.graph, model.cluster, slicings, model.training) == pytest.approx(total.total_s, rel=1e-9)


def check_all_plans(model: CostModel) -> None:
    known, _ = baseline_slicings(model)
    best, _ = best_slicings(model, Space(), known)
    for slicings in (best, *known.values()):
        check(model, slicings)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("network", QUICK)
def test_both_agree_on_the_plans_of_small_networks(network: str, devices: int) -> None:
    check_all_plans(model_of(network, devices))


@pytest.mark.long
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("network", sorted(set(ZOO) - set(QUICK)))
def test_both_agree_on_the_plans_of_every_network(network: str, devices: int) -> None:
    check_all_plans(model_of(network, devices))


@pytest.mark.parametrize(
    "network",
    sample(
        ["resnet50", "inception_v3", "densenet121", "unet3d", "vit_b_16"], quick=["inception_v3", "unet3d", "vit_b_16"]
    ),
)
def test_both_agree_on_the_baselines_of_larger_networks(network: str) -> None:
    model = model_of(network, 8)
    for slicings in baseline_slicings(model)[0].values():
        check(model, slicings)


@pytest.mark.parametrize(
    "training",
    [
        Training(dtype="bf16", optimizer="momentum"),
        Training(dtype="tf32", recompute=True),
        Training(dtype="fp16", optimizer="adam", recompute=True, batchnorm="local"),
    ],
    ids=lambda training: f"{training.dtype}-{training.optimizer}",
)
@pytest.mark.parametrize("software", SOFTWARE)
def test_both_agree_on_every_way_to_train(training: Training, software: str) -> None:
    model = model_of("resnet50", 16, training, "dgx-a100", software)
    for slicings in baseline_slicings(model)[0].values():
        check(model, slicings)


@pytest.mark.parametrize("channels", [32, 96])
@pytest.mark.parametrize("groups", [1, 2, 16, 32])
@pytest.mark.parametrize(
    ("device", "dtype"), [("P100", "fp16"), ("V100-16", "fp32"), ("A100-40", "tf32"), ("H100", "bf16")]
)
def test_both_agree_on_groups(channels: int, groups: int, device: str, dtype: str) -> None:
    for stride, kernel, software in product((1, 2), (1, 3), SOFTWARE):
        net = Net()
        x = net.input(8, channels, 12, 12)
        conv = net.conv(x, 32, groups=groups, kernel=kernel, stride=stride, padding=kernel // 2)
        cluster = replace(machine_of("dgx-a100", 4, software), device=load_device(device))
        for dim in (None, Dim.N, Dim.F):
            cut = {layer.name: (dim if layer.name == conv else None,) * len(cluster.mesh.axes) for layer in net.graph}
            check(AnalyticModel(net.graph, cluster, Training(dtype=dtype)), cut)


def test_the_terms_are_those_of_a_cost() -> None:
    graph = residual_net()
    slicings: dict[str, Slicing] = {layer.name: (Dim.H if layer.name == "conv1" else Dim.N,) for layer in graph}
    terms = recost_terms(graph, machine(2), slicings)
    assert all(seconds > 0 for seconds in terms.values())
    assert set(terms) == {name for name in Cost.__slots__ if name.endswith("_s")}
    assert recost(graph, machine(2), slicings) == sum(terms.values())


def test_it_shares_no_code_with_what_it_checks() -> None:
    tree = ast.parse(inspect.getsource(module))
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("slicewise.")
        for alias in node.names
    }
    assert imported == {
        "slicewise.cluster.cluster.Cluster",
        "slicewise.cluster.cluster.Link",
        "slicewise.cluster.cluster.Tier",
        "slicewise.cluster.kernels.Kernels",
        "slicewise.cost.training.PLAIN",
        "slicewise.cost.training.Training",
        "slicewise.graph.kind.Kind",
        "slicewise.graph.layer.Layer",
        "slicewise.graph.layer_graph.LayerGraph",
        "slicewise.graph.window.Window",
        "slicewise.partition.layout.Slicing",
    }
