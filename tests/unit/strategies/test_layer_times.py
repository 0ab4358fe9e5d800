"""The oracle with layers that somebody timed, as ParaDL's authors had theirs."""

import json
from pathlib import Path

import pytest

from slicewise.cli.main import main
from slicewise.cluster.cluster import load_cluster
from slicewise.cost.training import Training
from slicewise.errors import RequestError, SlicewiseError
from slicewise.graph.kind import Trait
from slicewise.graph.sources import load_graph
from slicewise.planning.asking import plan
from slicewise.strategies.profile import Profile
from slicewise.strategies.projecting import ProjectionTable, oracle
from slicewise.strategies.sureness import range_text

GRAPH = load_graph("alexnet")
FIRST, SHAPE = "features.0", "64x55x55"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "times.csv"
    path.write_text("\n".join(["layer,slicing,shape,forward_s,backward_s,update_s", *lines]))
    return path


def asked(path: Path | None, batch: int = 32, devices: int = 1) -> ProjectionTable:
    return oracle(GRAPH, "dgx1-v100", devices=[devices], batch=batch, software="plain", layer_times=path)


def compute_s(path: Path | None, batch: int = 32) -> float:
    terms = asked(path, batch).rows[0].terms
    assert terms is not None
    return terms.compute_s


def test_a_network_whose_layers_were_all_timed_takes_their_sum(tmp_path: Path) -> None:
    lines, total_s = [], 0.0
    for number, layer in enumerate(GRAPH.layers, 1):
        if not layer.kind.has(Trait.FREE):
            shape = "x".join(map(str, (32, *layer.shape[1:])))
            update_s = 1e-4 * number if layer.weights else 0.0
            lines.append(f"{layer.name},,{shape},{1e-3 * number},{2e-3 * number},{update_s}")
            total_s += 3e-3 * number + update_s
    assert compute_s(table(tmp_path, *lines)) == pytest.approx(total_s)
    timed, untimed = (asked(path).rows[0] for path in (table(tmp_path, *lines), None))
    assert timed.high_s / timed.low_s < untimed.high_s / untimed.low_s  # a step that was timed is surer


@pytest.mark.parametrize("factor", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_software_changes_nothing_where_every_layer_was_timed(factor: float, dtype: str, tmp_path: Path) -> None:
    seconds = Profile(GRAPH, load_cluster("dgx1-v100"), Training(dtype=dtype)).seconds(32)
    lines = [
        f"{layer.name},,{'x'.join(map(str, (32, *layer.shape[1:])))},{factor * forward_s},{factor * backward_s},"
        for layer, forward_s, backward_s in zip(GRAPH, seconds.forward, seconds.backward, strict=True)
        if not layer.kind.has(Trait.FREE)
    ]
    path = table(tmp_path, *lines)
    for batch in (32, 48):
        found = oracle(GRAPH, "dgx1-v100", devices=[1], batch=batch, dtype=dtype, layer_times=path)
        assert found.rows[0].doubt.other_software == 1
        assert "software" not in range_text(found.rows[0])


def test_software_is_in_doubt_for_layers_that_were_not_timed(tmp_path: Path) -> None:
    path = table(tmp_path, f"{FIRST},,32x{SHAPE},0.001,0.002,")
    timed, untimed = (
        oracle(GRAPH, "dgx1-v100", devices=[1], batch=32, dtype="fp16", layer_times=given).rows[0].doubt
        for given in (path, None)
    )
    assert untimed.other_software < timed.other_software < 1


def test_a_layer_is_as_much_slower_at_other_batches_as_where_it_was_timed(tmp_path: Path) -> None:
    path = table(tmp_path, f"{FIRST},,32x{SHAPE},1.0,2.0,")
    per_sample = [(compute_s(path, batch) - compute_s(None, batch)) / batch for batch in (16, 32, 64)]
    assert per_sample[1] == pytest.approx(3 / 32, rel=0.01)
    assert per_sample == pytest.approx([3 / 32] * 3, rel=0.2)
    both = table(tmp_path, f"{FIRST},,32x{SHAPE},1.0,2.0,", f"{FIRST},,64x{SHAPE},1.0,2.0,")
    assert compute_s(both, 64) == pytest.approx(compute_s(both, 32), rel=0.01)


def test_layers_alike_share_a_time(tmp_path: Path) -> None:
    graph = load_graph("vgg16")
    one, other = "features.26", "features.28"  # the same shapes, windows and weights
    assert graph[one].shape == graph[other].shape
    shape = "x".join(map(str, (8, *graph[one].shape[1:])))
    path = table(tmp_path, f"{one},,{shape},1.0,1.0,")
    (row,) = oracle(graph, "dgx1-v100", devices=[1], batch=8, strategies=["serial"], layer_times=path)
    assert row.iteration_s > 4


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nothing,,32x1,1,1,", "unknown layer .*line 2.* 'nothing'"),
        (f"{FIRST},N2,,1,1,", "line 2: features.0 has slicing N2; a line needs the shape of the whole output"),
        (f"{FIRST},,32x64x5x5,1,1,", "features.0 has shape 32x64x5x5; .* samples first, as 32x64x55x55"),
        (f"{FIRST},,0x{SHAPE},1,1,", "samples first"),
        (f"{FIRST},,,1,1,", "has no shape"),
        ("flatten,,32x9216,1,1,", "flatten computes nothing"),
    ],
)
def test_a_line_that_cannot_be_meant_is_refused(line: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SlicewiseError, match=told):
        asked(table(tmp_path, line))


def test_what_says_the_same_twice_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, f"{FIRST},,32x{SHAPE},1,1,")
    with pytest.raises(RequestError, match="`measured` and `layer_times` both"):
        oracle(GRAPH, "dgx1-v100", devices=[1], batch=32, layer_times=path, measured=(32, 0.01))
    with pytest.raises(RequestError, match="for the closed forms"):
        oracle(GRAPH, "dgx1-v100", devices=[1], batch=32, layer_times=path, engine="slicewise")


def test_the_command_takes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, f"{FIRST},,32x{SHAPE},1,1,")
    request = ["oracle", "alexnet", "--cluster", "dgx1-v100", "--devices", "8", "--batch-per-device", "32", "--json"]
    assert main([*request, "--strategies", "data", "--layer-times", str(path)]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["compute_s"] > 2


def test_the_papers_cost_model_takes_measured_layers(tmp_path: Path) -> None:
    lines = [f"{FIRST},{told},,9,9," for told in ("N2", "whole", "H2", "W2")]
    path = table(tmp_path, *lines, f"{FIRST},F2,,0.001,0.001,")
    made = plan(GRAPH, "dgx1-v100", devices=2, batch=32, cost="optcnn", space="optcnn", layer_times=path)
    assert made.costs[FIRST]["forward_s"] == 0.001
    with pytest.raises(RequestError, match="does not use `layer_times`"):
        plan(GRAPH, "dgx1-v100", devices=2, batch=32, cost="analytic", layer_times=path)
