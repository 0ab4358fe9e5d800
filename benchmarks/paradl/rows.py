"""Published runs, as the fit takes them."""

import csv
from dataclasses import dataclass

from benchmarks.paradl.networks import DATA
from slicewise.fitting.runs import Run

MODELS = {"ResNet-50": "resnet50", "VGG-16": "vgg16", "ResNet-50 v1.5": "resnet50", "ResNet-101": "resnet101"}
DTYPES = {"FP32": "fp32", "TF32": "tf32", "AMP": "fp16"}
GPUS_PER_NODE = 4  # of the ParaDL runs: hybrids have a group per node
# FW + BW seconds per sample on one V100, as the authors profiled them
PROFILED_S = {"resnet50": 0.003119502, "vgg16": 0.008245589}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured run and what else is known of it."""

    run: Run
    gpu: str
    precision: str
    framework: str
    gpus_per_node: int


def paradl_rows() -> list[Row]:
    """ParaDL's measured figure."""
    return [_row(line) for line in _lines("measured_gpu_runs.csv") if line["source"].startswith("ParaDL")]


def single_gpu_runs() -> list[Run]:
    """What the authors profiled on one GPU, with the batch of their data-parallel runs."""
    batches = {"resnet50": 64, "vgg16": 32}
    return [
        Run(model=model, strategy="serial", devices=1, batch=batches[model], iteration_s=batches[model] * per_sample_s)
        for model, per_sample_s in PROFILED_S.items()
    ]


def nvidia_rows() -> list[Row]:
    """NVIDIA's ResNet-50 examples."""
    return [_row(line) for line in _lines("measured_gpu_runs.csv") if line["source"].startswith("NVIDIA")]


def p100_rows() -> list[Row]:
    """ResNet-50 on one P100: the only other GPU here that was measured without tensor cores."""
    lines = [line for line in _lines("measured_gpu_runs.csv") if line["source"].startswith("TensorFlow")]
    return [_row(line) for line in lines if line["model"] == "ResNet-50" and line["gpus"] == "1"]


def authors() -> dict[tuple[str, str, int], float]:
    """(model, strategy, GPUs) -> the seconds that the authors' own model projected."""
    return {
        (MODELS[line["model"]], line["strategy"], int(line["gpus"])): float(line["iteration_s"])
        for line in _lines("paradl_authors_projections.csv")
    }


def authors_terms() -> dict[tuple[str, str, int], tuple[float, float]]:
    """The same as compute and communication, where the figure tells them apart."""
    return {
        (MODELS[line["model"]], line["strategy"], int(line["gpus"])): (float(line["comp_s"]), float(line["comm_s"]))
        for line in _lines("paradl_authors_projections.csv")
        if line["comp_s"]
    }


def gpipe_rows() -> list[Run]:
    """torchgpipe's ResNet-101: one GPU without recomputation, then pipelines on several."""
    lines = [line for line in _lines("measured_gpu_runs.csv") if line["source"].startswith("torchgpipe")]
    alone = [line for line in lines if line["strategy"] == "serial"]
    several = [line for line in lines if line["strategy"] == "pipeline" and int(line["gpus"]) > 1]
    return [_row(line).run for line in (*alone, *several)]


def collectives() -> list[dict[str, str]]:
    """All-reduces of at least 1 MB with their time."""
    lines = [line for line in _lines("nccl_tests_allreduce.csv") if line["collective"] == "all_reduce"]
    return [line for line in lines if line["size_bytes"] and float(line["size_bytes"]) >= 2**20]


def _row(line: dict[str, str]) -> Row:
    devices, strategy = int(line["gpus"]), line["strategy"]
    return Row(
        run=Run(
            model=MODELS[line["model"]],
            strategy=strategy,
            devices=devices,
            batch=int(line["global_batch"]),
            iteration_s=float(line["iteration_s"]),
            split=(devices // GPUS_PER_NODE, GPUS_PER_NODE) if "+" in strategy else None,
            dtype=DTYPES[line["precision"]],
        ),
        gpu=line["gpu"].removeprefix("NVIDIA ").removesuffix("GB"),
        precision=line["precision"],
        framework=line["framework"].split(" ")[0],
        gpus_per_node=int(line["gpus_per_node"]),
    )


def _lines(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
