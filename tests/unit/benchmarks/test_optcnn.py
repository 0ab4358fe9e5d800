"""benchmarks/optcnn: its tables are computed, and its slow truths check the fast answers."""

from functools import cache
from itertools import pairwise, product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from benchmarks.optcnn.comparing import Row, compare, error_alone, lead, least_gather, mean_error, misordered
from benchmarks.optcnn.paper import COST_ERRORS, NETWORKS, STRATEGIES, VGG16_PLAN, bars
from benchmarks.optcnn.predicting import OURS, PAPERS, Side, model_of, scale_for, within_bytes
from benchmarks.optcnn.readings import READINGS, DevicesAtOnce, NodesAtOnce, OneServer
from benchmarks.optcnn.searching import chain, counted_layers, depth_first
from benchmarks.optcnn.tables import cells
from slicewise.cluster.kernels import CONVOLUTIONS
from slicewise.cost.breakdown import Cost
from slicewise.cost.optcnn import OptCnnModel, PaperModel
from slicewise.partition.spelling import spelled
from slicewise.search.baselines import BASELINES
from slicewise.search.elimination import eliminate
from slicewise.search.optimum import best_slicings
from slicewise.search.problem import Problem
from slicewise.simulate.predicting import predicted_step
from tests.campaigns import sample
from tests.pricing import cost_of

README = Path(__file__).parents[3] / "benchmarks" / "optcnn" / "README.md"


@cache
def rows(gpus: int) -> tuple[Row, ...]:
    return tuple(compare(PAPERS, [gpus]))


@pytest.mark.parametrize("gpus", sample([2, 4, 8, 16], quick=[4, 16]))
def test_bytes_of_data_parallelism_and_of_vgg16s_owt_are_the_papers(gpus: int) -> None:
    data = [abs(row.bytes_error) for row in rows(gpus) if row.strategy == "data"]
    assert len(data) == len(NETWORKS)
    assert max(data) <= 0.01
    (owt,) = (row for row in rows(gpus) if row.strategy == "owt" and row.network == "vgg16")
    assert abs(owt.bytes_error) <= 0.03


@pytest.mark.parametrize("gpus", [4, 16])
def test_the_readme_shows_what_the_command_computes(gpus: int) -> None:
    text = README.read_text(encoding="utf-8")
    for row in rows(gpus):
        assert f"| {' | '.join(cells(row))} |" in text


def test_the_error_of_the_cost_model_is_near_the_papers_own() -> None:
    off = [row.step_error for row in rows(4) if row.strategy == "layerwise"]
    assert all(abs(error) <= 0.1 for error in off)
    text = README.read_text(encoding="utf-8")
    for network, error in zip(COST_ERRORS, off, strict=True):
        assert f"| {NETWORKS[network]} | --cost optcnn | {error_alone(PAPERS, network):+.0%} | scaled |" in text
        assert f" | {error:+.0%} | " in text


@pytest.mark.parametrize("network", NETWORKS)
def test_layer_wise_leads_the_others_at_16_gpus_by_what_the_paper_says_within_15_percent(network: str) -> None:
    assert abs(lead(rows(16), network).error) <= 0.15


@pytest.mark.parametrize("side", [PAPERS, OURS])
@pytest.mark.parametrize("network", NETWORKS)
def test_one_gpu_is_as_fast_as_the_papers_and_nothing_else_is_fitted(side: Side, network: str) -> None:
    expected = bars()[network, "data", 1].images_per_s
    model = model_of(side, network, 1, scale_for(side, network, expected))
    found = predicted_step(model, {layer.name: () for layer in model.graph})["samples_per_s"]
    assert found == pytest.approx(expected, rel=1e-6)
    plain = model_of(side, network, 1)
    assert model.cluster.tiers == plain.cluster.tiers
    device, as_shipped = model.cluster.device, plain.cluster.device
    assert {name for name, share in device.efficiency.items() if share != as_shipped.efficiency[name]} == {
        "conv",
        "conv_backward",
        "conv3d",
        "conv3d_backward",
    }
    kernels, fitted = device.kernels, as_shipped.kernels
    assert kernels is not None
    assert fitted is not None
    assert {name for name, share in kernels.simt.efficiency.items() if share != fitted.simt.efficiency[name]} == {
        *CONVOLUTIONS
    }


def test_vgg16_on_4_gpus_slices_linear_layers_as_the_paper_does() -> None:
    (layerwise,) = (row for row in rows(4) if row.network == "vgg16" and row.strategy == "layerwise")
    axes = {"intra0": 2, "intra1": 2}
    found = {name: spelled(slicing, axes) for name, slicing in layerwise.ours.slicings.items()}
    pins = dict(pin.split("=") for pin in VGG16_PLAN)
    by_space = {name for name, slicing in pins.items() if slicing == "H2W2"}
    assert len(by_space) == 4
    assert {name: found[name] for name in pins.keys() - by_space} == {
        name: slicing for name, slicing in pins.items() if name not in by_space
    }
    assert {found[name] for name in by_space} == {"N4"}  # where we part


