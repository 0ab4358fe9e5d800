"""The oracle as one call: every strategy at every device count."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from slicewise.cluster.cluster import MOST_DEVICES, Cluster, load_cluster, machine_of
from slicewise.cost.pace import Step, paced
from slicewise.cost.training import Training
from slicewise.errors import ClusterError, InfeasibleError, PlanError, RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import graph_of
from slicewise.planning.asking import requested
from slicewise.plans.request import Request
from slicewise.strategies.datasets import samples_of
from slicewise.strategies.engines import Engine, Split, engine_named, of_prediction
from slicewise.strategies.projection import CERTAIN, Projection, memory_reason
from slicewise.strategies.registry import check_split, check_strategies
from slicewise.strategies.setting import Terms
from slicewise.strategies.sureness import next_measurement, range_told
from slicewise.strategy import LAYERWISE, SERIAL, STRATEGIES
from slicewise.terms import MOVING_GROUPS
from slicewise.units import ROUNDING, bytes_of

if TYPE_CHECKING:
    from torch import nn

    from slicewise.graph.capture import Sample

AS_FRAMEWORKS_DO = Training(batchnorm="local")


@dataclass(frozen=True, eq=False, kw_only=True)
class Oracle:
    """Answers for one network on one cluster, at any device count."""

    graph: LayerGraph
    cluster: Cluster
    engine: Engine
    training: Training
    batch: int | None = None  # strong scaling: the same for any number of devices
    batch_per_device: float | None = None  # weak scaling
    samples: int | None = None
    split: Split | None = None
    overlap: float | None = None

    @property
    def memory_limit_bytes(self) -> int:
        """Per device."""
        return self.cluster.device.memory_bytes

    def batch_at(self, devices: int) -> int:
        batch = self.batch if self.batch is not None else (self.batch_per_device or 0) * devices
        if batch < 1 or not float(batch).is_integer():
            raise RequestError(
                f"a batch per device of {self.batch_per_device:g} on {devices} devices is a batch of {batch:g}; "
                f"choose counts that make it whole"
            )
        if batch not in self._countable:
            self.graph.with_batch(int(batch))  # refuse one whose tensors are too large to count
            self._countable.add(batch)
        return int(batch)

    @cached_property
    def _countable(self) -> set[float]:
        return set()

    def project(self, strategy: str, devices: int) -> Projection:
        """Feasible, or with the reason why not; memory is the one reason that leaves the figures standing."""
        batch = self.batch_at(devices)
        try:
            terms = self.engine.terms(strategy, devices, batch, self.split)
        except (InfeasibleError, ClusterError, PlanError) as error:
            return self._row(strategy, devices, batch, None, str(error))
        return self._row(strategy, devices, batch, terms, memory_reason(terms, self.memory_limit_bytes))

    def layerwise(self, devices: int, progress: Callable[[str], None]) -> Projection:
        """The planner's optimum."""
        batch = self.batch_at(devices)
        try:
            cluster = self.cluster.with_devices(devices)
            cluster = cluster if self.overlap is None else replace(cluster, overlap=self.overlap)
            made = requested(self.graph.with_batch(batch), cluster, Request(training=self.training), progress)
        except (InfeasibleError, ClusterError, PlanError) as error:
            return self._row(LAYERWISE, devices, batch, None, str(error))
        terms = of_prediction(made.predicted)
        return self._row(LAYERWISE, devices, batch, replace(terms, split="by layer"), None)

    @cached_property
    def uncongested(self) -> "Oracle":
        """The same on a machine where every flow has a port of its own."""
        tiers = tuple(replace(tier, ports=max(tier.ports, MOST_DEVICES)) for tier in self.cluster.tiers)
        machine = replace(self.cluster, tiers=tiers)
        return replace(self, cluster=machine, engine=self.engine.on(machine))

    @cached_property
    def serial_samples_per_s(self) -> float:
        """Of one device with its own batch, whether it fits or not."""
        batch = self.batch if self.batch is not None else max(1, round(self.batch_per_device or 1))
        return batch / self.engine.terms(SERIAL.name, 1, batch, None).iteration_s

    def _row(self, strategy: str, devices: int, batch: int, terms: Terms | None, reason: str | None) -> Projection:
        return Projection(
            strategy=strategy,
            devices=devices,
            batch=batch,
            terms=terms,
            reason=reason,
            samples=self.samples,
            serial_samples_per_s=self.serial_samples_per_s if terms else 0.0,
            doubt=self.engine.doubt(strategy, devices, batch) if terms else CERTAIN,
            origin=self.cluster.origin,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ProjectionTable:
    """What `slicewise.oracle` returns: rows by device count, the best of each marked."""

    oracle: Oracle
    rows: tuple[Projection, ...]

    def __iter__(self) -> Iterator[Projection]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def best(self, devices: int | None = None) -> Projection | None:
        """The fastest feasible row at a device count, or the one with the highest throughput of all."""
        found = [row for row in self.rows if row.best and devices in (None, row.devices)]
        return max(found, key=lambda row: row.samples_per_s, default=None)

    def to_dict(self) -> dict[str, Any]:
        oracle = self.oracle
        best = self.best()
        return {
            "model": oracle.graph.name,
            "cluster": oracle.cluster.name,
            "software": oracle.cluster.software,
            **oracle.training.options(),
            "overlap": oracle.overlap,
            "input": [list(layer.shape[1:]) for layer in oracle.graph.inputs],
            "memory_limit_bytes": oracle.memory_limit_bytes,
            "engine": oracle.engine.name,
            "scaling": "strong" if oracle.batch is not None else "weak",
            "samples": oracle.samples,
            "origin": oracle.cluster.origin,
            "range": range_told(self),
            "measured": asdict(oracle.cluster.measured) if oracle.cluster.measured else None,
            "measure_next": advice.to_dict() if best and (advice := next_measurement(oracle, best)) else None,
            "rows": [row.to_dict() for row in self.rows],
        }

    def to_csv(self) -> str:
        """One line per row; the kinds of communication have columns of their own."""
        flat = [_flattened(row.to_dict()) for row in self.rows]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)
        return text.getvalue()

    def _repr_html_(self) -> str:
        """For a notebook: strategies over device counts."""
        from slicewise.figures.scaling import scaling_figure

        batch = (
            f"batch {self.oracle.batch}"
            if self.oracle.batch
            else f"{self.oracle.batch_per_device:g} samples per device"
        )
        return scaling_figure(
            [row.to_dict() for row in self.rows],
            title=f"{self.oracle.graph.name} on {self.oracle.cluster.name}, {batch}",
        )

    def __str__(self) -> str:
        from slicewise.strategies.showing import oracle_text

        return oracle_text(self)


