"""Models that others wrote, found by name."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from slicewise.errors import GraphError, RequestError, UnknownName
from slicewise.graph.factories import load_factory, make_model, tensors_of
from slicewise.graph.sources import build_model, load_graph, names_code

FACTORIES = """
import sys
import torch
from torch import nn

class Left(BaseException): pass

class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1).double()
    def forward(self, x, mask):
        return self.conv(x) * mask

class Leaves(nn.Conv2d):
    def forward(self, x): sys.exit(0)

def plain(): return nn.Conv2d(3, 4, 3)
def sampled(): return nn.Conv2d(3, 4, 3), torch.zeros(7, 3, 8, 8)
def nested(): return nn.Conv2d(3, 4, 3), (torch.zeros(7, 3, 8, 8),)
def wide(): return nn.Conv2d(3, 4, 3).double(), torch.zeros(7, 3, 8, 8, dtype=torch.float64)
def words_by_number(): return nn.Sequential(nn.Embedding(9, 5), nn.Linear(5, 2)), torch.zeros(7, 6, dtype=torch.int64)
def masked(): return Masked(), (torch.zeros(7, 3, 8, 8).double(), torch.zeros(7, 1, 8, 8).double())
def named(): return Masked(), {"mask": torch.zeros(7, 1, 8, 8).double(), "x": torch.zeros(7, 3, 8, 8).double()}
def leaves(): sys.exit(0)
def leaves_oddly(): raise Left("by the window\\nat night")
def leaves_forward(): return Leaves(3, 4, 3), torch.zeros(2, 3, 8, 8)
def words(): return "a network"
def unsampled(): return nn.Conv2d(3, 4, 3), (3, 8, 8)
def broken(): raise ValueError("no such checkpoint")
number = 3
"""


@pytest.fixture
def factories(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FACTORIES)
    return path


def library(**members: Any) -> ModuleType:
    module = ModuleType("library")
    module.__dict__.update(members)
    return module


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much of it as slicewise calls."""
    networks: dict[str, Callable[[], nn.Module]] = {
        "tiny": lambda: nn.Conv2d(3, 4, 3),
        "tiny_wide": lambda: nn.Conv2d(3, 8, 3),
        "vit": nn.Identity,
    }
    models = SimpleNamespace(
        list_models=lambda: list(networks),
        get_model=lambda name, weights: networks[name]() if weights is None else None,
    )
    monkeypatch.setitem(sys.modules, "torchvision", library(models=models))


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    made = library(
        list_models=lambda: ["tiny"],
        create_model=lambda name, pretrained: nn.Conv2d(3, 5, 3) if name == "tiny" and not pretrained else None,
    )
    monkeypatch.setitem(sys.modules, "timm", made)


@pytest.mark.parametrize("factory", ["sampled", "nested"])
def test_a_factory_may_bring_its_sample(factories: Path, factory: str) -> None:
    module, sample = build_model(f"{factories}:{factory}")
    assert isinstance(module, nn.Conv2d)
    assert [x.shape for x in tensors_of(sample)] == [(7, 3, 8, 8)]
    assert load_graph(f"{factories}:{factory}").inputs[0].shape == (2, 3, 8, 8)
    assert load_graph(f"{factories}:{factory}", (3, 16, 16)).inputs[0].shape == (2, 3, 16, 16)


@pytest.mark.parametrize(("factory", "dtype"), [("wide", torch.float64), ("words_by_number", torch.int64)])
@pytest.mark.filterwarnings("ignore::slicewise.graph.capture.OpaqueLayerWarning")
def test_a_sample_keeps_its_dtype(factories: Path, factory: str, dtype: torch.dtype) -> None:
    """A float32 sample would not pass: torch.export runs the model on it."""
    shape = load_graph(f"{factories}:{factory}").inputs[0].shape[1:]
    smaller = tuple(size - 1 if place else size for place, size in enumerate(shape))
    _, sample = build_model(f"{factories}:{factory}", smaller)
    assert [(x.dtype, x.shape[1:]) for x in tensors_of(sample)] == [(dtype, smaller)]
    assert load_graph(f"{factories}:{factory}", smaller).inputs[0].shape == (2, *smaller)


@pytest.mark.parametrize("factory", ["masked", "named"])
def test_a_sample_may_be_several_tensors_each_of_its_shape(factories: Path, factory: str) -> None:
    model = f"{factories}:{factory}"
    graph = load_graph(model)
    assert {layer.name: layer.shape for layer in graph.inputs} == {"x": (2, 3, 8, 8), "mask": (2, 1, 8, 8)}
    first = graph.inputs[0].shape[1:]
    assert load_graph(model, first) == graph  # what a plan remembers
    with pytest.raises(RequestError, match="brings a sample of 2 tensors, each of its shape; leave out `input`"):
        load_graph(model, (3, 16, 16))


