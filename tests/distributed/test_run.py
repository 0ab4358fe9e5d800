"""What `slicewise run` measures, counts, checks and draws, on real ranks."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from slicewise.cluster.cluster import load_cluster
from slicewise.cluster.freshness import here
from slicewise.cost.training import Training
from slicewise.diagnosis.readers.files import read_files
from slicewise.equality.sizes import needed_bytes
from slicewise.errors import PlanError, RequestError
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan, pipeline_plan, plan
from slicewise.plans.plan import Plan
from slicewise.running.contenders import check_rival
from slicewise.running.worker import RunRequest, run_rank
from slicewise.search.baselines import BASELINES
from slicewise.strategy import STRATEGIES
from tests.campaigns import sample
from tests.distributed.world import World
from tests.machines import tier, write_cores

MODELS = Path(__file__).parent / "run_models.py"
RESIDUAL, NAMED, SEGMENTATION, TOKENS = (f"{MODELS}:{name}" for name in ("residual", "named", "segmentation", "tokens"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    tiers = tier("between", latency_s=1e-4, bytes_per_s=1e8), tier("within")
    return str(write_cores(tmp_path_factory.mktemp("cluster") / "two.toml", *tiers))


def _plan(cluster: str, strategy: str, model: str = RESIDUAL, *, batch: int = 8, **training: Any) -> Plan:
    graph, machine = load_graph(model), load_cluster(cluster)
    if strategy == "pipeline":
        return pipeline_plan(graph, machine, batch=batch, training=Training(**training))
    if strategy == "layerwise":
        return plan(graph, machine, batch=batch, **training)
    return baseline_plan(graph, machine, strategy, batch=batch, training=Training(**training))


def _run(fields: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    chosen = Plan.from_dict(fields, "test")
    if isinstance(options.get("compare"), dict):
        options = {**options, "compare": Plan.from_dict(options["compare"], "other")}
    return run_rank(RunRequest(plan=chosen, iterations=2, warm_up=1, **options), torch.device("cpu"))


def _result(world: World, chosen: Plan, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = world.run(_run, chosen.to_dict(), options)
    return result


@pytest.mark.parametrize(
    "strategy",
    sample(
        [*BASELINES, "layerwise", "pipeline"], quick=["data+filter", "spatial", "sequence", "layerwise", "pipeline"]
    ),
)
def test_every_strategy_is_the_network_and_sends_what_was_predicted(
    quartet: World, cluster: str, strategy: str
) -> None:
    model = TOKENS if "Q" in getattr(STRATEGIES.get(strategy), "cuts", "") else RESIDUAL
    result = _result(quartet, _plan(cluster, strategy, model), check=True, compare="ddp")
    assert result["check"]["passed"], result["check"]
    assert result["bytes_moved"] == result["predicted"]["bytes_moved"] > 0
    assert result["bytes_by_tier"] == result["predicted"]["bytes_by_tier"]
    assert set(result["bytes_by_tier"]) == {"between", "within"}
    assert sum(result["bytes_by_tier"].values()) == result["bytes_moved"]


@pytest.mark.parametrize(("strategy", "batch"), [("data", 8), ("filter", 1)], ids=["samples", "whole batch"])
def test_a_model_that_returns_a_dict_is_run_and_checked(
    quartet: World, cluster: str, strategy: str, batch: int
) -> None:
    ran = _result(quartet, _plan(cluster, strategy, NAMED, batch=batch), check=True)
    assert ran["check"]["passed"], ran["check"]
    assert len(ran["losses"]) == 2


def test_inner_axes_keep_bytes_off_the_outer_links(quartet: World, cluster: str) -> None:
    sent = _result(quartet, _plan(cluster, "data+filter"))["bytes_by_tier"]
    assert sent["within"] > 0
    assert sent["between"] < _result(quartet, _plan(cluster, "data"))["bytes_by_tier"]["between"]


@pytest.mark.parametrize("optimizer", sample(["sgd", "momentum", "adam"], quick=["adam"]))
def test_memory_holds_weights_gradients_state_and_activations(quartet: World, cluster: str, optimizer: str) -> None:
    chosen = _plan(cluster, "data", optimizer=optimizer)
    peaks = _result(quartet, chosen)["peak_memory_bytes"]
    weights = sum(weight.size for weight in load_graph(RESIDUAL).weights)
    state = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    least = 4 * weights * (2 + state) + 4 * 2 * 4 * 8 * 8  # and the input, two samples a rank
    assert len(peaks) == 4
    assert all(least < peak < 10 * least for peak in peaks)


def test_optimizer_state_is_counted_to_the_byte(quartet: World, cluster: str) -> None:
    """Momentum keeps one more number per weight than SGD, and nothing else differs."""
    plain, momentum = (
        _result(quartet, _plan(cluster, "data", optimizer=name))["peak_memory_bytes"][0] for name in ("sgd", "momentum")
    )
    assert momentum - plain == 4 * sum(weight.size for weight in load_graph(RESIDUAL).weights)


def test_slicing_filters_takes_weights_off_a_rank(quartet: World, cluster: str) -> None:
    whole, sliced = (max(_result(quartet, _plan(cluster, name))["peak_memory_bytes"]) for name in ("data", "filter"))
    assert sliced != whole


@pytest.mark.parametrize(
    "strategy", sample(["data", "filter", "data+filter", "spatial", "data+spatial"], quick=["data+filter", "spatial"])
)
def test_local_batch_norms_are_those_of_one_device_that_goes_chunk_by_chunk(
    quartet: World, cluster: str, strategy: str
) -> None:
    result = _result(quartet, _plan(cluster, strategy, batchnorm="local"), check=True)
    assert result["check"]["passed"], result["check"]
    assert "batch norms per chunk of 2 samples" in result["check"]["note"]
    assert result["bytes_by_tier"] == result["predicted"]["bytes_by_tier"]


def test_a_pipelines_batch_norms_see_micro_batches_local_or_not(quartet: World, cluster: str) -> None:
    losses = []
    for kind in ("exact", "local"):
        training = Training(batchnorm=kind)
        chosen = pipeline_plan(load_graph(RESIDUAL), load_cluster(cluster), batch=8, micro_batches=4, training=training)
        result = _result(quartet, chosen, check=True)
        assert result["check"]["passed"], result["check"]
        assert "chunk" not in result["check"]["note"]
        losses.append(result["losses"])
    assert losses[0] == losses[1]


def test_the_check_of_a_narrow_plan_says_that_it_is_made_in_float64(quartet: World, cluster: str) -> None:
    result = _result(quartet, _plan(cluster, "data", dtype="bf16"), check=True)
    assert result["check"]["passed"]
    assert result["check"]["note"].startswith("float64 instead of bf16")
    assert result["dtype"] == "bf16"


def test_a_machine_that_has_become_slower_since_it_was_calibrated_is_seen(quartet: World, cluster: str) -> None:
    made = _plan(cluster, "data")
    assert _result(quartet, made)["drift"] is None  # nothing to compare with
    quick = replace(load_cluster(cluster), measured_on=here(4), reference_s=1e-6)
    drift = _result(quartet, replace(made, machine=quick))["drift"]
    assert drift > 10
    fewer = replace(quick, measured_on=here(8))  # ranks that shared cores took longer
    assert _result(quartet, replace(made, machine=fewer))["drift"] is None


def test_the_first_step_whose_loss_is_not_finite_is_said(quartet: World, cluster: str) -> None:
    result = _result(quartet, _plan(cluster, "data"), data=f"{MODELS}:spoilt_batches")  # the first batch warms up
    assert result["first_nan_step"] == 1
    assert np.isfinite(result["losses"][0])
    assert np.isnan(result["losses"][1])
    assert _result(quartet, _plan(cluster, "data"))["first_nan_step"] is None


def test_a_gradient_that_is_not_finite_is_not_equal(quartet: World, cluster: str) -> None:
    """Not even to the same on one device: nothing was compared."""
    check = _result(quartet, _plan(cluster, "data", f"{MODELS}:undefined_gradient"), check=True)["check"]
    assert np.isfinite(check["loss"])
    assert not check["passed"]
    assert (check["worst"], check["max_relative_error"]) == ("first.weight", float("inf"))


@pytest.mark.parametrize("strategy", sample(["filter", "channel", "spatial"], quick=["channel"]))
def test_under_autocast_narrow_activations_are_what_moves(quartet: World, cluster: str, strategy: str) -> None:
    result = _result(quartet, _plan(cluster, strategy, dtype="bf16"))
    assert result["bytes_by_tier"] == result["predicted"]["bytes_by_tier"]


@pytest.mark.parametrize("strategy", sample(["spatial", "data+filter"], quick=["spatial"]))
def test_what_is_computed_again_is_sent_again_as_predicted(quartet: World, cluster: str, strategy: str) -> None:
    result = _result(quartet, _plan(cluster, strategy, recompute=True), check=True)
    assert result["check"]["passed"]
    assert result["bytes_by_tier"] == result["predicted"]["bytes_by_tier"]


@pytest.mark.parametrize("opponent", ["ddp", "fsdp"])
def test_opponents_train_the_same_network(quartet: World, cluster: str, opponent: str) -> None:
    result = _result(quartet, _plan(cluster, "data", batchnorm="local"), compare=opponent)
    assert result[opponent]["losses"] == pytest.approx(result["losses"], rel=1e-4)
    assert result[opponent]["bytes_moved"] > 0
    assert result[opponent]["speedup"]["pairs"] == 2


@pytest.mark.parametrize(("model", "one", "other"), [(RESIDUAL, "data", "filter"), (TOKENS, "pipeline", "data")])
def test_two_plans_train_the_same_network_in_turn(
    quartet: World, cluster: str, model: str, one: str, other: str
) -> None:
    first, second = _plan(cluster, one, model), _plan(cluster, other, model)
    result = _result(quartet, first, compare=second.to_dict())
    assert result["other"]["losses"] == pytest.approx(result["losses"], rel=1e-4)
    assert result["other"]["bytes_moved"] == _result(quartet, second)["bytes_moved"]
    assert result["other"]["bytes_moved"] != result["bytes_moved"]
    assert result["other"]["speedup"]["pairs"] == 2


def test_a_plan_is_compared_with_one_for_the_same_training_alone(cluster: str) -> None:
    chosen = _plan(cluster, "data")
    for other, reason in (
        (_plan(cluster, "data", batch=16), r"a plan for the same batch: 8 \(got 16\)"),
        (_plan(cluster, "data", optimizer="adam"), r"the same optimizer: sgd \(got adam\)"),
        (_plan(cluster, "pipeline"), "takes no pipeline here: run the pipeline's plan"),
    ):
        with pytest.raises(PlanError, match=reason):
            check_rival(chosen, other)


def test_ranks_are_fed_their_own_samples(quartet: World, cluster: str) -> None:
    """Every rank's samples differ; a network that saw other ones would have another loss."""
    chosen = _plan(cluster, "data")
    result = _result(quartet, chosen, data=f"{MODELS}:numbered_batches", compare="ddp")
    assert result["data_s"] >= 0
    doubled = _result(quartet, chosen, data=f"{MODELS}:doubled_loss")
    # the learning rate is small: the first measured losses, after one step of warm-up, are nearly twice as large
    assert doubled["losses"][0] == pytest.approx(2 * result["losses"][0], rel=0.1)


