"""Records of runs that never were: known times, known noise, known faults."""

import numpy as np

from slicewise.cost.prediction import Prediction
from slicewise.diagnosis.expectation import Expectation
from slicewise.diagnosis.readers.run_json import KIND
from slicewise.diagnosis.record import Floats, Record

COMPUTE_S, SYNC_S, UPDATE_S = 0.030, 0.010, 0.002
STEP_S = COMPUTE_S + SYNC_S + UPDATE_S


def expected(ranks: int = 2, *, range_factor: float = 1.6, shares: Floats | None = None) -> Expectation:
    step = Prediction(
        iteration_s=STEP_S,
        low_s=STEP_S / range_factor,
        high_s=STEP_S * range_factor,
        seconds={"compute": COMPUTE_S, "update": UPDATE_S, "sync": SYNC_S, "exposed_sync": SYNC_S},
        origin="fitted",
    )
    return Expectation(step=step, shares=np.ones(ranks) if shares is None else shares)


def factors(steps: int, ranks: int) -> Floats:
    """Nothing is wrong: every term takes once its time."""
    return np.ones((steps, ranks))


def record(
    compute: Floats, sync: Floats | None = None, *, data: Floats | None = None, noise: float, seed: int
) -> Record:
    """Terms are so many times what they should be, [step, rank]; noise is relative, with a heavy tail.

    Ranks meet at the sync, so that each waits there for the slowest.
    """
    random = np.random.default_rng(seed)
    steps, ranks = compute.shape

    def noisy(values: Floats) -> Floats:
        return values * (1 + noise * np.abs(random.standard_t(3, values.shape)))

    own = noisy(COMPUTE_S * compute)
    moving = noisy(SYNC_S * (factors(steps, 1) if sync is None else sync[:, :1]))
    waits = own.max(axis=1, keepdims=True) - own
    update = noisy(np.full((steps, ranks), UPDATE_S))
    return Record(
        kind=KIND,
        files=("run.json",),
        steps=tuple(range(steps)),
        ranks=tuple(range(ranks)),
        seconds={
            "data": np.zeros((steps, ranks)) if data is None else data,
            "step": own + waits + moving + update,
            "compute": own,
            "wait": waits,
            "sync": np.repeat(moving, ranks, axis=1),
            "update": update,
        },
    )
