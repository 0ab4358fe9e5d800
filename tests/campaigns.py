"""How much `make test` tries; `make test-long` tries all."""

import os
from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

LONG = os.environ.get("SLICEWISE_TESTS") == "long"
_SHORT_SHARE, _FEWEST = 4, 5


def some(examples: int) -> int:
    """A share of them unless the run is a long one."""
    return examples if LONG else min(examples, max(_FEWEST, examples // _SHORT_SHARE))


def examples(number: int) -> settings:
    """Of a property, in the long run."""
    return settings(max_examples=some(number))


def sample(cases: Iterable[object], quick: Collection[object]) -> list[ParameterSet]:
    """All `cases`, those that are not `quick` marked long."""
    listed = list(cases)
    assert set(quick) <= set(listed), f"not among the cases: {set(quick) - set(listed)}"
    values = [case if isinstance(case, tuple) else (case,) for case in listed]
    return [
        pytest.param(*value, marks=[] if case in quick else [pytest.mark.long])
        for case, value in zip(listed, values, strict=True)
    ]
