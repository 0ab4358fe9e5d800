"""What ranges are made of, from published runs: `python -m benchmarks.runs.fit [--write]`.

    network         what 90 % of |ln(measured / projected)| lie within, over 1.645, where communication is below 0.2;
                    all networks weigh the same, so that many rows of one do not speak for the others
    communication   what is left of the squared error beyond compute's, regressed on the squared share of communication;
                    PRIOR rows that do nothing else, each off by STATED_COMMUNICATION, stand beside the measured ones
    measured        rms over networks of the error on several GPUs, given the time on one
    straggling      median over runs of ln(measured / projected) / log2(GPUs), given the time on one, nothing lost

Stated, not fitted, in round numbers: `unseen`, for kernels were fitted with these networks in view; `unlike`, a factor
of 3 for kinds of layers that no run here has; `tokens`, the error of published steps of transformers whose attention
was projected as fused and measured spelled out (benchmarks/runs/transformers.py); `device`, from devices kept out of
the kernels' fit, which come out at 78.7 % (benchmarks/devices); `repeated`, 5 % each way between two runs of one step;
`calibrated`, a factor of 1.6 that holds all runs of benchmarks/throughput.
"""

import argparse
from collections import Counter
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

STATED = {"unseen": 0.15, "unlike": 0.7, "tokens": 0.26, "device": 0.32, "repeated": 0.03, "calibrated": 0.286}
STATED_COMMUNICATION = 0.5  # a guess, which decides where rows hardly wait for links: only ParaDL's do
PRIOR = 2.0
TARGET = Path(__file__).parents[2] / "src" / "slicewise" / "cluster" / "ranges.toml"
HEAD = (
    "# Written by `python -m benchmarks.runs.fit --write`: standard deviations of ln(measured / predicted).\n"
    "# docs/oracle.md says how a range is made of them.\n"
)


def fitted(answers: Sequence[Answer], on_several: Sequence[Answer]) -> dict[str, float]:
    """The deviations that these answers show."""
    compute = typical([one for one in answers if one.communication_share < 0.2])
    return {
        "network": compute,
        "unseen": STATED["unseen"],
        "unlike": STATED["unlike"],
        "tokens": STATED["tokens"],
        "device": STATED["device"],
        "communication": of_links(answers, hypot(compute, STATED["unseen"])),
        "measured": by_network(on_several),
        "repeated": STATED["repeated"],
        "calibrated": STATED["calibrated"],
    }


def typical(answers: Sequence[Answer]) -> float:
    """The deviation whose 90 % range holds 90 % of these, each network weighing as much as any other."""
    rows = Counter(one.run.network for one in answers)
    total, held = len(rows), 0.0
    for one in sorted(answers, key=lambda one: abs(one.error)):
        held += 1 / rows[one.run.network]
        if held >= 0.9 * total:
            return abs(one.error) / QUANTILE
    return 0.0


def of_links(answers: Sequence[Answer], compute: float) -> float:
    """error^2 = (compute * (1 - share))^2 + (communication * share)^2, by least squares. A row that waits for links
    a third of its time says little about them.
    """
    squares, weight = PRIOR * STATED_COMMUNICATION**2, PRIOR
    for one in answers:
        share = one.communication_share
        squares += (one.error**2 - (compute * (1 - share)) ** 2) * share**2
        weight += share**4
    return sqrt(max(0.0, squares) / weight)


def by_network(answers: Sequence[Answer]) -> float:
    """rms of each network's errors, then over networks."""
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
    """Share inside ranges that were fitted without each row's network (source, device), and their mean half-width."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"into {TARGET.name}, where predictions read it")
    options = parser.parse_args()
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
    for what in ("network", "source", "device"):
        inside, width = coverage(answers, on_several, what)
        rows.append([what, f"{inside:.1%}", f"{width:.2f}x"])
    show("Ranges fitted without the row's own", ["kept out", "covers", "mean half-width"], rows)
    if options.write:
        write_file(TARGET, HEAD + toml(known, digits=3))
        print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
