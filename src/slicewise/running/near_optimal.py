"""Plans around the best one: it, the named strategies, and what lies between them.

layers    0 1 2 3 4 5 6 7
best      N N N N F F F C          a cut at 4:    N N N N | F F F F      the best before it, `filter` behind
filter    F F F F F F F F                         F F F F | F F F C      and the other way round
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from slicewise.errors import SlicewiseError
from slicewise.partition.layout import Slicing
from slicewise.planning.modelling import model_of
from slicewise.plans.plan import Plan
from slicewise.search.baselines import baseline_slicings
from slicewise.simulate.predicting import predicted_steps_s

_TRIED = 12  # times as many as are wanted


def near_optimal(best: Plan, count: int, seed: int = 0) -> list[Plan]:
    """The `count` that are predicted to be fastest, all different, the best first."""
    graph, cluster = best.network(), best.hardware()
    model = model_of(best, graph, cluster)
    named, _ = baseline_slicings(model)
    whole = [best.slicings, *named.values()]
    tried = [*whole, *_mixed(whole, list(best.slicings), Random(seed), _TRIED * count)]
    different = {tuple(slicings.values()): slicings for slicings in tried}
    made = [replace(best, slicings=slicings, request=None) for slicings in different.values()]
    legal = [plan for plan in made if _is_legal(plan)]
    steps = predicted_steps_s(model, [plan.slicings for plan in legal])
    order = sorted(range(len(legal)), key=lambda number: steps[number])
    return [legal[number] for number in order[:count]]


def _mixed(
    whole: Sequence[Mapping[str, Slicing]], names: Sequence[str], random: Random, count: int
) -> Iterator[dict[str, Slicing]]:
    for _ in range(count):
        before, behind, cut = whole[0], random.choice(whole), random.randrange(len(names))
        if random.random() < 0.5:
            before, behind = behind, before
        yield {name: (before if number < cut else behind)[name] for number, name in enumerate(names)}


def _is_legal(plan: Plan) -> bool:
    try:
        plan.check(plan.sized(plan.network()), plan.mesh)
    except SlicewiseError:
        return False
    return True
