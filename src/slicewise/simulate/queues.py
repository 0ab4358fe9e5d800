"""Gradient buckets of many plans beside their backward passes: simulate/step.py, one array entry per plan."""

from dataclasses import dataclass

import numpy as np

from slicewise.partition.choices import Floats, Ints

NO_TIER = -1


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Of every plan, in the order in which they travel: [plan, bucket]. Those that a plan lacks are never ready."""

    ready: Ints  # the position in backward behind which all its gradients are there
    alone_s: Floats
    tier: Ints


class Queue:
    """The buckets under way in every plan, first come, first served."""

    def __init__(self, buckets: Buckets, positions: int, queue_s: Floats) -> None:
        """`queue_s`: of each tier, what a message waits behind a bucket on it."""
        plans, self._most = buckets.ready.shape
        rows, _ = np.nonzero(buckets.ready < positions)
        arrivals = np.bincount(
            rows * positions + buckets.ready[buckets.ready < positions], minlength=plans * positions
        ).reshape(plans, positions)
        self._arrived = arrivals.cumsum(axis=1)
        self.admitting = np.flatnonzero(arrivals.any(axis=0))
        # one more column: the place behind the last bucket
        self._alone_s = np.pad(buckets.alone_s, ((0, 0), (0, 1)))
        self._tier = np.pad(buckets.tier, ((0, 0), (0, 1)), constant_values=NO_TIER)
        self._head = np.zeros(plans, dtype=np.int64)
        self._admitted = np.zeros(plans, dtype=np.int64)
        self._left_s = self._alone_s[:, 0].copy()
        self._queue_s = np.append(queue_s, 0.0)  # the last for tasks without a tier: NO_TIER
        self.hidden_s = np.zeros(plans)  # seconds of communication done while the device did something else

    def admit(self, position: int) -> None:
        self._admitted = self._arrived[:, position]

    def beside(self, busy_s: Floats, tier: Ints | None = None) -> Floats:
        """What a task of `busy_s` takes beside the buckets: longer where it needs the tier that a bucket is on."""
        taken_s = np.broadcast_to(busy_s, self._head.shape).copy()
        busy_s = taken_s.copy()
        if tier is not None:
            taken_s += self._queued_s(busy_s, np.broadcast_to(tier, self._head.shape))
        rows = np.flatnonzero((self._head < self._admitted) & (busy_s > 0))
        busy_s = busy_s[rows]
        while len(rows):
            head = self._head[rows]
            done_s = np.minimum(busy_s, self._left_s[rows])
            if tier is None:
                self.hidden_s[rows] += done_s
            else:
                shared = self._tier[rows, head] == np.broadcast_to(tier, self._head.shape)[rows]
                taken_s[rows] += np.where(shared, done_s, 0.0)
                self.hidden_s[rows] += np.where(shared, 0.0, done_s)
            busy_s = busy_s - done_s
            self._left_s[rows] -= done_s
            self._land(rows[self._left_s[rows] <= 0])
            going = (busy_s > 0) & (self._head[rows] < self._admitted[rows])
            rows, busy_s = rows[going], busy_s[going]
        return taken_s

    def _queued_s(self, busy_s: Floats, tier: Ints) -> Floats:
        """What messages wait behind what buckets have queued."""
        shared = (self._head < self._admitted) & (busy_s > 0) & (self._tier[np.arange(len(tier)), self._head] == tier)
        waited_s = np.where(shared, np.minimum(self._queue_s[tier], self._left_s), 0.0)
        self._left_s -= waited_s
        self._land(np.flatnonzero(shared & (self._left_s <= 0)))
        return waited_s

    def rest_s(self) -> Floats:
        """Until every bucket has arrived, with nothing beside."""
        behind = np.cumsum(self._alone_s[:, ::-1], axis=1)[:, ::-1]  # of a bucket and all later ones
        rows = np.arange(len(self._head))
        here_s = np.where(self._head < self._most, self._left_s, 0.0)
        return here_s + behind[rows, np.minimum(self._head + 1, self._most)]

    def _land(self, rows: Ints) -> None:
        self._head[rows] += 1
        self._left_s[rows] = self._alone_s[rows, self._head[rows]]
