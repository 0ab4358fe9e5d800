"""What the layer-wise paper reports: figures 7 and 8, the search times, and its plan for VGG-16 on 4 GPUs."""

import csv
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"
LINKS = str(DATA / "p100-links.toml")
ONE_NVLINK = str(DATA / "p100-one-nvlink.toml")
NETWORKS = {"alexnet_optcnn": "AlexNet", "vgg16": "VGG-16"}  # ours -> the paper's
STRATEGIES = {"data": "data", "filter": "model", "owt": "owt", "layerwise": "layerwise"}
GPUS = (2, 4, 8, 16)
BATCH_PER_GPU = 32
GIB = 2**30

# layers as the paper counts them, depth-first search, elimination; on 4 GPUs
SEARCH: dict[str, tuple[int, str, str]] = {
    "lenet5": (6, "5.6 s", "0.01 s"),
    "alexnet_optcnn": (11, "2.1 h", "0.02 s"),
    "vgg16": (21, "> 24 h", "0.1 s"),
    "inception_v3": (102, "> 24 h", "0.4 s"),
}

# VGG-16 on 4 GPUs, as pins: ten convolutions and their pools by sample, the last three and their pool by space, the
# linear layers by output channel, the last over two devices. Its softmax, on one device, is no layer of ours.
VGG16_PLAN = (
    *(f"features.{layer}=N4" for layer in (0, 2, 4, 5, 7, 9, 10, 12, 14, 16, 17, 19, 21, 23)),
    *(f"features.{layer}=H2W2" for layer in (24, 26, 28, 30)),
    "classifier.0=F4",
    "classifier.3=F4",
    "classifier.6=F2",
)

# table 4: (estimated - measured) / measured step of the layer-wise plan, on 1, 2, 4, 8 and 16 GPUs
COST_ERRORS = {"alexnet_optcnn": (0.01, 0.04, -0.05, 0.02, -0.01), "vgg16": (0.0, 0.03, 0.02, 0.06, 0.07)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    images_per_s: float
    gib: float | None  # per step, all devices together; not given for one GPU


def bars() -> dict[tuple[str, str, int], Bar]:
    """By our names of network and strategy, and GPUs."""
    networks = {theirs: ours for ours, theirs in NETWORKS.items()}
    strategies = {theirs: ours for ours, theirs in STRATEGIES.items()}
    with (DATA / "optcnn_figures.csv").open(encoding="utf-8", newline="") as file:
        return {
            (networks[row["model"]], strategies[row["strategy"]], int(row["gpus"])): Bar(
                images_per_s=float(row["images_per_sec_fig7"]),
                gib=float(row["gib_per_step_fig8"]) if row["gib_per_step_fig8"] else None,
            )
            for row in csv.DictReader(file)
        }