def _flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    kinds = row["communication"] or dict.fromkeys(f"{group}_s" for group in MOVING_GROUPS)
    return {name: value for name, value in row.items() if name != "communication"} | kinds


def oracle_of(
    graph: LayerGraph,
    cluster: str | Cluster,
    *,
    batch_per_device: float | None = None,
    batch: int | None = None,
    dataset: str | None = None,
    samples: int | None = None,
    engine: str = "paradl",
    training: Training = AS_FRAMEWORKS_DO,
    overlap: bool | None = None,
    split: Split | None = None,
    memory_limit_bytes: float | None = None,
    measured: Step | None = None,
    layer_times: str | Path | None = None,
) -> Oracle:
    """The request as a value that answers for any strategy and count."""
    if (batch is None) == (batch_per_device is None):
        raise RequestError("give either a batch for all devices (strong scaling) or a batch per device (weak scaling)")
    _check_numbers(batch, batch_per_device, samples)
    if dataset is not None and samples is not None:
        raise RequestError(f"data set {dataset} and {samples} samples: give one of them")
    machine = load_cluster(cluster) if isinstance(cluster, str) else cluster
    machine.device.flops(training.dtype)  # refuse a dtype that the device does not have
    if memory_limit_bytes is not None:  # as if devices had no more: splits, cuts and plans are chosen to fit
        machine = replace(machine, device=replace(machine.device, memory_bytes=int(memory_limit_bytes)))
    machine = paced(machine, graph, training, measured)
    share = None if overlap is None else machine.overlap if overlap else 0.0
    priced = engine_named(engine)(graph=graph, cluster=machine, training=training, overlap=share)
    if layer_times is not None:
        priced = priced.timed(Path(layer_times))
    return Oracle(
        graph=graph,
        cluster=machine,
        engine=priced,
        training=training,
        batch=batch,
        batch_per_device=batch_per_device,
        samples=samples_of(dataset) if dataset is not None else samples,
        split=split,
        overlap=share,
    )


def _check_numbers(batch: object, batch_per_device: object, samples: object) -> None:
    for name, value in (("batch", batch), ("samples", samples)):
        if value is not None and not (_whole(value) and value > 0):
            raise RequestError(f"`{name}` must be a positive whole number (got {value!r})")
    if batch_per_device is not None and not (_number(batch_per_device) and batch_per_device > 0):
        raise RequestError(f"`batch_per_device` must be a positive number (got {batch_per_device!r})")


