"""Exported programs are models like any other, if their batch may change."""

import io
import logging
import os
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from slicewise.errors import GraphError, RequestError
from slicewise.graph.capture import capture
from slicewise.graph.sources import load_graph


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class _Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.folder),)


def exported(path: Path, *, training: bool = True, dynamic: tuple[int, ...] = (0,)) -> str:
    dims = {dim: torch.export.Dim(f"dim{dim}", min=4, max=4096) for dim in dynamic}
    program = torch.export.export(network().train(training), (torch.zeros(4, 3, 8, 8),), dynamic_shapes=(dims or None,))
    torch.export.save(program, path)
    return str(path)


def test_a_program_has_the_layers_of_its_model(tmp_path: Path) -> None:
    path = exported(tmp_path / "net.pt2")
    graph = load_graph(path, trust=True)
    assert graph.name == path
    assert graph.layers[1:] == capture(network(), torch.zeros(2, 3, 8, 8)).layers[1:]
    assert load_graph(path, (3, 8, 8), trust=True) == graph


def test_a_program_for_one_batch_is_refused_with_what_to_export(tmp_path: Path) -> None:
    path = exported(tmp_path / "net.pt2", dynamic=())
    with pytest.raises(GraphError, match=r"net.pt2 was exported for exactly 4 samples; export it with dynamic_shapes="):
        load_graph(path, trust=True)


def test_a_program_for_inference_is_refused(tmp_path: Path) -> None:
    path = exported(tmp_path / "net.pt2", training=False)
    with pytest.raises(GraphError, match=r"net.pt2 was exported in eval mode; call model.train\(\) before"):
        load_graph(path, trust=True)


def test_a_program_takes_another_size_only_where_it_was_exported_for_any(tmp_path: Path) -> None:
    fixed = exported(tmp_path / "fixed.pt2")
    for shape in [(3, 16, 8), (3, 8), (1, 8, 8)]:
        with pytest.raises(RequestError, match=r"was exported for samples of \(3, 8, 8\); leave out `input`"):
            load_graph(fixed, shape, trust=True)
    free = exported(tmp_path / "free.pt2", dynamic=(0, 2))
    assert load_graph(free, (3, 16, 8), trust=True).inputs[0].shape == (2, 3, 16, 8)


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with pytest.raises(GraphError, match=r"net.pt2: no such file"):
        load_graph(str(path), trust=True)
    path.write_text("not a program")
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append  # type: ignore[method-assign,assignment]
    logging.getLogger("torch.export").addHandler(handler)
    with pytest.raises(GraphError, match=r"net.pt2: not an exported program"):
        load_graph(str(path), trust=True)
    logging.getLogger("torch.export").removeHandler(handler)
    assert not told  # one line, and no traceback of torch's


def test_a_program_is_only_opened_where_it_is_trusted(tmp_path: Path) -> None:
    """Its sample, a pickle, makes a folder when it is loaded."""
    harmless, made = exported(tmp_path / "net.pt2"), tmp_path / "made by the pickle"
    buffer = io.BytesIO()
    torch.save(_Runs(made), buffer)
    evil = str(tmp_path / "evil.pt2")
    with zipfile.ZipFile(harmless) as source, zipfile.ZipFile(evil, "w") as target:
        for entry in source.infolist():
            is_sample = entry.filename.endswith("sample_inputs/model.pt")
            target.writestr(entry.filename, buffer.getvalue() if is_sample else source.read(entry))
    with pytest.raises(
        RequestError, match=r"evil.pt2: an exported program holds pickles, .*; if you .*, add `trust=True`"
    ):
        load_graph(evil)
    assert not made.exists()
    with pytest.raises(GraphError):
        load_graph(evil, trust=True)
    assert made.exists()  # so it would have been
