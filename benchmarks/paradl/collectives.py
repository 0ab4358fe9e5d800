"""NCCL's all-reduce, 1 MB and up: fitted on every other size of one machine of a kind, tested on all the rest.

line     t = alpha + n / beta                          what a cluster's tier has
curve    t = alpha + gamma sqrt(n) + n / beta          messages cut into chunks that grow with them, so that sending
                                                       overlaps: (sqrt(alpha') + sqrt(n / beta))^2 has this form
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from benchmarks.markdown import show
from benchmarks.paradl.rows import collectives
from slicewise.partition.choices import Floats

Form = Callable[[Floats], Floats]  # sizes -> a column per parameter
FORMS: dict[str, Form] = {
    "line": lambda size: np.stack([np.ones_like(size), size], axis=1),
    "curve": lambda size: np.stack([np.ones_like(size), np.sqrt(size), size], axis=1),
}
# tuned and untuned RoCE are not one kind: the same machines differ threefold
_UNTUNED = "OCI GPU cluster tutorial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """All-reduces of one machine."""

    source: str
    kind: str
    size: Floats
    seconds: Floats


def curves() -> list[Curve]:
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in collectives():
        point = float(line["size_bytes"]), float(line["time_us_oop"]) * 1e-6
        found.setdefault((line["source"], _kind(line)), []).append(point)
    return [
        Curve(source=source, kind=kind, size=np.array(points)[:, 0], seconds=np.array(points)[:, 1])
        for (source, kind), points in ((key, sorted(value)) for key, value in found.items())
    ]


def _kind(line: dict[str, str]) -> str:
    gpu = "V100" if "V100" in line["gpu"] else "A100" if "A100" in line["gpu"] else "GPU not stated"
    link = "NVLink" if line["nodes"] == "1" else "RoCE"
    if "NO NVLink" in line["interconnect"]:
        link = "PCIe"
    if "Slingshot" in line["interconnect"]:
        link = "Slingshot"
    if link == "RoCE" and line["source"] == _UNTUNED:
        link = "RoCE, untuned"
    return f"{line['gpus']} x {gpu}, {link}"


def fitted(form: Form, curve: Curve) -> Floats:
    """Parameters >= 0 by least squares on the relative error, as `slicewise calibrate` fits its lines."""
    columns = form(curve.size) / curve.seconds[:, None]
    scale = np.linalg.norm(columns, axis=0)
    found, _ = nnls(columns / scale, np.ones(len(curve.size)))
    parameters: Floats = found / scale
    return parameters


def errors(form: Form, kind: list[Curve]) -> Floats:
    """|predicted - measured| / measured of every size not fitted; the machine with most sizes is the one fitted."""
    chosen = max(kind, key=lambda curve: len(curve.size))
    known = Curve(source=chosen.source, kind=chosen.kind, size=chosen.size[::2], seconds=chosen.seconds[::2])
    parameters = fitted(form if len(known.size) > 2 else _rate_only, known)
    off = []
    for curve in kind:
        size, seconds = (curve.size[1::2], curve.seconds[1::2]) if curve is chosen else (curve.size, curve.seconds)
        predicted = (form if len(known.size) > 2 else _rate_only)(size) @ parameters
        off.append(np.abs(predicted - seconds) / seconds)
    return np.concatenate(off)


def _rate_only(size: Floats) -> Floats:
    """One or two sizes cannot tell latency and bandwidth apart."""
    return size[:, None]


def kinds() -> dict[str, list[Curve]]:
    found: dict[str, list[Curve]] = {}
    for curve in curves():
        found.setdefault(curve.kind, []).append(curve)
    return found


def mean_error(name: str) -> float:
    return float(np.concatenate([errors(FORMS[name], kind) for kind in kinds().values()]).mean())


def show_collectives() -> None:
    rows = []
    for name, kind in kinds().items():
        chosen = max(kind, key=lambda curve: len(curve.size))
        off = {form: errors(FORMS[form], kind) for form in FORMS}
        others = [curve.source for curve in kind if curve is not chosen]
        rows.append(
            [
                name,
                f"{chosen.source}, {len(chosen.size[::2])} sizes",
                f"{len(chosen.size[1::2])} sizes" + "".join(f"; {source}" for source in others),
                str(len(off["line"])),
                *(f"{off[form].mean():.1%} ({off[form].max():.0%})" for form in FORMS),
            ]
        )
    tested = sum(int(row[3]) for row in rows)
    rows.append(["over all", "", "", str(tested), *(f"{mean_error(form):.1%}" for form in FORMS)])
    head = ["kind", "fitted on every other size of", "tested on its other sizes and", "rows tested", *FORMS]
    show("NCCL all-reduce, 1 MB and up: mean (largest) relative error", head, rows)
