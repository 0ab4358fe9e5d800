"""Projections beside published GPU runs: `python -m benchmarks.paradl.run [--quick]` prints the tables of README.md."""

import argparse

from benchmarks.markdown import show
from benchmarks.paradl import collectives, examples, machine
from benchmarks.paradl.scores import by_strategy, score
from slicewise.fitting.projecting import Projector


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without statements and choices")
    options = parser.parse_args()
    found = machine.Trial().all(machine.measured_runs())
    presets, larger, *other_network = found
    projector = Projector()
    several = examples.several_from_one(projector)
    carried = [(one, examples.carried_over(one, projector)) for one in examples.transfers()]
    every_carried = {row: value for _, values in carried for row, value in values.items()}

    worst_kind = min(examples.by_kind(several).values(), key=lambda one: one.accuracy).accuracy
    beaten = all(
        score(runs, larger.projected).accuracy > score(runs, larger.null).accuracy
        for runs in by_strategy(larger.tested).values()
        if len(runs) >= 3
    )
    show(
        "Bars",
        ["what", "bar", "reached"],
        [
            ["(a) ParaDL's runs, presets only", ">= 70 %", f"{score(presets.tested, presets.projected).accuracy:.1%}"],
            ["(a) NVIDIA ResNet-50, worst (GPU, precision)", ">= 85 %", f"{worst_kind:.1%}"],
            ["(a) one GPU from another's efficiencies", ">= 75 %", f"{examples.scored(every_carried).accuracy:.1%}"],
            ["(b) larger than fitted", ">= 88 %", f"{score(larger.tested, larger.projected).accuracy:.1%}"],
            ["(b) better than the null wherever three rows are", "yes", "yes" if beaten else "no"],
            ["(c) other network", ">= 75 %", f"{machine.together(other_network).accuracy:.1%}"],
            ["NCCL all-reduce, mean error", "<= 10 %", f"{collectives.mean_error('curve'):.1%}"],
        ],
    )
    for one in found:
        machine.show_outcome(one)
    machine.show_parameters(found)
    for one in found:
        inside, of = machine.within_range(one)
        print(f"\n{one.title}: {inside} of {of} tested rows lie within the range of their projection")
    if not options.quick:
        machine.show_statements()
        machine.show_choices()
    examples.show_several(several)
    examples.show_transfers(carried)
    collectives.show_collectives()
    machine.show_rows(found)
    examples.show_rows(several, every_carried)


if __name__ == "__main__":
    main()