def test_a_batch_that_does_not_divide_is_given_whole_to_every_rank(quartet: World, cluster: str) -> None:
    chosen = _plan(cluster, "spatial", SEGMENTATION, batch=1)
    assert _result(quartet, chosen, check=True)["check"]["passed"]
    with pytest.raises(AssertionError, match="a loss of your own needs a batch that divides over 4 ranks"):
        _result(quartet, chosen, data=f"{MODELS}:doubled_loss")


@pytest.mark.filterwarnings("ignore::slicewise.graph.capture.OpaqueLayerWarning")
def test_a_network_that_reads_whole_numbers_is_fed_whole_numbers(quartet: World, cluster: str) -> None:
    result = _result(quartet, _plan(cluster, "data", f"{MODELS}:words"), check=True)
    assert result["check"]["passed"], result["check"]
    assert result["check"]["gradients"] == 5


def test_samples_of_another_width_than_the_weights_are_refused(quartet: World, cluster: str) -> None:
    with pytest.raises(AssertionError, match=r"wide takes float64 samples, `run` trains on float32; use parallelize"):
        _result(quartet, _plan(cluster, "data", f"{MODELS}:wide"))


def test_batches_of_a_wrong_size_are_refused(quartet: World, cluster: str) -> None:
    with pytest.raises(AssertionError, match=r"each batch must have inputs of \(2, 4, 8, 8\)"):
        _result(quartet, _plan(cluster, "data"), data=f"{MODELS}:too_small")


