"""Learn a machine and its framework from a few measured runs, so that larger ones can be projected.

    minimise over theta    sum over runs of rho((log projected(theta) - log measured) / sigma)
                           + sum over parameters of ((log theta - log preset) / spread)^2 / 2

rho(z) = sqrt(1 + z^2) - 1 grows like z^2 / 2 for small z, and like |z| for runs that no theta explains. What no run
speaks about stays at its preset. Compute and communication count beside the iteration where a run has them. gamma, what
is really held of the bytes that are counted, is the median over runs whose memory was measured.
Uncertainties come from the curvature at the minimum; runs that scatter more than sigma count for less there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.cluster.cluster import Cluster
from slicewise.dtype import DTYPES
from slicewise.fitting.parameters import Parameter, parameters
from slicewise.fitting.projecting import Projector
from slicewise.fitting.runs import Run
from slicewise.partition.choices import Floats
from slicewise.strategy import SERIAL, STRATEGIES

SIGMA = 0.1  # what runs of one machine scatter, relative
KINDS = ("iteration_s", "compute_s", "communication_s")
HELD_SPREAD = 0.2  # of one run's memory over what is counted, where there is no other
NOTHING = 0.02  # what networks may move together: that is the device's part
SPEAKS = 0.01  # a run speaks about a parameter that moves it by this share of its own change


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """One parameter."""

    name: str
    unit: str
    preset: float
    value: float
    deviation: float  # standard deviation of the logarithm: the relative one, where it is small
    runs: int  # that speak about it; 0: it is still the preset's


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    cluster: Cluster
    parameters: tuple[Fitted, ...]
    projected_s: tuple[float, ...]  # per run
    margin: float  # of a projection, relative: twice its standard deviation


def fit(
    runs: Sequence[Run],
    base: Cluster,
    projector: Projector | None = None,
    *,
    sigma: float = SIGMA,
    distrust: float = 1.0,
) -> Fit:
    """The cluster that explains `runs` best, from what `base` says of it; `distrust` multiplies every spread."""
    project = projector or Projector()
    learned = _learn(runs, base, project, sigma, distrust)
    margin = 2 * max(learned.deviation, _deviation_beyond(runs, base, project, sigma, distrust))
    held = _memory_held(runs, learned.cluster, project)
    reuse = held[0].value if held else learned.cluster.tuning.memory_reuse
    tuning = replace(learned.cluster.tuning, margin=margin, memory_reuse=reuse, **_seen(runs, project))
    cluster = replace(learned.cluster, origin="fitted", tuning=tuning)
    return Fit(
        cluster=cluster,
        parameters=(*learned.parameters, *held),
        projected_s=tuple(float(seconds) for seconds in project.seconds(runs, cluster)),
        margin=margin,
    )


def _seen(runs: Sequence[Run], project: Projector) -> dict[str, Any]:
    """What `margin` speaks of. On one device every strategy is serial: such a run shows nothing of its links."""
    strategies = {SERIAL.name if run.devices == 1 else run.strategy for run in runs}
    return {
        "networks": tuple(sorted({project.graph(run).name for run in runs})),
        "strategies": tuple(name for name in STRATEGIES if name in strategies),
        "dtypes": tuple(name for name in DTYPES if name in {run.dtype for run in runs}),
        "most_devices": max(run.devices for run in runs),
    }


@dataclass(frozen=True, slots=True)
class _Learned:
    cluster: Cluster
    parameters: tuple[Fitted, ...]
    deviation: float  # of the fitted runs' projections: their scatter, and what the parameters leave open


def _learn(runs: Sequence[Run], base: Cluster, project: Projector, sigma: float, distrust: float) -> _Learned:
    from scipy.optimize import least_squares  # only here: planning and projecting start without it

    strategies = tuple(dict.fromkeys(run.strategy for run in runs))
    given = list(parameters(base, strategies, _paced(project.graph(run).name for run in runs)))
    seen = [(number, kind) for number, run in enumerate(runs) for kind in KINDS if getattr(run, kind) is not None]
    measured = np.log([getattr(runs[number], kind) for number, kind in seen])

    def off(moved: Floats) -> Floats:
        terms = project.terms(runs, _moved(base, given, moved))
        projected = np.array([getattr(terms[number], kind) for number, kind in seen])
        difference: Floats = np.log(np.maximum(projected, 1e-12)) - measured
        return difference

    slopes = _slopes(off, len(given))
    speaks = np.abs(slopes) > SPEAKS
    spoken = np.flatnonzero(speaks.any(axis=0))
    spread = distrust * np.array([given[number].spread for number in spoken])
    most = np.log([given[number].most / given[number].value for number in spoken])

    relative = np.array([given[number].relative for number in spoken], dtype=bool)

    def residuals(moved: Floats) -> Floats:
        told = _tamed(off(_spread_out(moved, spoken, len(given))) / sigma)
        return np.concatenate([told, moved / spread, [moved[relative].sum() / (distrust * NOTHING)]])

    found = least_squares(residuals, np.zeros(len(spoken)), bounds=(-np.inf, most + 1e-9))
    moved = _spread_out(found.x, spoken, len(given))
    left = off(moved)
    scatter = max(1.0, float(np.mean(_tamed(left / sigma) ** 2)))
    told, trusted = found.jac[: len(seen)], found.jac[len(seen) :]
    covariance = np.linalg.inv(told.T @ told / scatter + trusted.T @ trusted)
    leverage = sigma * told
    left_open = np.einsum("ri,ij,rj->r", leverage, covariance, leverage)
    deviations = dict(zip(map(int, spoken), np.sqrt(np.diag(covariance)), strict=True))
    learned = tuple(
        Fitted(
            name=parameter.name,
            unit=parameter.unit,
            preset=parameter.value,
            value=parameter.value * float(np.exp(moved[number])),
            deviation=float(deviations.get(number, parameter.spread)),
            runs=len({seen[row][0] for row in np.flatnonzero(speaks[:, number])}),
        )
        for number, parameter in enumerate(given)
    )
    return _Learned(_moved(base, given, moved), learned, float(np.sqrt(np.mean(left**2) + np.mean(left_open))))


def _memory_held(runs: Sequence[Run], cluster: Cluster, project: Projector) -> tuple[Fitted, ...]:
    """gamma: the median of measured over counted bytes; nothing where no run has its memory measured."""
    known = [run for run in runs if run.memory_bytes is not None]
    if not known:
        return ()
    before = cluster.tuning.memory_reuse
    counted = [terms.memory_bytes for terms in project.terms(known, cluster)]
    ratios = np.log([run.memory_bytes or 1.0 for run in known]) - np.log(counted)
    middle = float(np.median(ratios))
    off = float(np.sqrt(np.mean((ratios - middle) ** 2) / len(known))) if len(known) > 1 else HELD_SPREAD
    value = before * float(np.exp(middle))
    told = Fitted(name="memory held over counted", unit="", preset=before, value=value, deviation=off, runs=len(known))
    return (told,)


def _paced(names: Iterable[str]) -> tuple[str, ...]:
    """Networks with a pace of their own: those with others beside them. One alone stands for the device."""
    found = tuple(dict.fromkeys(names))
    return found if len(found) > 1 else ()


def _deviation_beyond(runs: Sequence[Run], base: Cluster, project: Projector, sigma: float, distrust: float) -> float:
    """How far off the largest run of every kind is if the fit does not see it; 0 where there is nothing smaller."""
    largest: dict[tuple[object, ...], int] = {}
    for run in runs:
        largest[_kind(run)] = max(run.devices, largest.get(_kind(run), 0))
    rest = [run for run in runs if run.devices < largest[_kind(run)] or run.devices == 1]
    known = {_kind(run) for run in rest}
    beyond = [run for run in runs if 1 < run.devices == largest[_kind(run)] and _kind(run) in known]
    if not beyond:
        return 0.0
    smaller = _learn(rest, base, project, sigma, distrust).cluster
    ratios = project.seconds(beyond, smaller) / np.array([run.iteration_s for run in beyond])
    return float(np.sqrt(np.mean(np.log(ratios) ** 2)))


def _kind(run: Run) -> tuple[object, ...]:
    return run.model, run.input, run.dtype, run.strategy


def _moved(base: Cluster, given: Sequence[Parameter], moved: Floats) -> Cluster:
    """`base` with every parameter moved by so much on its logarithmic scale; what does not move is not touched."""
    for parameter, step in zip(given, moved, strict=True):
        if step:
            base = parameter.put(base, parameter.value * float(np.exp(step)))
    return base


def _spread_out(values: Floats, places: NDArray[np.intp], count: int) -> Floats:
    everywhere = np.zeros(count)
    everywhere[places] = values
    return everywhere


def _slopes(off: Callable[[Floats], Floats], count: int) -> Floats:
    """d log projected / d log parameter at the preset: [run, parameter]."""
    steps = 0.1 * np.eye(count)
    return np.stack([(off(step) - off(-step)) / 0.2 for step in steps], axis=1)


def _tamed(residuals: Floats) -> Floats:
    """sign(z) sqrt(2 rho(z)): its square is 2 rho(z)."""
    return residuals * np.sqrt(2 / (np.sqrt(1 + residuals**2) + 1))
