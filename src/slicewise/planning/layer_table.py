"""A table of layer times that somebody measured, as the papers had theirs.

layer,slicing,shape,forward_s,backward_s,update_s
conv1,N2,,0.0031,0.0067,0.0001
fc,,8x1000,0.0004,0.0009,

For a plan, a line is for a layer under a slicing (`N2`, `F2`, `whole`), or for all slicings under which a device has an
output of that shape. For the oracle it is for the whole layer, with the samples that its shape begins with. Layers of
the same kind and sizes share it. Empty update_s: as the cost model says otherwise.
"""

import re
from math import prod
from pathlib import Path
from typing import NoReturn

from slicewise.cluster.times import LayerTime
from slicewise.cost.compute import shares
from slicewise.cost.measured import MeasuredModel, keys
from slicewise.errors import RequestError, UnknownName
from slicewise.formats.checking import checked
from slicewise.formats.files import number, parse_csv, read_text
from slicewise.formats.schema import Name, NonNegative, Table
from slicewise.graph.kind import Trait
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.legal import legal_choices
from slicewise.partition.spelling import short_spelled


class RowFields(Table):
    layer: Name
    forward_s: NonNegative
    backward_s: NonNegative
    slicing: str = ""
    shape: str = ""
    update_s: NonNegative | None = None


_COLUMNS = RowFields.__struct_fields__
_NUMBERS = ("forward_s", "backward_s", "update_s")


def read_layer_times(path: Path, model: MeasuredModel) -> dict[str, LayerTime]:
    """By the keys of `model`; errors name the file, the line and what would work."""
    found: dict[str, LayerTime] = {}
    for origin, row in _rows(path):
        found |= dict.fromkeys(_keys(row, model, origin), _time(row))
    return found


def read_sample_times(path: Path, graph: LayerGraph) -> dict[str, dict[int, LayerTime]]:
    """Of whole layers: by name, and by how many samples passed through it."""
    found: dict[str, dict[int, LayerTime]] = {}
    for origin, row in _rows(path):
        if row.layer not in graph.index:
            raise UnknownName(f"layer ({origin})", row.layer, graph.index)
        found.setdefault(row.layer, {})[_samples(row, graph[row.layer], origin)] = _time(row)
    return found


def _samples(row: RowFields, layer: Layer, origin: str) -> int:
    if layer.kind.has(Trait.FREE):
        raise RequestError(f"{origin}: {row.layer} computes nothing, so it has no time; remove the line")
    own = layer.shape[1:]
    if row.shape and not row.slicing:
        _items(row.shape, origin)
        samples, *rest = map(int, row.shape.split("x"))
        if samples and tuple(rest) == own:
            return samples
    wanted = "x".join(map(str, (32, *own)))
    given = f"slicing {row.slicing}" if row.slicing else f"shape {row.shape}" if row.shape else "no shape"
    raise RequestError(
        f"{origin}: {row.layer} has {given}; a line needs the shape of the whole output, samples first, as {wanted}"
    )


def _time(row: RowFields) -> LayerTime:
    return LayerTime(forward_s=row.forward_s, backward_s=row.backward_s, update_s=row.update_s)


def _rows(path: Path) -> list[tuple[str, RowFields]]:
    """Each with the line it stands in."""
    rows = parse_csv(read_text(path, RequestError, "CSV"), str(path), RequestError)
    names = rows[0][1] if rows else []
    for name in _COLUMNS[:3]:
        if name not in names:
            raise RequestError(f"{path}: no column {name!r}; the first line must name {', '.join(_COLUMNS)}")
    found: list[tuple[str, RowFields]] = []
    for line, cells in rows[1:]:
        origin = f"{path}, line {line}"
        given = {name: cell for name, cell in zip(names, cells, strict=False) if cell}
        values = {name: number(cell) if name in _NUMBERS else cell for name, cell in given.items()}
        found.append((origin, checked(RowFields, values, origin, RequestError)))
    if not found:
        raise RequestError(f"{path}: no layers; one line per layer and slicing, below the names of the columns")
    return found


def _keys(row: RowFields, model: MeasuredModel, origin: str) -> list[str]:
    if row.layer not in model.graph.index:
        raise UnknownName(f"layer ({origin})", row.layer, model.graph.index)
    if bool(row.slicing) == bool(row.shape):
        raise RequestError(f"{origin}: {row.layer}: give a slicing, as N2 or whole, or the shape of the output's part")
    layer, mesh = model.graph[row.layer], model.cluster.mesh
    choices = legal_choices(layer, mesh, model.space)
    part = shares(layer, choices)
    told = [short_spelled(choices[number], mesh.sizes).replace(" ", "") for number in range(len(choices))]
    if row.slicing:
        fits = [spelled == row.slicing.replace(" ", "") for spelled in told]
    else:
        fits = [items == _items(row.shape, origin) for items in part.output]
    if not any(fits):
        _refuse(row, told, origin)
    return [key for key, fit in zip(keys(layer, part, model.training), fits, strict=True) if fit]


def _items(shape: str, origin: str) -> int:
    if not re.fullmatch(r"\d{1,9}(x\d{1,9})*", shape):
        raise RequestError(f"{origin}: shape must look like 8x64x56x56 (got {shape!r})")
    return prod(map(int, shape.split("x")))


def _refuse(row: RowFields, told: list[str], origin: str) -> NoReturn:
    what = f"slicing {row.slicing!r}" if row.slicing else f"part of shape {row.shape}"
    raise RequestError(f"{origin}: {row.layer} has no {what}; choose from {', '.join(dict.fromkeys(told))}")
