"""What ranges are made of, from published runs: `python -m benchmarks.runs.fit [--write]`.

    network         rms of ln(measured / projected) where communication is below a fifth: of each network, then over
                    networks, so that many rows of one do not speak for the others
    communication   rms of what is left of the error beyond compute's, over communication's share, where that is above
                    0.3
    measured        rms over networks of the error on several GPUs, given the time on one
    straggling      median over runs of ln(measured / projected) / log2(GPUs), given the time on one, nothing lost

Stated, not fitted, in round numbers: `unseen`, for kernels were fitted with these networks in view; `unlike`, a factor
of 3 for kinds of layers that no run here has; `device`, from devices kept out of the kernels' fit, which come out at
74.9 % (benchmarks/devices); `calibrated`, a factor of 1.6 that holds all runs of benchmarks/throughput.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from math import exp, hypot, log2, sqrt
from pathlib import Path
from statistics import mean, median

from benchmarks.markdown import show
from benchmarks.runs.asking import Answer, asked, measured_on_one
from benchmarks.runs.rows import PublishedRun, published
from slicewise.cluster.ranges import QUANTILE
from slicewise.cluster.writing import toml
from slicewise.cost.uncertainty import Doubt
from slicewise.saving import write_file

STATED = {"unseen": 0.15, "unlike": 0.7, "device": 0.32, "calibrated": 0.286}
STATED_COMMUNICATION = 0.5  # where the rows have none: only ParaDL's runs wait for links
TARGET = Path(__file__).parents[2] / "src" / "slicewise" / "cluster" / "ranges.toml"
HEAD = (
    "# Written by `python -m benchmarks.runs.fit --write`: standard deviations of ln(measured / predicted).\n"
    "# docs/oracle.md says how a range is made of them.\n"
)


def fitted(answers: Sequence[Answer], on_several: Sequence[Answer]) -> dict[str, float]:
    """The deviations that these answers show."""
    quiet = [one for one in answers if one.communication_share < 0.2]
    compute = by_network(quiet)
    loud = [one for one in answers if one.communication_share > 0.3]
    whole = hypot(compute, STATED["unseen"])
    beyond = [
        max(0.0, one.error**2 - (whole * (1 - one.communication_share)) ** 2) / one.communication_share**2
        for one in loud
    ]
    return {
        "network": compute,
        "unseen": STATED["unseen"],
        "unlike": STATED["unlike"],
        "device": STATED["device"],
        "communication": sqrt(mean(beyond)) if beyond else STATED_COMMUNICATION,
        "measured": by_network(on_several),
        "calibrated": STATED["calibrated"],
    }


def by_network(answers: Sequence[Answer]) -> float:
    names = sorted({one.run.network for one in answers})
    return sqrt(mean(mean(one.error**2 for one in answers if one.run.network == name) for name in names))


def straggling(pairs: dict[PublishedRun, PublishedRun]) -> float:
    """With nothing lost, what do runs on several GPUs lose per doubling?"""
    lost = []
    for run, one in pairs.items():
        free = replace(run, machine=replace(run.machine, straggling=0.0))
        lost.append(asked(free, (one.batch, one.iteration_s)).error / log2(run.devices))
    return median(lost)


def coverage(answers: Sequence[Answer], on_several: Sequence[Answer], kept_out: str) -> tuple[float, float]:
    """Share inside ranges that were fitted without each row's network (or source), and their mean half-width."""
    inside, widths = [], []
    for name in sorted({getattr(one.run, kept_out) for one in answers}):
        others = [one for one in answers if getattr(one.run, kept_out) != name]
        known = fitted(others, [one for one in on_several if getattr(one.run, kept_out) != name])
        doubt = Doubt(compute=hypot(known["network"], known["unseen"]), communication=known["communication"])
        for one in answers:
            if getattr(one.run, kept_out) == name:
                assert one.row.terms is not None
                sigma = doubt.sigma(one.row.terms.compute_s, one.row.terms.communication_s)
                inside.append(abs(one.error) <= QUANTILE * sigma)
                widths.append(exp(QUANTILE * sigma))
    return mean(inside), mean(widths)


def main(arguments: Sequence[str]) -> None:
    runs = published()
    pairs = measured_on_one(runs)
    answers = [asked(run) for run in runs]
    on_several = [asked(run, (one.batch, one.iteration_s)) for run, one in pairs.items()]
    known = fitted(answers, on_several)
    show("Deviations", ["part", "sigma", "alone, as a factor"], [
        [name, f"{value:.3f}", f"{exp(QUANTILE * value):.2f}"] for name, value in known.items()
    ])  # fmt: skip
    print(f"straggling, per doubling: {straggling(pairs):.4f} (presets dgx-*)\n")
    rows = []
    for what in ("network", "source"):
        inside, width = coverage(answers, on_several, what)
        rows.append([what, f"{inside:.1%}", f"{width:.2f}x"])
    show("Ranges fitted without the row's own", ["kept out", "covers", "mean half-width"], rows)
    if "--write" in arguments:
        write_file(TARGET, HEAD + toml(known, digits=3))
        print(f"wrote {TARGET}")


if __name__ == "__main__":
    main(sys.argv[1:])
