"""What a training needs, as one call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cluster.cluster import Cluster
from slicewise.cost.pace import Step
from slicewise.errors import RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.strategies.engines import Split
from slicewise.strategies.options import HOUR_S, Option, frontier, options_of, within
from slicewise.strategies.projecting import checked_counts, oracle
from slicewise.strategy import STRATEGIES
from slicewise.units import seconds_of

if TYPE_CHECKING:
    from torch import nn

    from slicewise.graph.capture import Sample

PER_DEVICE = 32.0  # samples, where no batch is given
COUNTS = tuple(1 << power for power in range(11))


def provision(
    model: "LayerGraph | nn.Module | str | Path",
    cluster: str | Path | Cluster = "local",
    *,
    epochs: float,
    dataset: str | None = None,
    samples: int | None = None,
    devices: Sequence[int] | None = None,
    batch_per_device: float | None = None,
    batch: int | None = None,
    deadline: float | str | None = None,
    gpu_hours: float | None = None,
    price: float | None = None,
    strategies: Sequence[str] = tuple(STRATEGIES),
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
) -> list[Option]:
    """Devices, hours and cost of every option worth having, the cheapest first; none where nothing keeps `deadline`
    (seconds or "12h") and `gpu_hours`. `option.good` says whether its whole range keeps the deadline,
    `option.deadline_chance` how likely it is to. Other arguments as for `oracle`.

    >>> options = sw.provision("resnet50", "abci-v100", dataset="imagenet", epochs=90, deadline="12h", price=2.5)
    >>> all(option.hours <= 12 and option.cost == 2.5 * option.device_hours for option in options)
    True
    """
    if dataset is None and samples is None:
        raise RequestError("an epoch needs a number of samples; give `dataset` or `samples`")
    weak = batch_per_device or (None if batch else PER_DEVICE)
    wanted = checked_counts(counts_for(weak) if devices is None else devices)
    table = oracle(
        model,
        cluster,
        devices=wanted,
        batch_per_device=weak,
        batch=batch,
        strategies=strategies,
        dataset=dataset,
        samples=samples,
        engine=engine,
        dtype=dtype,
        optimizer=optimizer,
        recompute=recompute,
        batchnorm=batchnorm,
        software=software,
        overlap=overlap,
        split=split,
        memory_limit=memory_limit,
        measured=measured,
        layer_times=layer_times,
        input=input,
        sample=sample,
        trust=trust,
        progress=progress,
    )
    limit_s = seconds_of(deadline)
    deadline_h = limit_s and limit_s / HOUR_S
    every = options_of(table, wanted, epochs=epochs, price=price, deadline_h=deadline_h)
    return within(frontier(every), deadline_h=deadline_h, device_hours=gpu_hours)


def counts_for(batch_per_device: float | None) -> list[int]:
    """1, 2, 4, ..., 1024, as far as the batch is whole."""
    return [count for count in COUNTS if batch_per_device is None or (batch_per_device * count).is_integer()]