def test_a_step_is_told_in_seconds_by_term_and_rank(quartet: World, cluster: str, tmp_path: Path) -> None:
    """The terms make up the step, in the JSON and in the timeline alike."""
    path = tmp_path / "trace.json"
    data = f"{MODELS}:numbered_batches"
    result = _result(quartet, _plan(cluster, "data+spatial"), data=data, trace=path)
    table = {term: np.array(rows) for term, rows in result["steps_s"].items()}
    assert {values.shape for values in table.values()} == {(2, 4)}
    parts = [table[term] for term in ("compute", "wait", "transfer", "halo", "reduce", "sync", "update")]
    assert np.allclose(sum(parts), table["step"])
    assert all((values >= 0).all() for values in table.values())
    for term in ("transfer", "halo", "reduce", "sync"):
        assert result[f"{term}_s"] == pytest.approx(np.median(table[term][:, 0]))
    drawn = read_files([path])
    for term in ("data", "step", "compute", "halo", "reduce", "sync", "update"):
        assert np.allclose(drawn.seconds[term], table[term], atol=1e-6), term


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_a_trace_shows_every_rank_layer_and_term(quartet: World, cluster: str, tmp_path: Path, recompute: bool) -> None:
    path = tmp_path / "trace.json"
    chosen = _plan(cluster, "data+spatial", recompute=recompute)
    result = _result(quartet, chosen, trace=path)
    document = json.loads(path.read_text())
    lanes = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in document["traceEvents"]
        if event["name"] == "thread_name"
    }
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {lane for _, lane in lanes.items()} == {"step", "compute", "transfer", "halo", "reduce", "sync"}
    assert {event["pid"] for event in events} == {0, 1, 2, 3}
    for (rank, tid), lane in lanes.items():
        mine = [event for event in events if (event["pid"], event["tid"]) == (rank, tid)]
        assert all(event["dur"] > 0 for event in mine)
        if lane != "sync":  # buckets travel side by side
            assert_nested_or_following(mine)
    layers = {event["args"].get("layer") for event in events if event["cat"] == "compute"}
    assert {"first.0", "first.1", "second.0", "last"} <= layers
    for term in ("forward", "backward", "update"):
        assert any(event["args"].get("term") == term for event in events), term
    steps = [event for event in events if event["name"].startswith("step ")]
    assert len(steps) == 4 * 2
    starts = [min(event["ts"] for event in steps if event["pid"] == rank) for rank in range(4)]
    longest = max(event["dur"] for event in steps)
    assert max(starts) - min(starts) < longest  # every step starts with a barrier
    assert longest / 1e6 >= result["iteration_s"]["median"] * 0.99