def random_chain(sizes: list[int]) -> Problem:
    generator = np.random.default_rng(7)
    return Problem(
        vectors=tuple(generator.random(size) for size in sizes),
        matrices={(node, node + 1): generator.random(pair) for node, pair in enumerate(pairwise(sizes))},
    )


@pytest.mark.parametrize("bounded", [False, True])
def test_depth_first_search_finds_the_cheapest_of_all_plans(bounded: bool) -> None:
    problem = random_chain([3, 4, 2, 5])
    seen = depth_first(problem, bounded)
    assert seen.cost == pytest.approx(min(problem.cost(choice) for choice in product(*map(range, problem.sizes))))
    assert problem.cost(seen.choice) == pytest.approx(seen.cost)
    assert seen.leaves == prod(problem.sizes) or (bounded and seen.leaves < prod(problem.sizes))


def test_lenet5_enumerated_and_alexnet_by_branch_and_bound_are_what_elimination_finds() -> None:
    for network, bounded in (("lenet5", False), ("alexnet_optcnn", True)):
        model = model_of(PAPERS, network, 4)
        tables = chain(model, PAPERS.space)
        seen = depth_first(tables, bounded)
        assert eliminate(tables).cost == pytest.approx(seen.cost, rel=1e-9)
        slicings, certificate = best_slicings(model, PAPERS.space, {})
        whole_s = sum(cost.total_s for cost in model.plan_costs(slicings).values())
        assert certificate.optimal
        assert whole_s == pytest.approx(seen.cost, rel=1e-9)  # layers that follow gain nothing by going their own way
        layers, plans_log10 = counted_layers(model, PAPERS.space)
        assert len(tables.sizes) == layers
        assert seen.leaves == prod(tables.sizes) or bounded
        assert 10**plans_log10 == pytest.approx(prod(map(float, tables.sizes)))


def test_order_and_error_are_counted_over_every_pair_and_bar() -> None:
    found = rows(2)
    wrong, pairs = misordered(found)
    assert pairs == len(NETWORKS) * 6
    assert {(one.strategy, other.strategy) for one, other in wrong} == {("owt", "layerwise")}  # the same plan: a tie
    assert mean_error(found) == pytest.approx(sum(abs(row.speed_error) for row in found) / len(found))
    assert {row.strategy for row in found} == set(STRATEGIES)


def test_readings_differ_in_one_term_each() -> None:
    plain = model_of(PAPERS, "alexnet_optcnn", 4)
    slicings = BASELINES["owt"](plain)

    def priced(reading: type[PaperModel]) -> Cost:
        model = reading(plain.graph, plain.cluster, plain.training)
        return cost_of(model, slicings)

    ours, at_once, one_server = priced(OptCnnModel), priced(DevicesAtOnce), priced(OneServer)
    assert at_once.transfer_s == pytest.approx(ours.transfer_s / 4)  # all devices lack the same
    assert at_once.sync_s == ours.sync_s > 0
    assert one_server.transfer_s == ours.transfer_s > 0
    assert one_server.sync_s == pytest.approx(ours.sync_s * 2 * 4 / 3)
    nodes = model_of(PAPERS, "alexnet_optcnn", 16)
    sides = (OptCnnModel, NodesAtOnce, DevicesAtOnce)
    spread = BASELINES["owt"](nodes)
    in_turn, at_nodes, at_devices = (
        cost_of(kind(nodes.graph, nodes.cluster, nodes.training), spread).transfer_s for kind in sides
    )
    assert at_devices < at_nodes < in_turn
    assert READINGS[0].side is PAPERS


def test_vgg16_by_output_channel_cannot_move_its_bytes_in_the_papers_step() -> None:
    least = least_gather(PAPERS, "vgg16", 16)
    assert least.link_s > 4 * least.paper_step_s
    assert least_gather(PAPERS, "alexnet_optcnn", 16).link_s < least.paper_step_s


def test_a_plan_held_to_the_papers_bytes_moves_no_more_and_is_no_faster() -> None:
    (row,) = (row for row in rows(4) if row.network == "alexnet_optcnn" and row.strategy == "layerwise")
    scale = scale_for(PAPERS, row.network, bars()[row.network, "data", 1].images_per_s)
    assert row.paper.gib is not None
    held = within_bytes(PAPERS, row.network, 4, scale, row.paper.gib)
    assert held is not None
    assert held.gib <= row.paper.gib < row.ours.gib
    assert held.images_per_s <= row.ours.images_per_s
