"""PaSE's Transformer on 4 to 64 devices: `python -m benchmarks.pase.run [4 8 ...]` prints the tables of README.md."""

import argparse
from collections import Counter

import torch

from benchmarks.markdown import show
from benchmarks.pase.transformer import BATCH, Transformer, sample
from slicewise.cluster.cluster import load_cluster
from slicewise.graph.capture import capture
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.spelling import short_spelled
from slicewise.planning import plan
from slicewise.plans.plan import Plan

CLUSTER = "p100-4x4"
PASE = {4: "9.8 s", 8: "28.8 s", 16: "2 min 11 s", 32: "9 min 13 s", 64: "31 min 23 s"}  # its own search, as published
PARTS = {  # of the network: how names of its layers end
    "embedding": ("source_words", "target_words"),
    "attention": ("scaled_dot_product_attention",),
    "hidden": (".first",),
    "back": (".last",),
    "scores": ("scores",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("devices", type=int, nargs="*", help=f"how many (default: {' '.join(map(str, PASE))})")
    counts = parser.parse_args().devices or list(PASE)
    with torch.device("meta"):
        graph = capture(Transformer(), sample(), name="transformer")
    head = ["devices", "search", "PaSE's search", "proven gap", "step", "data parallelism / step", *PARTS]
    show(f"{len(graph)} layers, batch {BATCH}, {CLUSTER}", head, (row(graph, devices) for devices in counts))


def row(graph: LayerGraph, devices: int) -> list[str]:
    cluster = load_cluster(CLUSTER).with_devices(devices)
    made = plan(graph, cluster, batch=BATCH, memory_limit=float("inf"))
    search_s = made.certificate["tables_s"] + made.certificate["search_s"]
    step_s = made.predicted["iteration_s"]
    data = made.baselines.get("data")
    return [
        str(devices),
        f"{search_s:.1f} s",
        PASE.get(devices, ""),
        f"{made.certificate['gap']:.1%}",
        f"{1e3 * step_s:.1f} ms",
        f"{data['iteration_s'] / step_s:.2f}" if data else "impossible",
        *(most(made, ends) for ends in PARTS.values()),
    ]


def most(made: Plan, ends: tuple[str, ...]) -> str:
    """The slicing that most of these layers have."""
    sizes = tuple(made.axes.values())
    found = Counter(
        short_spelled(slicing, sizes)
        for name, slicing in made.slicings.items()
        if name.split("#")[0].rstrip("_0123456789").endswith(ends) and not name.endswith(".fork")
    )
    return found.most_common(1)[0][0]


if __name__ == "__main__":
    main()
