from dataclasses import replace

import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.breakdown import Cost
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.simulate.step import StepTimeline, simulate_step
from tests.builders import Net, machine
from tests.pricing import cost_of


def two_convs() -> LayerGraph:
    net = Net()
    net.output(net.conv(net.conv(net.input(8, 3, 32, 32), 16), 16))
    return net.graph


def simulated(dim: Dim | None, overlap: float = 1.0) -> tuple[StepTimeline, Cost]:
    graph = two_convs()
    model = AnalyticModel(graph, machine(2, overlap=overlap))
    slicings: dict[str, Slicing] = {layer.name: (dim,) for layer in graph}
    return simulate_step(model, slicings), cost_of(model, slicings)


def test_forward_runs_in_order_and_backward_in_reverse() -> None:
    timeline, _ = simulated(Dim.N)
    order = [(event.name, event.term) for event in timeline.events if event.term in ("forward", "backward")]
    assert order == [("conv0", "forward"), ("conv1", "forward"), ("conv1", "backward"), ("conv0", "backward")]


def test_without_gradients_to_sum_the_step_is_the_sum_of_its_terms() -> None:
    timeline, total = simulated(None)
    assert timeline.exposed_sync_s == 0
    assert timeline.seconds == pytest.approx(total.total_s)


def test_the_last_bucket_waits_for_the_last_gradient_and_is_exposed() -> None:
    """One bucket for both layers: it can only start when backward has ended."""
    timeline, total = simulated(Dim.N)
    (sync,) = [event for event in timeline.events if event.lane == "link"]
    backward_end = max(event.stop_s for event in timeline.events if event.term == "backward")
    assert sync.start_s == backward_end
    assert timeline.exposed_sync_s == pytest.approx(sync.stop_s - sync.start_s)
    assert timeline.seconds < total.total_s  # one latency for the bucket, not one for each layer


def test_a_full_bucket_hides_behind_the_rest_of_backward() -> None:
    net = Net()
    features = net.conv(net.input(8, 3, 32, 32), 16)
    net.output(net.linear(net.flatten(net.pool(features)), 2000))  # 8.2 M weights: more than one bucket holds
    slicings: dict[str, Slicing] = {layer.name: (Dim.N,) for layer in net.graph}
    hidden, half, paid = (
        simulate_step(AnalyticModel(net.graph, machine(2, overlap=overlap)), slicings) for overlap in (1.0, 0.5, 0.0)
    )
    link = [event for event in hidden.events if event.lane == "link"]
    assert [event.name for event in link] == ["linear0.bias", "linear0.weight", "conv0.bias"]
    assert hidden.seconds < half.seconds < paid.seconds
    busy_s = sum(event.stop_s - event.start_s for event in link)
    assert paid.exposed_sync_s == pytest.approx(busy_s)
    assert half.exposed_sync_s == pytest.approx((hidden.exposed_sync_s + busy_s) / 2)


def test_a_message_waits_behind_what_a_bucket_has_queued_and_no_longer() -> None:
    """Statistics of the first norm meet the bucket of the linear layer's weights, on the same link."""
    net = Net()
    features = net.norm(net.conv(net.input(8, 3, 32, 32), 16))
    net.output(net.linear(net.flatten(net.pool(features)), 2000))
    slicings: dict[str, Slicing] = {layer.name: (Dim.N,) for layer in net.graph}
    plain = machine(2)

    def step(queue_s: float | None) -> StepTimeline:
        tiers = tuple(replace(tier, queue_s=queue_s) for tier in plain.tiers)
        return simulate_step(AnalyticModel(net.graph, replace(plain, tiers=tiers)), slicings)

    def statistics_s(timeline: StepTimeline) -> float:
        spent = [event.stop_s - event.start_s for event in timeline.events if event.term == "reduce"]
        return sum(spent)

    free, queued, endless = step(None), step(2e-6), step(10.0)
    assert statistics_s(queued) == pytest.approx(statistics_s(free) + 2e-6)  # once: in forward no bucket is under way
    bucket_s = max(event.stop_s - event.start_s for event in free.events if event.lane == "link")
    assert statistics_s(free) + 2e-6 < statistics_s(endless) <= statistics_s(free) + bucket_s
    assert endless.seconds <= free.seconds + bucket_s


def test_updates_come_last() -> None:
    timeline, total = simulated(Dim.N)
    last = timeline.events[-1]
    assert (last.name, last.term) == ("weights", "update")
    assert last.stop_s - last.start_s == pytest.approx(total.update_s)


def test_every_term_of_the_breakdown_is_on_the_devices_line() -> None:
    net = Net()
    net.output(net.norm(net.conv(net.conv(net.input(2, 3, 16, 16), 8), 8)))
    model = AnalyticModel(net.graph, replace(machine(2), overlap=0.0))
    slicings: dict[str, Slicing] = {
        "input0": (Dim.N,),
        "conv0": (Dim.H,),
        "conv1": (Dim.F,),
        "norm0": (Dim.N,),
        "output0": (Dim.N,),
    }
    total = cost_of(model, slicings)
    timeline = simulate_step(model, slicings)
    for term in ("forward", "backward", "transfer", "halo", "reduce", "update"):
        spent_s = sum(event.stop_s - event.start_s for event in timeline.events if event.term == term)
        assert spent_s == pytest.approx(getattr(total, f"{term}_s"))
        assert spent_s > 0


def test_a_bucket_and_a_layout_change_on_one_tier_share_it() -> None:
    """The linear layer's gradients travel while the convolution before it moves its activations over the same links."""
    net = Net()
    features = net.conv(net.input(8, 3, 32, 32), 16)
    net.output(net.linear(net.flatten(net.pool(features)), 2000))
    slicings: dict[str, Slicing] = {layer.name: (Dim.N,) for layer in net.graph}
    apart = simulate_step(AnalyticModel(net.graph, machine(2)), slicings)
    mixed = slicings | {"conv0": (Dim.H,), "pool0": (Dim.H,)}
    model = AnalyticModel(net.graph, machine(2))
    timeline = simulate_step(model, mixed)
    costs = model.plan_costs(mixed)
    link = [event for event in timeline.events if event.lane == "link"]
    moved = [event for event in timeline.events if event.term == "transfer" and event.name == "flatten0"]
    alone_s = 0.5 * costs["flatten0"].transfer_s
    forward, backward = moved
    assert forward.stop_s - forward.start_s == pytest.approx(alone_s)  # no gradients yet
    assert any(event.start_s <= backward.start_s < event.stop_s for event in link)
    assert backward.stop_s - backward.start_s == pytest.approx(2 * alone_s)
    assert all(event.term != "transfer" for event in apart.events)
