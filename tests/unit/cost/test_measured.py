"""Layers that were timed one by one."""

from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cluster.cluster import Cluster, parse_cluster
from slicewise.cluster.freshness import here
from slicewise.cluster.times import LayerTime, keep_times, read_times
from slicewise.cluster.writing import to_toml
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.measured import MeasuredModel
from slicewise.cost.registry import MODELS
from slicewise.cost.training import Training
from slicewise.errors import RequestError, SlicewiseError
from slicewise.graph.dims import Dim
from slicewise.graph.layer import Layer
from slicewise.planning.asking import plan
from tests.builders import machine, small_cnn
from tests.pricing import Stopwatch

TIME = LayerTime(forward_s=1.0, backward_s=2.0, update_s=0.5)
GRAPH = small_cnn(8)
CONV = "conv0"


def timed(*slicings: Dim | None, cluster: Cluster = machine(2), training: Training = Training()) -> MeasuredModel:  # noqa: B008
    """With times of a convolution under these."""
    model = MeasuredModel(GRAPH, cluster, training)
    times = {model.key(GRAPH[CONV], (dim,)): TIME for dim in slicings}
    return replace(model, cluster=replace(cluster, times={key: time for key, time in times.items() if key}))


def test_a_timed_layer_takes_its_time_and_others_what_they_took() -> None:
    model, plain = timed(Dim.N), AnalyticModel(GRAPH, machine(2))
    cost = model.layer_cost(GRAPH[CONV], (Dim.N,))
    assert (cost.forward_s, cost.backward_s, cost.update_s) == (1.0, 2.0, 0.5)
    other = model.layer_cost(GRAPH[CONV], (Dim.F,))
    assert other == plain.layer_cost(GRAPH[CONV], (Dim.F,))
    assert cost.sync_s == plain.layer_cost(GRAPH[CONV], (Dim.N,)).sync_s


def test_half_a_batch_is_a_part_of_a_whole_one() -> None:
    model = timed(Dim.N)
    half = MeasuredModel(GRAPH.with_batch(4), model.cluster)
    assert half.layer_cost(half.graph[CONV], (None,)).forward_s == 1.0


def test_times_of_one_training_are_not_those_of_another() -> None:
    model = timed(Dim.N)
    adam = MeasuredModel(GRAPH, model.cluster, Training(optimizer="adam"))
    assert adam.layer_cost(GRAPH[CONV], (Dim.N,)).forward_s < 1.0


def test_an_operator_with_another_number_is_another_one() -> None:
    model = timed(Dim.N)
    pool = next(layer for layer in GRAPH if layer.kind == "pool")

    def normed(weight: str, eps: float) -> Layer:
        arguments = {"input": {"input": 0}, "weight": {"weight": weight}, "eps": eps}
        return replace(pool, options={"op": "aten.norm", "arguments": arguments})

    strict, loose, renamed = normed("w", 1e-5), normed("w", 1e-3), normed("v", 1e-5)
    assert model.key(strict, (Dim.N,)) != model.key(loose, (Dim.N,))
    assert model.key(strict, (Dim.N,)) == model.key(renamed, (Dim.N,))


def test_recomputed_layers_run_forward_twice() -> None:
    training = Training(recompute=True)
    model = MeasuredModel(GRAPH, machine(2), training)
    pool = next(layer for layer in GRAPH if layer.kind == "pool")
    key = model.key(pool, (Dim.N,))
    assert key is not None
    known = replace(model, cluster=replace(machine(2), times={key: TIME}))
    assert known.layer_cost(pool, (Dim.N,)).backward_s == 3.0


def test_untimed_names_what_is_missing() -> None:
    slicings = dict.fromkeys(GRAPH.index, (Dim.N,))
    before, after = (timed(*dims).untimed(slicings) for dims in ((), (Dim.N,)))
    assert set(before) - set(after) == {timed().key(GRAPH[CONV], (Dim.N,))}


def test_times_survive_their_file_and_newer_ones_win(tmp_path: Path) -> None:
    machine_now = here(2)
    assert read_times(tmp_path, machine_now) == {}
    keep_times(tmp_path, machine_now, {"a": TIME, "b": TIME})
    path = keep_times(tmp_path, machine_now, {"b": replace(TIME, update_s=None)})
    assert read_times(tmp_path, machine_now) == {"a": TIME, "b": replace(TIME, update_s=None)}
    assert read_times(tmp_path, replace(machine_now, torch="0.4")) == {}
    assert path.exists()


