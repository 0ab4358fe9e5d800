"""Published steps of transformers in fp32 on one GPU, against compute alone: `python -m benchmarks.runs.transformers`.

NeuSight's networks (data/neusight_networks.csv), with presets' devices and software `plain`. Left out: experts that
are chosen token by token, steps fused by a compiler, several GPUs, devices without fitted kernels. All blocks of a
network are alike, so one is captured (torch), and priced as often as there are blocks. They were measured with scores
spelled out, as frameworks of 2023 had them (product, scale, mask, softmax, product); `fused` is the same network with
one layer for all of these.
"""

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import log
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.markdown import show
from slicewise.cluster.cluster import load_cluster
from slicewise.cluster.device import load_device
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.compute import shares
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.choices import Choices

FILE = Path(__file__).parent / "data" / "neusight_networks.csv"
DEVICES = {
    "P100-16GB-PCIe": "P100",
    "V100-32GB-PCIe": "V100-32",
    "A100-40GB-PCIe": "A100-40",
    "A100-80GB-PCIe": "A100-80",
    "H100-80GB-HBM3": "H100",
}


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int, ffn: int, sequence: int, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)
        self.mask = nn.Buffer(torch.zeros(1, 1, sequence, sequence))

    def forward(self, x_nqc: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x_nqc)).chunk(3, dim=2)
        )
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            mixed = (scores + self.mask).softmax(dim=3) @ v
        x_nqc = x_nqc + self.out(mixed.transpose(1, 2).flatten(2))
        wide: Tensor = self.down(F.gelu(self.up(self.norm2(x_nqc))))
        return x_nqc + wide


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    device: str
    mode: str
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        """ln(measured / predicted)."""
        return log(self.measured_s / self.predicted_s)

    @property
    def accuracy(self) -> float:
        return max(0.0, 1 - abs(self.predicted_s - self.measured_s) / self.measured_s)


@cache
def _parts(
    hidden: int, heads: int, ffn: int, sequence: int, vocab: int, *, fused: bool
) -> tuple[LayerGraph, LayerGraph]:
    """One block, and what turns its output into words. The layer before stands for the others: it gets a gradient."""
    with torch.device("meta"):
        sample, one = torch.zeros(2, sequence, hidden), Block(hidden, heads, ffn, sequence, fused=fused)
        block = capture(nn.Sequential(nn.LayerNorm(hidden), one), sample, name="block")
        head = capture(nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)), sample, name="head")
    return block, head


def steps(*, fused: bool) -> list[Step]:
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["device"] in DEVICES]
    alone = [row for row in rows if row["gpus"] == "1" and row["compiled"] == "0" and row["layers"].isdigit()]
    return [_step(row, fused=fused) for row in alone]


def _step(row: dict[str, str], *, fused: bool) -> Step:
    sizes = (int(row[name]) for name in ("hidden", "heads", "ffn", "sequence", "vocab"))
    block, head = (graph.with_batch(int(row["batch"])) for graph in _parts(*sizes, fused=fused))
    seconds = int(row["layers"]) * _seconds(block, row, but=1) + _seconds(head, row)
    return Step(row["model"], row["device"], row["mode"], float(row["seconds"]), seconds)


def _seconds(graph: LayerGraph, row: dict[str, str], but: int = 0) -> float:
    """Without its first norms, if the network has them once only."""
    cluster = replace(load_cluster("dgx-a100").with_devices(1), device=load_device(DEVICES[row["device"]]))
    model = AnalyticModel(graph, replace(cluster, software="plain"))
    whole = Choices.of([(None,) * len(cluster.mesh.axes)], cluster.mesh)
    total_s = 0.0
    for layer in [layer for layer in graph.layers if layer.name != "input"][but:]:
        work = model.device_work(layer, shares(layer, whole))
        total_s += float(work["forward_s"][0]) + (float(work["backward_s"][0]) if row["mode"] == "training" else 0.0)
    return total_s


def _cells(name: str, found: Iterable[Step]) -> list[str]:
    chosen = list(found)
    errors = [one.error for one in chosen]
    rms = mean(error**2 for error in errors) ** 0.5
    return [name, str(len(chosen)), f"{mean(one.accuracy for one in chosen):.1%}", f"{mean(errors):+.2f}", f"{rms:.2f}"]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = steps(fused=False)
    rows = [_cells("all", found), _cells("all, fused", steps(fused=True))]
    for key in ("mode", "name", "device"):
        for name in sorted({getattr(one, key) for one in found}):
            rows.append(_cells(name, (one for one in found if getattr(one, key) == name)))
    show("Transformers", ["what", "rows", "accuracy", "bias", "rms of ln"], rows)


if __name__ == "__main__":
    main()
