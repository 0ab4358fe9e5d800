"""Lines through what was timed."""

import numpy as np
import pytest

from slicewise.cluster.lines import Line
from slicewise.running.line_fit import Point, fitted_line, fitted_lines, on_line_s

TRUE = Line(call_s=2e-5, s_per_flop=3e-11, s_per_item=4e-10, s_per_weight=0.0)
SIZES = [(1e6, 1e4, 1e3), (1e8, 1e5, 1e4), (1e9, 1e7, 1e5), (5e7, 4e6, 2e6), (2e8, 1e6, 1e6)]


def timed(*factors: float, kind: str = "window", direction: str = "forward") -> list[Point]:
    points = [Point(kind=kind, direction=direction, seconds=1.0, flops=f, items=i, weights=w) for f, i, w in SIZES]
    seconds = [on_line_s(TRUE, point) * factor for point, factor in zip(points, factors, strict=True)]
    return [
        Point(kind=kind, direction=direction, seconds=s, flops=p.flops, items=p.items, weights=p.weights)
        for p, s in zip(points, seconds, strict=True)
    ]


def test_points_on_a_line_give_that_line() -> None:
    found = fitted_line(timed(1, 1, 1, 1, 1))
    assert found.call_s == pytest.approx(TRUE.call_s)
    assert found.s_per_flop == pytest.approx(TRUE.s_per_flop)
    assert found.s_per_item == pytest.approx(TRUE.s_per_item)
    assert found.s_per_weight == pytest.approx(0.0, abs=1e-16)


def test_no_term_is_negative_and_no_line_of_random_factors_is_nearer() -> None:
    points = timed(1.3, 0.7, 1.2, 0.8, 1.4)
    found = fitted_line(points)
    factors = (found.call_s, found.s_per_flop, found.s_per_item, found.s_per_weight)
    assert min(factors) >= 0

    def error(line: Line) -> float:
        ratios = [on_line_s(line, point) / point.seconds for point in points]
        return sum((ratio - 1) ** 2 / ratio if ratio else 1e9 for ratio in ratios)

    random = np.random.default_rng(0)
    for scale in random.uniform(0.0, 2.0, (500, 4)):
        terms = scale * (2e-5, 3e-11, 4e-10, 1e-10)
        other = Line(call_s=terms[0], s_per_flop=terms[1], s_per_item=terms[2], s_per_weight=terms[3])
        assert error(found) <= 1.02 * error(other) + 1e-12


def test_twice_too_long_and_half_too_short_pull_alike() -> None:
    one = [Point(kind="pool", direction="forward", seconds=factor * 1e-3, flops=1e6) for factor in (0.5, 2.0)]
    assert on_line_s(fitted_line(one), one[0]) == pytest.approx(1e-3, rel=0.02)


def test_every_kind_and_direction_has_its_own_line() -> None:
    points = [*timed(1, 1, 1, 1, 1), *timed(2, 2, 2, 2, 2, direction="backward_input")]
    lines = fitted_lines(points)
    assert list(lines["window"]) == ["forward", "backward_input"]
    assert lines["window"]["backward_input"].s_per_flop == pytest.approx(2 * TRUE.s_per_flop)