def test_times_are_of_the_machine_as_it_was_calibrated(tmp_path: Path) -> None:
    machine_now, twice = here(2), LayerTime(forward_s=2.0, backward_s=6.0, update_s=0.5)
    keep_times(tmp_path, machine_now, {"a": twice}, reference_s=0.1)
    slower = read_times(tmp_path, machine_now, reference_s=0.2)  # the same work took twice as long this time
    assert slower["a"] == LayerTime(forward_s=4.0, backward_s=12.0, update_s=1.0)
    keep_times(tmp_path, machine_now, {"b": twice}, reference_s=0.2)
    assert read_times(tmp_path, machine_now, reference_s=0.1) == {"a": twice, "b": twice.over(2.0)}
    assert read_times(tmp_path, machine_now)["b"] == twice  # nothing to compare with: as they are


def test_times_of_another_release_are_refused(tmp_path: Path) -> None:
    machine_now = here(2)
    path = keep_times(tmp_path, machine_now, {"a": TIME})
    path.write_text('{"schema_version": 7}')
    with pytest.raises(SlicewiseError, match="schema_version"):
        read_times(tmp_path, machine_now)


def test_a_cluster_file_carries_times() -> None:
    cluster = replace(machine(2), times={"conv2d/1/2": TIME})
    assert parse_cluster(to_toml(cluster), "mine.toml").times == cluster.times


def table(folder: Path, *lines: str) -> Path:
    path = folder / "times.csv"
    path.write_text("\n".join(["layer,slicing,shape,forward_s,backward_s,update_s", *lines]))
    return path


def test_a_users_own_table_decides_the_plan(tmp_path: Path) -> None:
    lines = [
        f"{CONV},{told},,{forward_s},0.1,0.1" for told, forward_s in (("N2", 9), ("whole", 9), ("H2", 9), ("W2", 9))
    ]
    path = table(tmp_path, *lines, f"{CONV},F2,,0.001,0.001,")
    made = plan(GRAPH, machine(2), cost="measured", layer_times=path, forbid=[f"{CONV}=C"])
    assert made.slicings[CONV] == (Dim.F,)
    assert made.costs[CONV]["forward_s"] == 0.001
    assert made.cost_model == "measured"


def test_a_shape_speaks_for_every_slicing_that_has_it(tmp_path: Path) -> None:
    shape = GRAPH[CONV].shape
    part = "x".join(map(str, (shape[0] // 2, *shape[1:])))
    path = table(tmp_path, f"{CONV},,{part},7,8,")
    made = plan(GRAPH, machine(2), cost="measured", layer_times=path, strategy="data")
    assert (made.costs[CONV]["forward_s"], made.costs[CONV]["backward_s"]) == (7.0, 8.0)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nothing,N2,,1,1,", "unknown layer .line 2. 'nothing'|nothing"),
        (f"{CONV},N3,,1,1,", "line 2: conv0 has no slicing 'N3'; choose from "),
        (f"{CONV},,,1,1,", "line 2: conv0: give a slicing"),
        (f"{CONV},,3xx,1,1,", "shape must look like 8x64x56x56"),
        (f"{CONV},N2,,-1,1,", "line 2: forward_s"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(line: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=told):
        plan(GRAPH, machine(2), cost="measured", layer_times=table(tmp_path, line))


def test_layers_are_timed_only_where_the_machine_is() -> None:
    with pytest.raises(RequestError, match="times layers on the machine that was calibrated, which toy is not"):
        plan(GRAPH, machine(2), cost="measured")
    with pytest.raises(RequestError, match="does not use `profile_budget`"):
        plan(GRAPH, machine(2), profile_budget="1min")


def test_layers_are_timed_for_any_model_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, Stopwatch.name, Stopwatch)
    with pytest.raises(RequestError, match="times layers on the machine that was calibrated, which toy is not"):
        plan(GRAPH, machine(2), cost="stopwatch", profile_budget="1min")
