"""Settings that are priced, kept warm: the second question about a setting takes a fraction of the first.

A bench belongs to one thread at a time. The least recently used go first, so memory has a bound.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from slicewise.cost.model import CostModel
from slicewise.planning.modelling import model_for
from slicewise.simulate.many import ManyPlans
from slicewise.studio.setting import Setting

T = TypeVar("T")
MOST_QUESTIONS = 40  # of one bench: what it has priced is then forgotten, and begun anew


@dataclass
class _Place(Generic[T]):
    lock: Lock = field(default_factory=Lock)
    value: T | None = None


class Kept(Generic[T]):
    """The last `most` values by key, each lent to one thread at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[Hashable, _Place[T]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def lent(self, key: Hashable, make: Callable[[], T]) -> Iterator[T]:
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
        with place.lock:
            if place.value is None:
                place.value = make()
            yield place.value


class Bench:
    """One setting: its cost model, and plans of it that are played together."""

    def __init__(self, setting: Setting) -> None:
        self.model: CostModel = model_for(setting.graph.with_batch(setting.batch), setting.machine, setting.training)
        self._many = ManyPlans(self.model)
        self._asked = 0
        self.legal: set[tuple[str, str]] = set()  # layers, and slicings of theirs that were checked

    @property
    def many(self) -> ManyPlans:
        self._asked += 1
        if self._asked % MOST_QUESTIONS == 0:
            self._many = ManyPlans(self.model)
        return self._many
