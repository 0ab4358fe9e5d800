import subprocess
import sys
from pathlib import Path

import pytest

from slicewise.errors import GraphError, RequestError, UnknownName
from slicewise.graph.sources import build_model, capture_model, load_graph
from tests.builders import small_cnn


def test_alexnets_flops_are_those_of_the_paper() -> None:
    graph = load_graph("alexnet").with_batch(1)
    multiply_adds = {
        "features.0": 64 * 55 * 55 * 3 * 11 * 11,
        "features.3": 192 * 27 * 27 * 64 * 5 * 5,
        "features.6": 384 * 13 * 13 * 192 * 3 * 3,
        "features.8": 256 * 13 * 13 * 384 * 3 * 3,
        "features.10": 256 * 13 * 13 * 256 * 3 * 3,
        "classifier.1": 9216 * 4096,
        "classifier.4": 4096 * 4096,
        "classifier.6": 4096 * 1000,
    }
    assert {layer.name: layer.flops() // 2 for layer in graph if layer.flops()} == multiply_adds


def test_a_saved_graph_is_a_model_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    small_cnn().save(path)
    graph = load_graph(str(path))
    assert graph.layers == small_cnn().layers
    assert graph.name == str(path)  # so that its plans find it again


def test_a_saved_graph_is_for_samples_of_one_shape(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    small_cnn().save(path)
    assert load_graph(str(path), (3, 8, 8)).layers == small_cnn().layers
    with pytest.raises(RequestError, match=r"mine.json was captured for samples of \(3, 8, 8\); leave out `input`"):
        load_graph(str(path), (3, 16, 16))


def test_a_missing_graph_file_is_named() -> None:
    with pytest.raises(GraphError, match=r"nowhere.json: no such file"):
        load_graph("nowhere.json")


def test_an_unknown_model_lists_the_known_ones_and_what_else_there_is() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown model 'resnet5'; choose from alexnet, .*, vgg16, .*torchvision:NAME"
    ):
        load_graph("resnet5")
    with pytest.raises(UnknownName, match=r"unknown model 'resnet5'; choose from alexnet"):
        capture_model("resnet5")


def test_an_unknown_model_is_refused_before_torch_is_imported() -> None:
    script = (
        "import sys, slicewise\n"
        "try: slicewise.load_graph('resnet5')\n"
        "except slicewise.SlicewiseError: sys.exit('torch' in sys.modules)\n"
        "sys.exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_another_input_shape_is_captured_anew() -> None:
    graph = load_graph("lenet5", (1, 32, 32))
    assert graph == load_graph("lenet5")
    wide = load_graph("resnet50", (3, 64, 96))
    assert wide.inputs[0].shape == (2, 3, 64, 96)
    assert wide.outputs[0].shape == (2, 1000)


@pytest.mark.parametrize("file", ["graph.json", "program.pt2"])
def test_what_cannot_be_run_is_refused_with_what_can(file: str) -> None:
    with pytest.raises(RequestError, match=rf"{file} is an? .*; plan the model itself"):
        build_model(file)


def test_planning_a_shipped_network_never_imports_torch() -> None:
    script = (
        "import sys, slicewise\n"
        "plan = slicewise.plan(slicewise.load_graph('alexnet'), 'p100-4x4', batch=128, devices=4)\n"
        "assert plan.devices == 4 and plan.certificate['optimal']\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
