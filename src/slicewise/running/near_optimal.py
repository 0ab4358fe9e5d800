"""Plans around the best one: it, the named strategies, and what lies between them.

layers    0 1 2 3 4 5 6 7
best      N N N N F F F C          a cut at 4:    N N N N | F F F F      the best before it, `filter` behind
filter    F F F F F F F F                         F F F F | F F F C      the other way round, and any other two

Plans that are predicted to take the same within a percent have no order that a clock could see. So they are spread:

predicted step    |*   *   *   *   *   *   *   *|        from the best to half as long again
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
_LONGEST = 1.5  # times the best


def near_optimal(best: Plan, count: int, seed: int = 0) -> list[Plan]:
    """`count` different plans, from the best to those that are predicted to take half as long again."""
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
    return [legal[order[place]] for place in spread([steps[number] for number in order], count)]


def spread(steps_s: Sequence[float], count: int) -> list[int]:
    """Places of `count` of these, which rise: evenly apart in time. The next ones where too few are short enough."""
    near = max(count, sum(step_s <= _LONGEST * steps_s[0] for step_s in steps_s))
    left = list(range(min(near, len(steps_s))))
    reach_s = steps_s[left[-1]] - steps_s[0]
    chosen = []
    for number in range(min(count, len(left))):
        wanted_s = steps_s[0] + reach_s * number / max(1, count - 1)
        chosen.append(min(left, key=lambda place: abs(steps_s[place] - wanted_s)))
        left.remove(chosen[-1])
    return sorted(chosen)


def _mixed(
    whole: Sequence[Mapping[str, Slicing]], names: Sequence[str], random: Random, count: int
) -> Iterator[dict[str, Slicing]]:
    for _ in range(count):
        before, behind = random.choices(whole, k=2)
        cut = random.randrange(len(names))
        yield {name: (before if number < cut else behind)[name] for number, name in enumerate(names)}


def _is_legal(plan: Plan) -> bool:
    try:
        plan.check(plan.sized(plan.network()), plan.mesh)
    except SlicewiseError:
        return False
    return True
