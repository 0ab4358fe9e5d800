"""How long planning takes: `python -m benchmarks.search.run [--quick]` prints the tables of README.md."""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.markdown import show
from slicewise.cluster.cluster import load_cluster
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.partition.legal import SPACES
from slicewise.planning import plan

PAPER_S = {"lenet5": 0.01, "alexnet": 0.02, "vgg16": 0.1, "inception_v3": 0.4}
TODAY = ("vit_l_16", "swin_t", "unetr")
CASES: list[dict[str, Any]] = [
    {"model": "inception_v3", "devices": 32, "bar_s": 2.4},
    {"model": "resnet101", "devices": 32, "bar_s": 1.5},
    *({"model": model, "devices": 32, "bar_s": 3.0} for model in TODAY),
    {"model": "inception_v3", "devices": 64},
    {"model": "resnet101", "devices": 64},
    {"model": "inception_v3", "devices": 1024, "bar_s": 9.0},
    {"model": "resnet50", "devices": 1024, "bar_s": 8.0},
    {"model": "resnet152", "devices": 1024, "bar_s": 16.0},
    *({"model": model, "devices": 1024, "bar_s": 30.0} for model in TODAY),
    {"model": "densenet121", "devices": 1024, "bar_s": 45.0},
    {"model": "densenet121", "devices": 1024, "gap": 0.01},
    {"model": "resnet50", "devices": 4096, "bar_s": 30.0},
    {"model": "resnet152", "cluster": "abci-v100", "devices": 256, "batch": 8192, "gap": 0.01, "bar_s": 20.0},
]
USER_FILE = """
import torch
from torch import nn

def net():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    ), torch.zeros(2, 3, 64, 64)
"""


def case(request: dict[str, Any]) -> dict[str, Any]:
    """One plan, in this process."""
    graph = load_graph(request["model"])
    if "blocks" in request:
        graph = deepened(graph, request["blocks"])
    cluster = load_cluster(request["cluster"]).with_devices(request["devices"])
    started = time.perf_counter()
    made = plan(
        graph,
        cluster,
        batch=request.get("batch", 32 * cluster.devices),
        cost=request.get("cost", "analytic"),
        space=SPACES[request.get("space", "full")],
        memory_limit=float("inf"),
        gap=request.get("gap", 0.0),
        time_limit=request.get("time_limit"),
    )
    total_s = time.perf_counter() - started
    return {
        **made.certificate,
        "total_s": total_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "best_s": made.predicted["additive_s"],
    }


def deepened(graph: LayerGraph, blocks: int) -> LayerGraph:
    """A residual network with one of its blocks repeated."""
    prefix = "layer3.5."
    places = [number for number, layer in enumerate(graph.layers) if layer.name.startswith(prefix)]
    block = graph.layers[places[0] : places[-1] + 1]
    inside = {layer.name for layer in block}
    entry = next(source for layer in block for source in layer.inputs if source not in inside)
    out = block[-1].name
    layers: list[Layer] = list(graph.layers[: places[-1] + 1])
    last = out
    for copy in range(blocks):
        names = {name: name.replace(prefix, f"layer3.5x{copy}.") for name in inside} | {entry: last}
        for layer in block:
            weights = tuple(replace(w, name=w.name.replace(prefix, f"layer3.5x{copy}.")) for w in layer.weights)
            inputs = tuple(names[source] for source in layer.inputs)
            layers.append(replace(layer, name=names[layer.name], inputs=inputs, weights=weights))
        last = names[out]
    for layer in graph.layers[places[-1] + 1 :]:
        layers.append(replace(layer, inputs=tuple(last if source == out else source for source in layer.inputs)))
    return LayerGraph(name=f"{graph.name}+{blocks}", layers=tuple(layers))


