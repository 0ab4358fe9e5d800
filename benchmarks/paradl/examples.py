"""NVIDIA's ResNet-50 examples: several GPUs from one GPU's row, and one GPU from another GPU's rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.markdown import show
from benchmarks.paradl.rows import Row, nvidia_rows, p100_rows
from benchmarks.paradl.scores import Score, accuracy, score
from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cluster.device import Device, load_device
from slicewise.fitting.fit import fit
from slicewise.fitting.projecting import Projector
from slicewise.fitting.runs import Run

PRESETS = {"V100": "dgx1-v100", "A100": "dgx-a100", "P100": "dgx1-v100"}  # one P100 uses no link


@dataclass(frozen=True, slots=True)
class Transfer:
    """Efficiencies of one GPU on another that has the same kind of arithmetic unit."""

    source: str
    target: str
    precisions: tuple[str, ...]  # of the target
    fitted: tuple[Row, ...]
    tested: tuple[Row, ...]


def machine(row: Row) -> Cluster:
    """The preset of its kind, with the row's GPU and machine size; vendors' examples are tuned and overlap exchange."""
    preset = load_cluster(PRESETS[family(row)])
    tiers = tuple(replace(t, size=row.gpus_per_node) if t.name == "intra" else t for t in preset.tiers)
    tuning = replace(preset.tuning, overlap=preset.overlap)
    return replace(preset, device=gpu(row), tiers=tiers, tuning=tuning, software="tuned")


def family(row: Row) -> str:
    return next(name for name in PRESETS if name in row.gpu)


def gpu(row: Row) -> Device:
    return load_device("P100" if "P100" in row.gpu else row.gpu)


def several_from_one(projector: Projector) -> dict[Row, float]:
    """Fitted on the one-GPU row of the same GPU, precision and framework; nothing of several GPUs is known."""
    rows = nvidia_rows()
    found = {}
    for row in rows:
        if row.run.devices > 1:
            single = [one.run for one in rows if one.run.devices == 1 and _same(one, row)]
            learned = fit(single, machine(row), projector)
            found[row] = float(projector.seconds([row.run], learned.cluster)[0])
    return found


def _same(one: Row, other: Row) -> bool:
    kinds = (one.gpu, one.precision, one.framework) == (other.gpu, other.precision, other.framework)
    return kinds and one.gpus_per_node == other.gpus_per_node


def transfers() -> list[Transfer]:
    """Tensor cores from tensor cores (TF32, AMP), the others from those of the one older GPU that was measured."""
    single = [row for row in nvidia_rows() if row.run.devices == 1]
    v100, a100 = (tuple(row for row in single if family(row) == name) for name in ("V100", "A100"))

    def some(rows: Sequence[Row], *precisions: str) -> tuple[Row, ...]:
        return tuple(row for row in rows if row.precision in precisions)

    return [
        Transfer("V100", "A100", ("AMP", "TF32"), v100, a100),
        Transfer("A100", "V100", ("AMP",), a100, some(v100, "AMP")),
        Transfer("P100", "V100", ("FP32",), tuple(p100_rows()), some(v100, "FP32")),
    ]


def carried_over(one: Transfer, projector: Projector) -> dict[Row, float]:
    """Fitted on all one-GPU rows of the source: what it gained on its kernels and memory rate, the target gains too."""
    source = load_device({"V100": "V100-16", "A100": "A100-80", "P100": "P100"}[one.source])
    learned = fit([row.run for row in one.fitted], replace(machine(one.fitted[0]), device=source), projector)
    reached = learned.cluster.device
    faster = reached.efficiency["conv"] / source.efficiency["conv"]
    share = reached.memory_bytes_per_s / source.memory_bytes_per_s
    found = {}
    for row in one.tested:
        device = gpu(row)
        kernels = device.kernels and device.kernels.scaled(faster)
        device = replace(device, kernels=kernels, memory_bytes_per_s=share * device.memory_bytes_per_s)
        found[row] = float(projector.seconds([row.run], replace(machine(row), device=device))[0])
    return found


def scored(projected: dict[Row, float]) -> Score:
    return score([row.run for row in projected], {row.run: value for row, value in projected.items()})


def by_kind(projected: dict[Row, float]) -> dict[tuple[str, str], Score]:
    kinds = dict.fromkeys((row.gpu, row.precision) for row in projected)
    return {
        kind: scored({row: value for row, value in projected.items() if (row.gpu, row.precision) == kind})
        for kind in kinds
    }


def show_several(projected: dict[Row, float]) -> None:
    nulls = {row: _single(row).iteration_s for row in projected}
    theirs = by_kind(nulls)
    rows = [
        [*kind, str(len(one.pairs)), str(one), str(theirs[kind])] for kind, one in sorted(by_kind(projected).items())
    ]
    rows.append(["over all", "", str(len(projected)), str(scored(projected)), str(scored(nulls))])
    head = ["GPU", "precision", "rows", "slicewise", "null: T(1)"]
    show("NVIDIA ResNet-50 on 2 to 16 GPUs; efficiencies from the one-GPU row of the same framework", head, rows)


def _single(row: Row) -> Run:
    return next(one.run for one in nvidia_rows() if one.run.devices == 1 and _same(one, row))


def show_transfers(found: list[tuple[Transfer, dict[Row, float]]]) -> None:
    rows = [
        [one.source, one.target, " ".join(one.precisions), str(len(one.fitted)), str(len(values)), str(scored(values))]
        for one, values in found
    ]
    every = {row: value for _, values in found for row, value in values.items()}
    rows.append(["over all", "", "", "", str(len(every)), str(scored(every))])
    head = ["fitted on", "tested on", "precision", "rows fitted", "rows tested", "slicewise"]
    show("NVIDIA ResNet-50 on one GPU; efficiencies from another GPU", head, rows)


def show_rows(several: dict[Row, float], carried: dict[Row, float]) -> None:
    """Every row that was tested, of both tables; one-GPU rows are the ones fitted for the first."""
    rows = [
        [
            row.framework,
            row.gpu,
            row.precision,
            str(row.run.devices),
            str(row.run.batch),
            f"{row.run.iteration_s:.3f}",
            f"{value:.3f}, {accuracy(value, row.run.iteration_s):.0%}",
        ]
        for row, value in [*several.items(), *carried.items()]
    ]
    head = ["framework", "GPU", "precision", "GPUs", "batch", "measured s", "projected"]
    show("Every NVIDIA row tested (one GPU: from another GPU's rows)", head, rows)
