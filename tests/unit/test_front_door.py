"""The public names: what the commands have, flat and typed."""

import doctest
import inspect
import pathlib
import re
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

import slicewise as sw
from slicewise.cluster.freshness import MeasuredOn
from slicewise.cluster.times import LayerTime, keep_times
from slicewise.cluster.writing import to_toml
from slicewise.cost.prediction import Prediction
from slicewise.errors import InfeasibleError, RequestError
from slicewise.planning.timing import timed_on
from slicewise.running import calibrating
from slicewise.strategies.ranking import verdict
from slicewise.units import amount, seconds
from tests.builders import machine, residual_net, small_cnn

SOURCE = pathlib.Path(sw.__file__).parent
FUNCTIONS = [name for name in sw.__all__ if inspect.isfunction(getattr(sw, name))]
TOLD = sorted(
    ".".join(("slicewise", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>>" in path.read_text()
)


def test_dir_lists_the_public_names_and_nothing_else() -> None:
    assert dir(sw) == sorted(sw.__all__)
    assert all(getattr(sw, name) is not None for name in sw.__all__)
    with pytest.raises(AttributeError, match="no attribute 'plam'"):
        sw.plam  # noqa: B018


# whose options are DataLoader's, and the user's own
OPEN = {"data_loader", "load_checkpoint", "save_checkpoint"}


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - OPEN))
def test_every_argument_has_a_name_and_a_type(name: str) -> None:
    signature = inspect.signature(getattr(sw, name))
    for parameter in signature.parameters.values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), parameter
        assert parameter.annotation is not parameter.empty, parameter
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize("name", TOLD)
def test_examples_in_docstrings_are_true(name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = import_module(name)
    result = doctest.testmod(module, extraglobs={"sw": sw, "pathlib": pathlib}, report=True)
    assert result.attempted > 0
    assert result.failed == 0


def test_functions_that_commands_have_tell_an_example() -> None:
    told = {name for name in FUNCTIONS if ">>>" in (inspect.getdoc(getattr(sw, name)) or "")}
    assert told >= {"plan", "pareto", "predict", "oracle", "provision", "explain", "compare", "what_if", "diagnose"}


def test_a_module_is_planned_with_a_sample(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    file = tmp_path / "pair.toml"
    file.write_text(to_toml(machine(2)))
    made = sw.plan(model, file, batch=64, sample=torch.zeros(2, 3, 16, 16))
    assert (made.batch, made.devices) == (64, 2)
    assert sw.plan(model, str(file), sample=torch.zeros(4, 3, 16, 16)).batch == 4  # the sample's own
    with pytest.raises(RequestError, match="a module goes with a sample"):
        sw.plan(model, file, batch=64)
    with pytest.raises(RequestError, match="a sample goes with a module"):
        sw.plan("lenet5", file, batch=64, sample=torch.zeros(2, 3, 16, 16))
    with pytest.raises(RequestError, match=r"a model is a name, a graph or a torch module \(got int\)"):
        sw.plan(3, file)  # type: ignore[arg-type]


def test_a_name_gets_32_samples_per_device_and_a_graph_keeps_its_own() -> None:
    assert sw.plan("lenet5", machine(2), strategy="data").batch == 64
    assert sw.plan(small_cnn(batch=8), machine(2), strategy="data").batch == 8


def test_limits_are_numbers_or_text() -> None:
    made = sw.plan(small_cnn(8), machine(2), memory_limit="8GiB", time_limit="5min")
    assert made.request is not None
    assert (made.request.memory_limit_bytes, made.request.time_limit_s) == (8 * 1024**3, 300)
    with pytest.raises(RequestError, match=r"memory limit must look like 8GiB, .* \(got 'much'\)"):
        sw.plan(small_cnn(8), machine(2), memory_limit="much")
    with pytest.raises(RequestError, match=r"time limit must look like 90s, .* \(got 'soon'\)"):
        sw.plan(small_cnn(8), machine(2), time_limit="soon")
    with pytest.raises(RequestError, match=r"gap must be a share such as 0.01 \(got 7\)"):
        sw.plan(small_cnn(8), machine(2), gap=7)
    with pytest.raises(RequestError, match=r"dims per layer must be 1 or more \(got 0\)"):
        sw.plan(small_cnn(8), machine(2), dims_per_layer=0)


UNUSED = {
    "space": "optcnn",
    "dims_per_layer": 2,
    "dims_per_tier": 1,
    "memory_limit": "8GiB",
    "objective": "memory",
    "fix": ["*=N"],
    "forbid": ["*=C"],
    "time_limit": 5,
    "gap": 0.1,
    "search": "exhaustive",
}


@pytest.mark.parametrize("name", UNUSED)
@pytest.mark.parametrize("strategy", ["data", "pipeline"])
def test_what_a_strategy_does_not_use_is_refused_by_name(strategy: str, name: str) -> None:
    with pytest.raises(RequestError, match=f'`strategy="{strategy}"` does not use `{name}`; leave it out'):
        sw.plan(small_cnn(8), machine(2), strategy=strategy, **{name: UNUSED[name]})  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["layerwise", "data"])
def test_segments_belong_to_a_pipeline(strategy: str) -> None:
    with pytest.raises(RequestError, match="does not use `segments`"):
        sw.plan(small_cnn(8), machine(2), strategy=strategy, segments=4)
    made = sw.plan(small_cnn(8), machine(2), strategy="pipeline", segments=4)
    assert made.pipeline is not None
    assert made.pipeline.micro_batches == 4


def test_what_would_change_nothing_is_refused() -> None:
    with pytest.raises(
        RequestError, match=r"`split=\(2, 2\)` is of hybrids, not of data; leave it out, or give data\+"
    ):
        sw.oracle("lenet5", "p100-4x4", devices=[4], batch=64, strategies=["data"], split=(2, 2))
    with pytest.raises(RequestError, match=r"`trust=True` is for an exported program \(.pt2\), and lenet5 is none"):
        sw.load_graph("lenet5", trust=True)
    with pytest.raises(RequestError, match=r"`trust=True` is for an exported program \(.pt2\), and a graph is none"):
        sw.plan(small_cnn(8), machine(2), trust=True)
    with pytest.raises(RequestError, match='`search="exhaustive"` does not use `gap`; leave it out'):
        sw.plan(small_cnn(8), machine(2), search="exhaustive", gap=0.5)
    with pytest.raises(RequestError, match='`layer="conv0"` and `per_layer=True` are different questions; ask one'):
        sw.explain(sw.plan(small_cnn(8), machine(2)), layer="conv0", per_layer=True)


def test_a_list_of_known_layers_says_how_many_more_there_are() -> None:
    made = sw.plan("alexnet", "p100-4x4", devices=2, strategy="data")
    with pytest.raises(RequestError, match=r"no layer is called 'nix'; there is .* and 15 more$"):
        sw.explain(made, layer="nix")
    with pytest.raises(RequestError, match=r"no layer is called 'classifier'; there is classifier.*\.\d$"):
        sw.explain(made, layer="classifier")


def _steps(folder: pathlib.Path, seconds: float) -> pathlib.Path:
    path = folder / "steps.csv"
    path.write_text("\n".join(["step,iteration_s", *(f"{step},{seconds}" for step in range(50))]))
    return path


@pytest.mark.parametrize("engine", ["paradl", "slicewise"])
def test_a_run_of_a_model_is_diagnosed_by_its_strategy(engine: str, tmp_path: pathlib.Path) -> None:
    (row,) = sw.oracle("lenet5", "p100-4x4", devices=[2], batch=64, strategies=["data"], engine=engine)
    steps = _steps(tmp_path, row.iteration_s)
    ran: dict[str, Any] = {"cluster": "p100-4x4", "devices": 2, "batch": 64, "engine": engine, "batchnorm": "local"}
    assert sw.diagnose("lenet5", steps, strategy="data", **ran).as_projected
    assert sw.diagnose(sw.load_graph("lenet5"), steps, strategy="data", **ran).as_projected


def test_a_run_of_a_hybrid_is_diagnosed_by_its_split(tmp_path: pathlib.Path) -> None:
    (row,) = sw.oracle("alexnet", "p100-4x4", devices=[4], batch=64, strategies=["data+filter"], split=(2, 2))
    steps = _steps(tmp_path, row.iteration_s)
    ran: dict[str, Any] = {"cluster": "p100-4x4", "devices": 4, "batch": 64}
    assert sw.diagnose("alexnet", steps, strategy="data+filter", split=(2, 2), **ran).as_projected
    with pytest.raises(RequestError, match=r"`split=\(2, 2\)` is of hybrids, not of data; leave it out"):
        sw.diagnose("alexnet", steps, strategy="data", split=(2, 2), **ran)
    with pytest.raises(RequestError, match='`split`: engine slicewise plans its own; give `engine="paradl"`'):
        sw.diagnose("alexnet", steps, strategy="data+filter", split=(2, 2), engine="slicewise", **ran)
    with pytest.raises(RequestError, match="`segments=4`: closed forms choose their own; leave it out"):
        sw.diagnose("alexnet", steps, strategy="pipeline", engine="paradl", segments=4, **ran)


def test_a_plan_says_itself_how_it_ran(tmp_path: pathlib.Path) -> None:
    made = sw.plan("lenet5", "p100-4x4", devices=2, batch=64, strategy="data")
    steps = _steps(tmp_path, made.predicted.iteration_s)
    assert sw.diagnose(made, steps).as_projected
    with pytest.raises(RequestError, match="`engine`: give a model and `strategy`, one of serial, data, "):
        sw.diagnose(made, steps, engine="paradl")
    with pytest.raises(RequestError, match="`cluster` is decided by the plan; give a model and `strategy`, or plan"):
        sw.diagnose(made, steps, cluster="p100-4x4")
    with pytest.raises(RequestError, match="a plan says how it ran; leave out `strategy`, or give a model"):
        sw.diagnose(made, steps, strategy="data", cluster="p100-4x4")
    with pytest.raises(RequestError, match='lenet5: no such plan; of a model, say how it ran: `strategy="layerwise"`'):
        sw.diagnose("lenet5", steps)


def test_layers_of_a_plan_are_timed_by_ranks_that_are_told_the_budget(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_CACHE", str(tmp_path))
    here = replace(machine(2), measured_on=MeasuredOn(device="any", torch="2", cores=2, ranks=2))
    made = sw.plan(small_cnn(8), here, strategy="data")
    time = LayerTime(forward_s=1.0, backward_s=2.0)
    started: list[tuple[list[str], int]] = []

    def launched(arguments: list[str], ranks: int) -> int:
        started.append((arguments, ranks))
        assert sw.Plan.load(arguments[2]).model == made.model
        keep_times(tmp_path, timed_on(here), {"conv": time})
        return 0

    monkeypatch.setattr(calibrating, "launch", launched)
    assert sw.calibrate(layers=made, profile_budget="3min").times == {"conv": time}
    ((arguments, ranks),) = started
    assert (arguments[:2], arguments[3:], ranks) == (["calibrate", "--layers"], ["--profile-budget", "180.000s"], 2)
    with pytest.raises(RequestError, match="`layers` does not use `quick` and `output`; leave them out"):
        sw.calibrate(layers=made, quick=True, output="mine.toml")
    with pytest.raises(RequestError, match="`profile_budget=3min` is for `layers`, the layers of a plan; give both"):
        sw.calibrate(profile_budget="3min")
    with pytest.raises(RequestError, match="was not calibrated here; plan for local"):
        sw.calibrate(layers=sw.plan(small_cnn(8), machine(2), strategy="data"))


def test_the_shape_of_a_sample_is_called_input_and_its_old_name_works() -> None:
    assert sw.load_graph("lenet5", input=(1, 32, 32)) == sw.load_graph("lenet5")
    with pytest.warns(DeprecationWarning, match="input_shape= is deprecated; use input="):
        assert sw.load_graph("lenet5", input_shape=(1, 32, 32)) == sw.load_graph("lenet5")
    with pytest.raises(RequestError, match="are one thing; give `input`"):
        sw.load_graph("lenet5", input=(1, 32, 32), input_shape=(1, 32, 32))


def test_messages_speak_of_no_flags() -> None:
    wrong = (
        lambda: sw.plan(small_cnn(8), machine(2), cost="optcnn"),
        lambda: sw.plan(small_cnn(8), machine(2), strategy="pipeline", cost="optcnn"),
        lambda: sw.plan(small_cnn(8), machine(2), memory_limit=10),
        lambda: sw.plan(small_cnn(8), machine(2), fix=["conv0"]),
        lambda: sw.plan(small_cnn(8), machine(2), fix=["conv0=N"], forbid=["N"]),
        lambda: sw.plan(residual_net(), machine(4), batch=3, batchnorm="local"),
        lambda: sw.what_if(sw.plan(small_cnn(8), machine(2), strategy="data"), ["batch=many"]),
        lambda: sw.oracle(small_cnn(8), machine(2), devices=[3], batch_per_device=0.5),
        lambda: sw.calibrate(nproc_per_node=1),
    )
    for ask in wrong:
        with pytest.raises((RequestError, InfeasibleError)) as error:
            ask()
        assert not re.search(r"(?<![\w-])--[a-z]", str(error.value)), str(error.value)


def test_answers_in_words_speak_of_no_flags() -> None:
    table = sw.oracle("resnet50", "abci-v100", batch_per_device=32, devices=[4, 64], strategies=["filter", "data"])
    planned = sw.oracle("lenet5", "p100-4x4", batch=64, devices=[4], strategies=["filter"], layerwise=True)
    for text in (str(table), verdict(table), str(planned), verdict(planned), str(table.to_dict()["measure_next"])):
        assert "--" not in text
    assert "`measured=(32, TIME)`" in str(table)
    assert 'see `engine="slicewise"`' in str(planned)
    assert 'see `engine="slicewise"`' in verdict(planned)


def test_answers_are_printed_in_a_few_lines() -> None:
    made = sw.plan("alexnet", "p100-4x4", devices=4, batch=64)
    answer = sw.what_if(made, ["batch=32"])
    options = sw.provision("lenet5", "p100-4x4", dataset="cifar10", epochs=9, devices=[2, 4], price=2.0)
    for value in (made, answer, answer.after, options[0], made.hardware()):
        assert len(str(value).splitlines()) <= 4, str(value)
        assert len(str(value)) < 400, str(value)
        assert len(repr(value)) < 120, repr(value)
    step, held = seconds(made.predicted.iteration_s), amount(made.predicted.peak_memory_bytes, "B")
    sent = amount(made.predicted.bytes_moved, "B")
    for said in ("alexnet on p100-4x4: 4 devices, batch 64, fp32, layerwise", step, held, sent, "sw.explain(plan)"):
        assert said in str(made)
    assert f"batch=32: a step takes {seconds(answer.after.predicted.iteration_s)}, before {step}." in str(answer)
    assert "The slicings cannot be kept: " in str(sw.what_if(made, ["devices=2"]))
    assert str(options[0]).startswith(f"{options[0].row.devices} devices (")
    assert options[0].paid in str(options[0])
    assert str(sw.load_cluster("p100-4x4")).splitlines() == [
        "p100-4x4: 16 x P100 (17.2 GB); figures: preset, software: plain",
        "  inter: 4 members, 1 port of 11.0 GB/s each, latency 5.00 us",
        "  intra: 4 members, 1 port of 35.0 GB/s each, latency 3.00 us",
    ]


def test_a_plan_that_predicts_nothing_is_printed_too() -> None:
    bare = replace(sw.plan(small_cnn(8), machine(2)), predicted=Prediction(), request=None)
    assert "inf" not in str(bare) + repr(bare)


def test_the_prediction_of_an_edited_plan_is_of_the_plan_as_it_is(tmp_path: pathlib.Path) -> None:
    made = sw.plan(small_cnn(8), machine(2), strategy="data")
    made.save(str(tmp_path / "plan.json"))
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "edited.json").write_text(re.sub(r'("name": "conv0",[^}]*?"slicing": \{\s*"\w+": )"N"', r'\1"F"', text))
    assert sw.predict(str(tmp_path / "plan.json"))["iteration_s"] == made.predicted["iteration_s"]
    edited = sw.Plan.load(str(tmp_path / "edited.json"))
    assert edited.slicings["conv0"] == ("F",)
    assert sw.predict(edited)["transfer_s"] > edited.predicted["transfer_s"]
    assert sw.compare(str(tmp_path / "plan.json"), edited).differences
    assert sw.explain(str(tmp_path / "edited.json"), layer="conv0").decisions[0].slicing == "F2"
