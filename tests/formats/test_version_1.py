"""Files that the first version wrote, never to be written anew: every later release reads and plans with them."""

import json
from pathlib import Path

import pytest

from slicewise.cluster.cluster import Link, load_cluster, parse_cluster
from slicewise.cluster.device import load_device
from slicewise.diagnosis.diagnosis import diagnosis_of
from slicewise.diagnosis.expectation import expectation_of
from slicewise.diagnosis.readers import perfetto, run_json, torch_profiler
from slicewise.diagnosis.readers.files import read_files
from slicewise.diagnosis.record import FileKind
from slicewise.explaining.decisions import explain
from slicewise.explaining.what_if import what_if
from slicewise.fitting.runs import Run, read_runs
from slicewise.graph.kind import Kind
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.planning import plan, predicted_of
from slicewise.plans.plan import Plan

V1 = Path(__file__).parent / "v1"


@pytest.mark.parametrize("name", ["graph.json", "graph-loss.json"])
def test_a_graph_is_read_planned_and_written_with_all_it_says(name: str) -> None:
    graph = load_graph(str(V1 / name))
    said = json.loads((V1 / name).read_text())["layers"]
    assert json.loads(graph.to_json())["layers"] == said
    made = plan(graph, "p100-4x4", devices=2, batch=8)
    assert set(made.slicings) == {layer["name"] for layer in said}


def test_a_graph_keeps_shared_and_frozen_weights_buffers_and_infinity() -> None:
    graph = LayerGraph.load(V1 / "graph.json")
    assert [weight.again for weight in graph["tied#2"].weights] == [True, True]
    assert not graph["frozen"].weights[0].trained
    assert [buffer.name for buffer in graph["mul"].buffers] == ["scale"]
    assert graph["masked_fill"].options["arguments"]["value"] == float("-inf")
    assert graph["cumsum"].kind is Kind.OPAQUE


@pytest.mark.parametrize("name", ["plan.json", "plan-data.json", "plan-volume.json", "plan-pipeline.json"])
def test_a_plan_is_read_checked_and_priced(name: str) -> None:
    loaded = Plan.load(V1 / name)
    graph, machine = loaded.network(), loaded.hardware()
    loaded.check(loaded.sized(graph), machine.mesh)
    assert predicted_of(loaded, graph, machine)["iteration_s"] > 0
    again = Plan.from_dict(json.loads(loaded.to_json()), name)
    assert (again.slicings, again.predicted, again.pipeline) == (loaded.slicings, loaded.predicted, loaded.pipeline)


def test_a_plan_is_explained_and_made_again_for_another_machine() -> None:
    loaded = Plan.load(V1 / "plan.json")
    assert explain(loaded, layer="classifier.0").to_dict()
    after = what_if(loaded, ["batch=32"]).after
    assert after.batch == 32
    assert after.certificate["constraints"][0] == "fix classifier.0=F"  # the plan's own pin still holds


def test_a_cluster_file_says_all_that_it_said() -> None:
    cluster = load_cluster(str(V1 / "cluster.toml"))
    assert (cluster.overlap, cluster.cores, cluster.origin, cluster.devices) == (0.9, 64, "preset", 8)
    assert (cluster.device.name, cluster.device.memory_bytes) == ("A100-mine", 80 * 10**9)
    assert cluster.device.peaks == {"fp32": 19.5e12, "tf32": 156e12, "bf16": 300e12, "fp16": 312e12}
    assert cluster.tiers[1].link("gradient") == Link(4e-6, 33e9)
    assert cluster.tuning.communication == {"data": 1.1, "data+filter": 1.2}
    assert cluster.tuning.fixed_compute == {"filter": 0.5, "channel": 0.5, "spatial": 0.1}
    assert (cluster.tuning.flat_rings, cluster.tuning.split_linear, cluster.tuning.margin) == (True, False, 0.25)
    fitted = load_cluster(str(V1 / "cluster-fitted.toml"))
    assert fitted.origin == "fitted"
    assert plan(load_graph("lenet5"), fitted, devices=2, batch=8).predicted["origin"] == "fitted"


@pytest.mark.parametrize(
    "strategy",
    [
        "serial",
        "data",
        "spatial",
        "filter",
        "channel",
        "sequence",
        "pipeline",
        "data+filter",
        "data+spatial",
        "data+sequence",
        "owt",
    ],
)
def test_every_strategy_may_have_a_pace_of_its_own(strategy: str) -> None:
    text = (
        (V1 / "cluster.toml")
        .read_text()
        .replace('"data+filter" = 1.2', f'"{strategy}" = 1.3')
        .replace("data = 1.1\n", "")
    )
    assert parse_cluster(text, "mine.toml").tuning.communication == {strategy: 1.3}


@pytest.mark.parametrize("name", ["P100", "V100-16", "V100-32", "A100-40", "A100-80", "H100"])
def test_devices_that_files_name_stay_known(name: str) -> None:
    text = f'name = "mine"\ndevice = "{name}"\n[[tiers]]\nname = "t"\nsize = 2\nlatency_s = 1e-6\nbytes_per_s = 1e9\n'
    assert parse_cluster(text, "mine.toml").device == load_device(name)


def test_measured_runs_are_read_with_every_column() -> None:
    runs = read_runs(V1 / "runs.csv")
    assert len(runs) == 4
    assert runs[3] == Run(
        model="alexnet", strategy="data+filter", devices=16, batch=256, iteration_s=0.12, split=(4, 4)
    )
    assert (runs[1].dtype, runs[1].input, runs[2].compute_s) == ("fp32", (3, 224, 224), 0.04)


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (["run.json"], run_json.KIND),
        (["timeline.json.gz"], perfetto.KIND),
        (["profiler-rank0.json.gz", "profiler-rank1.json.gz"], torch_profiler.KIND),
    ],
)
def test_what_was_measured_is_read_and_judged(files: list[str], kind: FileKind) -> None:
    loaded = Plan.load(V1 / "plan-data.json")
    record = read_files([V1 / file for file in files])
    assert (record.kind, record.ranks) == (kind, (0, 1))
    assert len(record.steps) >= 2
    assert diagnosis_of(record, expectation_of(loaded, loaded.network(), loaded.hardware())).verdicts