def measured(**request: Any) -> dict[str, Any]:
    """The same in a process of its own, for its peak memory."""
    command = [sys.executable, "-m", "benchmarks.search.run", "--case", json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def result(row: dict[str, Any]) -> str:
    return "optimal" if row["optimal"] else f"gap {row['gap']:.2%}"


def paper() -> None:
    rows = []
    for model, bar in PAPER_S.items():
        row = measured(model=model, cluster="p100-4x4", devices=4, cost="optcnn", space="optcnn")
        rows.append(
            [model, str(row["layers"]), f"{row['search_s']:.3f} s", f"{bar} s", f"{row['tables_s']:.3f} s", result(row)]
        )
    show(
        "The paper's space and cost model, 4 devices",
        ["network", "layers", "search", "the paper's", "tables", "result"],
        rows,
    )


def full(cases: list[dict[str, Any]]) -> None:
    rows = []
    for asked in cases:
        bar_s = asked.pop("bar_s", None)
        row = measured(**{"cluster": "dgx-a100", **asked})
        rows.append(
            [
                named(asked),
                str(asked["devices"]),
                f"{row['configurations']:,}",
                f"{row['surviving']:,}",
                f"{row['tables_s']:.1f} s",
                f"{row['search_s']:.1f} s",
                f"{row['tables_s'] + row['search_s']:.1f} s",
                f"{bar_s:g} s" if bar_s else "",
                f"{row['total_s']:.1f} s",
                f"{row['peak_mb'] / 1024:.1f} GB",
                result(row),
                f"{row['simulated_gap']:.1%}",
            ]
        )
    columns = "network, devices, slicings, left, tables, search, both, to reach, whole plan(), peak memory, result"
    show("The full space", [*columns.split(", "), "simulated gap"], rows)


def named(asked: dict[str, Any]) -> str:
    """A row's network, with what is asked of it besides."""
    options = [f"`--cluster {asked['cluster']}`"] if "cluster" in asked else []
    options += [f"`--batch {asked['batch']}`"] if "batch" in asked else []
    options += [f"`--gap {asked['gap']:.0%}`"] if asked.get("gap") else []
    return ", ".join([asked["model"], *options])


def limits(counts: list[int]) -> None:
    """A time limit T is kept if tables and search take at most 1.2 T + 0.5 s."""
    rows = []
    for model in ("resnet50", "inception_v3"):
        for devices in counts:
            for limit_s in (1, 5):
                row = measured(model=model, cluster="dgx-a100", devices=devices, time_limit=limit_s)
                took = row["tables_s"] + row["search_s"]
                told = f"{row['gap']:.1%}", f"{row['simulated_gap']:.1%}"
                kept = f"{1.2 * limit_s + 0.5:.1f} s"
                rows.append(
                    [model, str(devices), f"{limit_s} s", f"{took:.2f} s", kept, f"{row['total_s']:.2f} s", *told]
                )
    show(
        "Time limits",
        ["network", "devices", "limit", "tables + search", "to reach", "whole plan()", "gap", "simulated gap"],
        rows,
    )


def growth(devices: list[int], blocks: list[int]) -> None:
    rows = []
    for count in devices:
        row = measured(model="resnet50", cluster="dgx-a100", devices=count)
        took = row["tables_s"] + row["search_s"]
        rows.append([str(count), f"{row['configurations']:,}", f"{took:.2f} s", result(row)])
    show("ResNet-50 over devices", ["devices", "slicings", "tables + search", "result"], rows)
    rows = []
    for extra in blocks:
        row = measured(model="resnet50", cluster="dgx-a100", devices=32, blocks=extra)
        took = row["tables_s"] + row["search_s"]
        rows.append([str(50 + 3 * extra), str(row["layers"]), f"{took:.2f} s", f"{1000 * took / row['layers']:.1f} ms"])
    show(
        "ResNets over depth, 32 devices",
        ["weighted layers", "layers", "tables + search", "per layer"],
        rows,
    )


def cold() -> None:
    slicewise = str(Path(sys.executable).parent / "slicewise")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "user.py"
        file.write_text(USER_FILE)
        commands = {
            "slicewise --help": [slicewise, "--help"],
            "slicewise plan vgg16 --cluster p100-4x4 --batch 512": [
                slicewise, "plan", "vgg16", "--cluster", "p100-4x4", "--batch", "512",
            ],
            "slicewise plan user.py:net --cluster p100-4x4 --batch 512 (captured)": [
                slicewise, "plan", f"{file}:net", "--cluster", "p100-4x4", "--batch", "512",
            ],
        }  # fmt: skip
        rows = []
        for name, command in commands.items():
            times = []
            for _ in range(3):
                started = time.perf_counter()
                subprocess.run(command, capture_output=True, check=True)
                times.append(time.perf_counter() - started)
            rows.append([f"`{name}`", f"{sorted(times)[1]:.2f} s"])
    show("Commands, cold (median of 3)", ["command", "time"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 64 devices, time limits at 256")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)  # what a process of its own answers
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(options.case)))
        return
    quick = options.quick
    paper()
    cases = [asked for asked in CASES if asked["devices"] <= 64 or not quick]
    full([dict(asked) for asked in cases])
    limits([256] if quick else [256, 1024])
    growth([2, 4, 8, 16, 32, 64] + ([] if quick else [128, 256, 512, 1024]), [0, 34] if quick else [0, 34, 100, 317])
    cold()


if __name__ == "__main__":
    main()
