"""The closed form of every strategy, by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from slicewise.errors import RequestError, UnknownName
from slicewise.strategies import (
    channel,
    data,
    data_filter,
    data_sequence,
    data_spatial,
    filter,
    owt,
    pipeline,
    sequence,
    serial,
    spatial,
)
from slicewise.strategies.setting import Setting, Terms
from slicewise.strategy import STRATEGIES

# What a strategy can be at a setting: every split, cut or number of segments; or the reason why it cannot.
ClosedForm = Callable[[Setting], Iterator[Terms]]

CLOSED_FORMS: Mapping[str, ClosedForm] = {
    "serial": serial.project,
    "data": data.project,
    "spatial": spatial.project,
    "filter": filter.project,
    "channel": channel.project,
    "sequence": sequence.project,
    "pipeline": pipeline.project,
    "data+filter": data_filter.project,
    "data+spatial": data_spatial.project,
    "data+sequence": data_sequence.project,
    "owt": owt.project,
}


def check_split(split: tuple[int, int] | None, names: Sequence[str]) -> None:
    """Refuse a split that no strategy of `names` would take."""
    if split is not None and not any(name in STRATEGIES and STRATEGIES[name].hybrid for name in names):
        hybrids = ", ".join(name for name, strategy in STRATEGIES.items() if strategy.hybrid)
        raise RequestError(f"`split={split}` is of hybrids, not of {', '.join(names)}; leave it out, or give {hybrids}")


def check_strategies(names: Sequence[str]) -> tuple[str, ...]:
    """Those of `names`, in the order of the tables."""
    for name in names:
        if name not in STRATEGIES:
            raise UnknownName("strategy", name, STRATEGIES)
    return tuple(name for name in STRATEGIES if name in names)