def oracle(
    model: "LayerGraph | nn.Module | str | Path",
    cluster: str | Path | Cluster = "local",
    *,
    devices: Sequence[int],
    batch_per_device: float | None = None,
    batch: int | None = None,
    strategies: Sequence[str] = tuple(STRATEGIES),
    layerwise: bool = False,
    dataset: str | None = None,
    samples: int | None = None,
    engine: str = "paradl",
    dtype: str = "fp32",
    optimizer: str = "sgd",
    recompute: bool = False,
    batchnorm: str = "local",
    software: str | None = None,
    overlap: bool | None = None,
    split: Split | None = None,
    memory_limit: float | str | None = None,
    measured: Step | None = None,
    layer_times: str | Path | None = None,
    input: tuple[int, ...] | None = None,
    sample: "Sample | None" = None,
    trust: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> ProjectionTable:
    """Every strategy at every device count: seconds by term, memory, range, and feasible or why not.

    `batch_per_device` scales weakly, `batch` strongly. `dataset` or `samples` tell epochs. `split=(p1, p2)` is of
    hybrids. `software` is "plain" or "tuned" (the cluster's by default). `measured=(64, 0.1996)` is this network's
    step on one device: 64 samples, seconds; `layer_times` is a CSV file of what its layers take. `engine` is "paradl"
    (closed forms) or "slicewise" (plans, simulated). The model is given as for `plan`.

    >>> sw.oracle("resnet50", "abci-v100", batch_per_device=32, devices=[16, 64, 1024]).best(64).strategy
    'data'
    """
    asked = oracle_of(
        graph_of(model, input, sample=sample, trust=trust),
        machine_of(cluster, software=software),
        batch_per_device=batch_per_device,
        batch=batch,
        dataset=dataset,
        samples=samples,
        engine=engine,
        training=Training(dtype=dtype, optimizer=optimizer, recompute=recompute, batchnorm=batchnorm),
        overlap=overlap,
        split=split,
        memory_limit_bytes=bytes_of(memory_limit),
        measured=measured,
        layer_times=layer_times,
    )
    names = check_strategies(strategies)
    return table_of(asked, names, devices, layerwise=layerwise, progress=progress)


def checked_counts(devices: Iterable[int]) -> list[int]:
    """Each once, the fewest first."""
    if not isinstance(devices, Iterable):
        raise RequestError(f"devices must be a list of counts, as [{devices}] (got {devices!r})")
    counts = list(devices)
    for count in counts:
        if not _whole(count):
            raise RequestError(f"devices must be whole numbers (got {count!r})")
        if not 1 <= count <= MOST_DEVICES:
            raise RequestError(f"devices must be from 1 to {MOST_DEVICES:,} (got {count})")
    if not counts:
        raise RequestError(f"devices must be from 1 to {MOST_DEVICES:,} (got none)")
    return sorted(map(int, set(counts)))


def _whole(value: object) -> TypeGuard[int]:
    """numpy's too."""
    return isinstance(value, Integral)


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real)


def table_of(
    asked: Oracle,
    strategies: Sequence[str],
    counts: Sequence[int],
    *,
    layerwise: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> ProjectionTable:
    counts = checked_counts(counts)
    check_split(asked.split, strategies)
    asked.engine.prepare([(count, asked.batch_at(count)) for count in counts])
    rows: dict[int, list[Projection]] = {}
    for count in counts:
        if told := asked.engine.progress_text(count):
            progress(told)
        rows[count] = [asked.project(name, count) for name in strategies]
    if layerwise:  # last, for it takes longest
        for count in counts:
            progress(f"searching the best plan for {count} devices")
            rows[count].append(asked.layerwise(count, progress))
    return ProjectionTable(oracle=asked, rows=tuple(row for count in counts for row in _marked(asked, rows[count])))


def _marked(asked: Oracle, rows: list[Projection]) -> list[Projection]:
    """The fastest feasible row, among those that one model priced: plans are compared with plans only."""
    comparable = [
        row for row in rows if row.feasible and (row.strategy != LAYERWISE or asked.engine.comparable_with_plans)
    ]
    fastest_s = min((row.iteration_s for row in comparable), default=0.0)
    # of strategies that come to the same, as all do on one device, the plainest
    best = next((row for row in comparable if row.iteration_s <= fastest_s * (1 + ROUNDING)), None)
    return [replace(row, best=row is best) for row in rows]
