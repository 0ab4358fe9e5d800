"""ParaDL's figure 1: `python -m benchmarks.paradl.figure1 [-o FILE.svg]`, every strategy measured and projected.

Presets only. Data, filter, channel and both hybrids are the authors' own runs. Nobody published theirs of pipelines and
of CosmoFlow, so pipelines are torchgpipe's (ResNet-101 on P40, given one GPU's time), and volumes 3-D U-Nets on several
A100 and V100; of CosmoFlow only what one GPU takes is known.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown import show
from benchmarks.paradl.drawing import drawn
from benchmarks.paradl.machine import NAMES, PRESET, measured_runs
from benchmarks.paradl.networks import DATA, graphs
from benchmarks.paradl.rows import authors, authors_terms, gpipe_rows
from benchmarks.paradl.scores import accuracy
from benchmarks.runs.asking import asked
from benchmarks.runs.rows import published
from slicewise.cluster.cluster import load_cluster
from slicewise.fitting.projecting import Projector
from slicewise.graph.sources import load_graph
from slicewise.saving import write_file
from slicewise.strategies.projecting import oracle
from slicewise.strategies.projection import Projection

# the mean accuracy that the authors state, of more rows than their figure shows
PUBLISHED = {
    "data": 0.9610, "filter": 0.8556, "channel": 0.7367, "data+filter": 0.9143, "data+spatial": 0.8346,
    "pipeline": 0.9022,
}  # fmt: skip
PUBLISHED_ALL = 0.8674
VOLUMES = {"nnunet_3d": "nnU-Net 3-D", "unet3d_kits": "3-D U-Net (KiTS19)"}
# FW + BW seconds of a sample on one V100, as the authors profiled them, by the side of a volume
COSMOFLOW_S = {256: 0.2635, 512: 2.108}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One run; `their_s` is what the authors projected, `theirs` its compute and communication where they are known."""

    network: str
    strategy: str
    devices: int
    batch: int
    measured_s: float
    compute_s: float
    communication_s: float
    their_s: float | None = None
    theirs: tuple[float, float] | None = None
    volumes: bool = False  # of a 3-D network, which the authors' figure does not show

    @property
    def projected_s(self) -> float:
        return self.compute_s + self.communication_s

    @property
    def accuracy(self) -> float:
        return accuracy(self.projected_s, self.measured_s)

    @property
    def their_accuracy(self) -> float | None:
        return None if self.their_s is None else accuracy(self.their_s, self.measured_s)


def bars() -> list[Bar]:
    return [*_of_the_authors(), *_of_pipelines(), *_of_volumes(), *_of_cosmoflow()]


def _of_the_authors() -> Iterator[Bar]:
    runs, their_s, theirs = measured_runs(), authors(), authors_terms()
    for run, terms in zip(runs, Projector(graphs()).terms(runs, load_cluster(PRESET)), strict=True):
        yield Bar(
            network=NAMES[run.model],
            strategy=run.strategy,
            devices=run.devices,
            batch=run.batch,
            measured_s=run.iteration_s,
            compute_s=terms.compute_s,
            communication_s=terms.communication_s,
            their_s=their_s.get((run.model, run.strategy, run.devices)),
            theirs=theirs.get((run.model, run.strategy, run.devices)),
        )


def _of_pipelines() -> Iterator[Bar]:
    """Activations are recomputed there."""
    alone, *others = gpipe_rows()
    for run in others:
        (row,) = oracle(
            load_graph(run.model), DATA / "p40.toml", devices=[run.devices], batch=run.batch, strategies=["pipeline"],
            optimizer="momentum", recompute=True, software="plain", measured=(alone.batch, alone.iteration_s),
        )  # fmt: skip
        yield _bar("ResNet-101 (P40)", run.iteration_s, row)


def _of_volumes() -> Iterator[Bar]:
    for run in published():
        if run.network in VOLUMES and run.devices > 1:
            name = f"{VOLUMES[run.network]} ({run.device.partition('-')[0]} {run.dtype})"
            yield _bar(name, run.iteration_s, asked(run).row, volumes=True)


def _of_cosmoflow() -> Iterator[Bar]:
    for side, measured_s in COSMOFLOW_S.items():
        (row,) = oracle("cosmoflow", PRESET, devices=[1], batch=1, strategies=["serial"], input=(4, side, side, side))
        yield _bar(f"CosmoFlow {side}^3", measured_s, row, volumes=True)


def _bar(network: str, measured_s: float, row: Projection, *, volumes: bool = False) -> Bar:
    assert row.terms is not None
    return Bar(
        network=network,
        strategy=row.strategy,
        devices=row.devices,
        batch=row.batch,
        measured_s=measured_s,
        compute_s=row.terms.compute_s,
        communication_s=row.terms.communication_s,
        volumes=volumes,
    )


def tell(found: list[Bar]) -> None:
    flat = [bar for bar in found if not bar.volumes]
    rows = [_line(name, [bar for bar in flat if bar.strategy == name], told) for name, told in PUBLISHED.items()]
    rows.append(_line("over all", flat, PUBLISHED_ALL))
    rows.append(_line("volumes, beside these", [bar for bar in found if bar.volumes], None))
    head = ["strategy", "rows", "slicewise", "the authors' model, same rows", "stated by the authors",
            "compute over theirs", "communication over theirs"]  # fmt: skip
    show("Figure 1: accuracy by strategy, presets only", head, rows)
    columns = ["network", "strategy", "GPUs", "batch", "measured", "compute", "communication", "theirs", "accuracy"]
    show("Every bar, seconds", columns, [_told(bar) for bar in found])


def _line(name: str, some: list[Bar], stated: float | None) -> list[str]:
    both = [bar for bar in some if bar.theirs is not None]
    theirs = [bar.their_accuracy for bar in some if bar.their_accuracy is not None]
    return [
        name,
        str(len(some)),
        f"{_mean([bar.accuracy for bar in some]):.1%}",
        f"{_mean(theirs):.1%}" if theirs else "-",
        "-" if stated is None else f"{stated:.1%}",
        _ratio([(bar.compute_s, bar.theirs[0]) for bar in both if bar.theirs]),
        _ratio([(bar.communication_s, bar.theirs[1]) for bar in both if bar.theirs]),
    ]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _ratio(pairs: list[tuple[float, float]]) -> str:
    return f"{sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs):.2f}" if pairs else "-"


def _told(bar: Bar) -> list[str]:
    apart = f"{bar.theirs[0]:.3f} + {bar.theirs[1]:.3f}" if bar.theirs else "-"
    theirs = f"{bar.their_s:.3f}" if bar.their_s is not None and bar.theirs is None else apart
    seconds = (bar.measured_s, bar.compute_s, bar.communication_s)
    told = [bar.network, bar.strategy, str(bar.devices), str(bar.batch), *(f"{value:.3f}" for value in seconds)]
    return [*told, theirs, f"{bar.accuracy:.0%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="the figure, as SVG")
    arguments = parser.parse_args()
    found = bars()
    tell(found)
    if arguments.output:
        write_file(arguments.output, drawn(found))


if __name__ == "__main__":
    main()
