"""Models that others wrote, found by name."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from torch import nn

from slicewise.errors import GraphError, RequestError, UnknownName
from slicewise.graph.factories import make_model
from slicewise.graph.sources import build_model, load_graph

FACTORIES = """
import torch
from torch import nn

def plain(): return nn.Conv2d(3, 4, 3)
def sampled(): return nn.Conv2d(3, 4, 3), torch.zeros(7, 3, 8, 8)
def nested(): return nn.Conv2d(3, 4, 3), (torch.zeros(7, 3, 8, 8),)
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
    module, shape = build_model(f"{factories}:{factory}")
    assert isinstance(module, nn.Conv2d)
    assert shape == (3, 8, 8)
    assert build_model(f"{factories}:{factory}", (3, 16, 16))[1] == (3, 16, 16)


def test_a_factory_without_a_sample_needs_a_shape(factories: Path) -> None:
    assert build_model(f"{factories}:plain", (3, 8, 8))[1] == (3, 8, 8)
    with pytest.raises(RequestError, match="give the shape of one sample, as in --input 3x224x224"):
        build_model(f"{factories}:plain")


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        ("words", r"mine.py:words returned str; a factory returns a module or \(module, sample tensor\)"),
        ("unsampled", r"mine.py:unsampled returned \(Conv2d, tuple\); a factory returns a module"),
        ("broken", "mine.py:broken failed: ValueError: no such checkpoint"),
        ("absent", "mine.py has no factory 'absent'"),
        ("number", "mine.py has no factory 'number'"),
    ],
)
def test_a_factory_that_makes_no_model_is_named_with_what_it_did(factories: Path, factory: str, complaint: str) -> None:
    with pytest.raises(GraphError, match=complaint):
        make_model(f"{factories}:{factory}")


@pytest.mark.parametrize(
    ("model", "complaint"),
    [("nowhere.py:net", r"nowhere.py: no such file"), ("no.where:net", r"no.where: no such module")],
)
def test_a_missing_place_is_named(model: str, complaint: str) -> None:
    with pytest.raises(GraphError, match=complaint):
        make_model(model)


@pytest.mark.usefixtures("torchvision")
def test_a_model_of_torchvision_is_made_without_weights_for_images_of_224() -> None:
    module, shape = build_model("torchvision:tiny")
    assert isinstance(module, nn.Conv2d)
    assert shape == (3, 224, 224)
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
