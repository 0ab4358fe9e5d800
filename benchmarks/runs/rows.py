"""Published training runs as questions to the oracle.

A user would give the network, the preset with the GPU and the GPUs of a machine, batch, dtype, strategy and the
software level; nothing else is said here either. Left out: Mask R-CNN (its times include evaluation), the parameter
servers of 2017 on several GPUs, `nn.DataParallel`, and GPUs that the catalogue lacks (K80, P40).
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slicewise.cluster.cluster import Cluster, load_cluster, machine_of
from slicewise.cluster.device import load_device

HERE = Path(__file__).parent
FILES = (HERE.parent / "paradl" / "data" / "measured_gpu_runs.csv", HERE / "data" / "measured_gpu_runs_2.csv")
NETWORKS = {
    "ResNet-50": "resnet50",
    "ResNet-50 v1.5": "resnet50",
    "ResNet-101": "resnet101",
    "VGG-16": "vgg16",
    "resnet152": "resnet152",
    "densenet121": "densenet121",
    "AlexNet": "alexnet",
    "InceptionV3": "inception_v3",
    "ResNeXt101-32x4d": "resnext101",
    "efficientnet-b0": "efficientnet_b0",
    "EfficientNet v1-B0": "efficientnet_b0",
    "nnU-Net 2D": "nnunet_2d",
    "nnU-Net 3D": "nnunet_3d",
    "3D U-Net (KiTS19)": "unet3d_kits",
    "SSD300-ResNet34": "ssd300",
}
# the first of these that a GPU's name contains, its device in the catalogue and the preset of its kind
GPUS = (
    ("V100-SXM2-16GB (ABCI)", "", "abci-v100"),
    ("V100-16GB", "V100-16", "dgx1-v100"),
    ("V100_16GB", "V100-16", "dgx1-v100"),
    ("V10016G", "V100-16", "dgx1-v100"),
    ("V100", "V100-32", "dgx1-v100"),
    ("A100_80GB_PCIe", "A100-80-PCIe", "dgx-a100"),
    ("A100_PCIe", "A100-40-PCIe", "dgx-a100"),
    ("A100-PCI", "A100-40-PCIe", "dgx-a100"),
    ("A100-80", "A100-80", "dgx-a100"),
    ("A100_80", "A100-80", "dgx-a100"),
    ("A100-SXM4-80", "A100-80", "dgx-a100"),
    ("A100-SXM-80", "A100-80", "dgx-a100"),
    ("A100", "A100-40", "dgx-a100"),
    ("H100_80GB_PCIe", "H100-PCIe", "dgx-h100"),
    ("H100", "H100", "dgx-h100"),
    ("P100", "P100", "dgx1-v100"),
    ("1080 Ti", "GTX-1080Ti", "dgx1-v100"),
    ("2080 Ti", "RTX-2080Ti", "dgx1-v100"),
    ("A30", "A30", "dgx-a100"),
    ("RTX 3080", "RTX-3080", "dgx-a100"),
    ("RTX 3090", "RTX-3090", "dgx-a100"),
    ("RTX 4090", "RTX-4090", "dgx-a100"),
    ("RTX A6000", "RTX-A6000", "dgx-a100"),
    ("RTX 6000 Ada", "RTX-6000-Ada", "dgx-a100"),
)
TUNED = ("NVIDIA", "MLPerf")  # vendors' examples and submissions; everybody else takes a framework as it comes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublishedRun:
    source: str
    framework: str
    network: str
    machine: Cluster
    gpu: str  # as the source has it
    dtype: str
    strategy: str
    devices: int
    batch: int
    iteration_s: float

    @property
    def device(self) -> str:
        return self.machine.device.name

    @property
    def software(self) -> str:
        return self.machine.software


def published(files: tuple[Path, ...] = FILES) -> list[PublishedRun]:
    return [run for path in files for line in _lines(path) if (run := _run(line)) is not None]


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _run(line: dict[str, str]) -> PublishedRun | None:
    source, network = line["source"].split(" ")[0], NETWORKS.get(line["model"])
    known = next((found for found in GPUS if found[0] in line["gpu"]), None)
    strategy, devices = line["strategy"].partition(" ")[0], int(line["gpus"])
    by_server = "parameter_server" in line["notes"] or "distributed_replicated" in line["notes"]
    if network is None or known is None or "DataParallel" in line["strategy"] or (by_server and devices > 1):
        return None
    if "train GPUs=" in line["strategy"]:  # the others evaluate
        devices = int(line["strategy"].partition("train GPUs=")[2].partition(",")[0])
    machine = _machine(known[1], known[2], int(line["gpus_per_node"]))
    machine = machine_of(machine, software="tuned" if source.startswith(TUNED) else "plain")
    return PublishedRun(
        source=source,
        framework=line["framework"].split(" ")[0],
        network="vgg16_paradl" if (source, network) == ("ParaDL", "vgg16") else network,
        machine=machine,
        gpu=line["gpu"],
        dtype=_dtype(line["precision"], machine),
        strategy=strategy,
        devices=devices,
        batch=int(line["global_batch"]),
        iteration_s=float(line["iteration_s"]),
    )


def _machine(device: str, preset: str, gpus_per_node: int) -> Cluster:
    machine = load_cluster(preset)
    if not device:
        return machine
    tiers = tuple(replace(tier, size=gpus_per_node) if tier.name == "intra" else tier for tier in machine.tiers)
    return replace(machine, device=load_device(device), tiers=tiers)


def _dtype(precision: str, machine: Cluster) -> str:
    if "AMP" in precision or "FP16" in precision:
        return "fp16"
    return "tf32" if "TF32" in precision and "tf32" in machine.device.peaks else "fp32"