def assert_nested_or_following(events: list[dict[str, Any]]) -> None:
    open_until: list[float] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while open_until and open_until[-1] <= event["ts"] + 1e-6:
            open_until.pop()
        stop = event["ts"] + event["dur"]
        assert not open_until or stop <= open_until[-1] + 1e-3, event  # in microseconds: rounding
        open_until.append(stop)


def _check_in(fields: dict[str, Any], available_bytes: float) -> dict[str, Any]:
    from slicewise.equality.numerics import check_numerics
    from slicewise.graph.sources import build_model

    chosen = Plan.from_dict(fields, "test")
    model, _ = build_model(chosen.model, chosen.input_shape)
    graph = load_graph(chosen.model, chosen.input_shape)
    return check_numerics(model, graph, chosen, available_bytes=available_bytes).to_dict()


def test_where_one_device_has_no_room_the_check_is_made_smaller_and_says_so(quartet: World, cluster: str) -> None:
    chosen = _plan(cluster, "spatial", SEGMENTATION, batch=6)

    def checked(batch: int, shape: tuple[int, ...]) -> dict[str, Any]:
        """In the memory that this size takes."""
        room = needed_bytes(load_graph(SEGMENTATION, shape).with_batch(batch), 4)
        check: dict[str, Any] = quartet.run(_check_in, chosen.to_dict(), room)
        assert check["passed"]
        return check

    assert checked(6, (2, 16, 16))["note"] == "float64, dropout off"
    assert checked(3, (2, 16, 16))["note"].endswith("batch 3 of 6")
    assert "batch 1 of 6, samples of 2x8x8: larger ones do not fit" in checked(1, (2, 8, 8))["note"]
    with pytest.raises(AssertionError, match="leave out --check"):
        quartet.run(_check_in, chosen.to_dict(), 1e3)


@pytest.mark.parametrize("strategy", sample(["data+filter", "pipeline"], quick=["data+filter"]))
def test_losses_after_a_resume_are_bitwise_those_of_a_run_that_went_through(
    quartet: World, cluster: str, strategy: str, tmp_path: Path
) -> None:
    """With batches of its own for every step."""
    chosen = _plan(cluster, strategy, optimizer="adam").to_dict()
    straight, resumed, left = quartet.run(_stopped_and_resumed, chosen, str(tmp_path))
    assert (straight["first_step"], resumed["first_step"]) == (0, 3)
    assert len(straight["losses"]) == 5
    assert resumed["losses"] == straight["losses"][3:]
    assert [Path(name).name for name in left] == ["0001-step-3", "0002-step-5"]
    assert [len(result["checkpoints"]["saves_s"]) for result in (straight, resumed)] == [2, 1]


def _stopped_and_resumed(fields: dict[str, Any], folder: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    chosen, place = Plan.from_dict(fields, "test"), Path(folder)
    kept: dict[str, Any] = {"checkpoint": place, "checkpoint_every": 3, "data": f"{MODELS}:numbered_batches"}
    results = []
    for resume in (False, True):
        request = RunRequest(plan=chosen, iterations=5, warm_up=1, resume=resume, **kept)
        results.append(run_rank(request, torch.device("cpu")))
        dist.barrier()
        if not resume and dist.get_rank() == 0:
            shutil.rmtree(place / "0002-step-5")
        dist.barrier()
    with pytest.raises(RequestError, match="0002-step-5: is at step 5, `iterations` is 5; ask for more"):
        run_rank(RunRequest(plan=chosen, iterations=5, resume=True, **kept), torch.device("cpu"))
    return results[0], results[1], sorted(map(str, place.iterdir()))
