"""Every search has one signature and a name."""

from collections.abc import Callable, Mapping

from slicewise.errors import UnknownName
from slicewise.search.elimination import eliminate
from slicewise.search.exhaustive import enumerate_all
from slicewise.search.problem import Problem
from slicewise.search.solution import Solution

Search = Callable[[Problem], Solution]
EXHAUSTIVE = "exhaustive"  # of every plan: nothing less will do
SEARCHES: Mapping[str, Search] = {"elimination": eliminate, EXHAUSTIVE: enumerate_all}


def search_named(name: str) -> Search:
    if name not in SEARCHES:
        raise UnknownName("search", name, SEARCHES)
    return SEARCHES[name]