def test_a_factory_without_a_sample_needs_a_shape(factories: Path) -> None:
    assert load_graph(f"{factories}:plain", (3, 8, 8)).inputs[0].shape == (2, 3, 8, 8)
    with pytest.raises(RequestError, match=r"give the shape of one sample: `input=\(3, 224, 224\)`"):
        build_model(f"{factories}:plain")


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        ("words", r"mine.py:words returned str; a factory returns a module or \(module, sample\)"),
        ("unsampled", r"mine.py:unsampled returned \(Conv2d, tuple\); a factory returns a module"),
        ("broken", "mine.py:broken failed: ValueError: no such checkpoint"),
        ("leaves", "mine.py:leaves failed: SystemExit: 0"),
        ("leaves_oddly", "mine.py:leaves_oddly failed: Left: by the window$"),
        ("absent", "mine.py has no factory 'absent'"),
        ("number", "mine.py has no factory 'number'"),
    ],
)
def test_a_factory_that_makes_no_model_is_named_with_what_it_did(factories: Path, factory: str, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        make_model(f"{factories}:{factory}")


def test_a_forward_that_ends_the_program_is_refused(factories: Path) -> None:
    with pytest.raises(GraphError, match=r"mine.py:leaves_forward: .*SystemExit: 0"):
        load_graph(f"{factories}:leaves_forward")


@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise GeneratorExit()", "1 / 0"])
def test_a_file_that_does_not_survive_its_import_is_named(tmp_path: Path, ending: str) -> None:
    (tmp_path / "mine.py").write_text(f"import sys\n{ending}\ndef net(): ...\n")
    with pytest.raises(
        RequestError, match=r"mine.py:net failed: (SystemExit: 0|GeneratorExit: |ZeroDivisionError: div)"
    ):
        load_factory(f"{tmp_path}/mine.py", "net")


def test_a_file_is_looked_for_in_the_folder_that_is_given_too(factories: Path) -> None:
    module, _ = build_model("mine.py:sampled", folder=factories.parent)
    assert isinstance(module, nn.Conv2d)
    assert load_graph("mine.py:sampled", folder=factories.parent).name == "mine.py:sampled"
    with pytest.raises(GraphError, match=rf"yours.py: no such file, nor in {factories.parent}"):
        make_model("yours.py:sampled", factories.parent)


def test_a_file_where_the_command_is_given_comes_before_one_in_the_folder(
    factories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine.py").write_text("def who(): return 'here'\n")
    monkeypatch.chdir(here)
    assert load_factory("mine.py", "who", factories.parent)() == "here"


@pytest.mark.parametrize(
    ("model", "complaint"),
    [("nowhere.py:net", r"nowhere.py: no such file"), ("no.where:net", r"no.where: no such module")],
)
def test_a_missing_place_is_named(model: str, complaint: str) -> None:
    with pytest.raises(GraphError, match=complaint):
        make_model(model)


@pytest.mark.usefixtures("torchvision")
def test_a_model_of_torchvision_is_made_without_weights_for_images_of_224() -> None:
    module, sample = build_model("torchvision:tiny")
    assert isinstance(module, nn.Conv2d)
    assert [x.shape[1:] for x in tensors_of(sample)] == [(3, 224, 224)]
    assert load_graph("torchvision:tiny", (3, 16, 16)).outputs[0].shape == (2, 4, 14, 14)


@pytest.mark.usefixtures("timm")
def test_a_model_of_timm_is_made_without_weights_for_images_of_224() -> None:
    graph = load_graph("timm:tiny")
    assert graph.name == "timm:tiny"
    assert graph.outputs[0].shape == (2, 5, 222, 222)


@pytest.mark.usefixtures("torchvision")
def test_an_unknown_model_of_a_library_gets_the_names_like_it() -> None:
    with pytest.raises(UnknownName, match=r"unknown torchvision model 'tinny'; choose from .*tiny.* its 3 models"):
        build_model("torchvision:tinny")


@pytest.mark.parametrize("place", ["torchvision", "timm"])
def test_a_library_that_is_not_installed_is_asked_for_in_one_line(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.delitem(sys.modules, place, raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(GraphError) as raised:
        build_model(f"{place}:resnet18")
    expected = f"{place}:resnet18 needs the package {place}, which is not installed; install it beside torch"
    assert str(raised.value) == expected


def test_a_library_that_fails_to_import_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("raise ImportError('built for another torch')")
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GraphError, match="needs the package timm, which fails to import: built for another torch"):
        build_model("timm:resnet18")


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("resnet50", False),
        ("graph.json", False),
        ("torchvision:tiny", False),
        ("timm:tiny", False),
        ("mine.py:net", True),
        ("os:abort", True),
        ("net.pt2", True),
    ],
)
def test_it_is_known_which_names_run_code(model: str, code: bool) -> None:
    assert names_code(model) is code
