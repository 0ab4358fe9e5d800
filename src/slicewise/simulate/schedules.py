"""When each stage of a pipeline computes, sends and waits.

    gpipe    stage 0  F0 F1 F2 F3 .. .. .. B0 B1 B2 B3        every stage keeps all micro-batches
             stage 1  .. F0 F1 F2 F3 .. B0 B1 B2 B3

    1f1b     stage 0  F0 F1 .. B0 F2 B1 F3 B2 .. B3           stage s of p keeps p - s at most
             stage 1  .. F0 B0 F1 B1 F2 B2 F3 B3

A stage first receives what it needs (outputs forward, their gradients backward), then computes. torch's schedules ask
for a tensor when they come to it: a transfer starts when both sides have, and only the sender goes on meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.cost.stage import StageCost, in_flight


@dataclass(frozen=True, slots=True)
class Turn:
    stage: int
    name: str  # F0, B0, ...
    start_s: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class ScheduleTimeline:
    turns: tuple[Turn, ...]
    transfers: tuple[Turn, ...]  # by the stage that receives
    finished_s: tuple[float, ...]  # per stage, its sends included


Transfer = tuple[str, int, int]  # "F" or "B", the boundary (that behind stage s is s), the micro-batch


@dataclass(frozen=True, slots=True)
class _Compute:
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Start:
    """This side of a transfer: the other side may come later."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class _Wait:
    transfer: Transfer


_Action = _Compute | _Start | _Wait


def simulate_schedule(stages: Sequence[StageCost], schedule: str, micro_batches: int) -> ScheduleTimeline:
    """Event by event, in the order in which torch's schedule of that name computes, sends and waits."""
    actions_of = _gpipe if schedule == "gpipe" else _one_forward_one_backward
    waiting = [list(reversed(actions_of(stages, number, micro_batches))) for number in range(len(stages))]
    now = [0.0] * len(stages)
    started: dict[Transfer, float] = {}
    ends: dict[Transfer, float] = {}
    free: dict[tuple[str, int], float] = {}  # a link carries one tensor at a time, in each direction
    turns, transfers = [], []
    while any(waiting):
        moved = False
        for number, actions in enumerate(waiting):
            while actions and not (isinstance(actions[-1], _Wait) and actions[-1].transfer not in ends):
                action = actions.pop()
                moved = True
                if isinstance(action, _Compute):
                    turns.append(Turn(number, action.name, now[number], now[number] + action.seconds))
                    now[number] += action.seconds
                elif isinstance(action, _Wait):
                    now[number] = max(now[number], ends[action.transfer])
                elif action.transfer not in started:
                    started[action.transfer] = now[number]
                else:
                    way = action.transfer[:2]
                    start = max(started[action.transfer], now[number], free.get(way, 0.0))
                    free[way] = ends[action.transfer] = start + _transfer_s(stages, action.transfer)
                    direction, boundary, batch = action.transfer
                    receiver = boundary + 1 if direction == "F" else boundary
                    transfers.append(Turn(receiver, f"{direction}{batch}", start, free[way]))
        assert moved, "the schedule waits for itself"
    return ScheduleTimeline(tuple(turns), tuple(transfers), tuple(now))


def _transfer_s(stages: Sequence[StageCost], transfer: Transfer) -> float:
    kind, boundary, _ = transfer
    return stages[boundary + 1].output_s if kind == "F" else stages[boundary].gradient_s or 0.0


class _Side:
    """The actions of one stage, as both schedules are made of."""

    def __init__(self, stages: Sequence[StageCost], number: int) -> None:
        self.actions: list[_Action] = []
        self._cost, self._number = stages[number], number
        self._last = number == len(stages) - 1
        self._returns = not self._last and stages[number].gradient_s is not None
        self._gives_back = number > 0 and stages[number - 1].gradient_s is not None

    def forward(self, index: int) -> None:
        self.actions.append(_Compute(f"F{index}", self._cost.forward_s))

    def backward(self, index: int) -> None:
        self.actions.append(_Compute(f"B{index}", self._cost.backward_s))

    def output_in(self, index: int) -> list[Transfer]:
        return [("F", self._number - 1, index)] if self._number else []

    def output_out(self, index: int) -> list[Transfer]:
        return [] if self._last else [("F", self._number, index)]

    def gradient_in(self, index: int) -> list[Transfer]:
        return [("B", self._number, index)] if self._returns else []

    def gradient_out(self, index: int) -> list[Transfer]:
        return [("B", self._number - 1, index)] if self._gives_back else []

    def start(self, transfers: Sequence[Transfer]) -> list[Transfer]:
        self.actions.extend(_Start(transfer) for transfer in transfers)
        return list(transfers)

    def wait(self, transfers: Sequence[Transfer]) -> None:
        self.actions.extend(_Wait(transfer) for transfer in transfers)


def _gpipe(stages: Sequence[StageCost], number: int, micro_batches: int) -> list[_Action]:
    """All forward, then all backward; what is sent is awaited at the end of each."""
    side = _Side(stages, number)
    sent: list[Transfer] = []
    for index in range(micro_batches):
        side.wait(side.start(side.output_in(index)))
        side.forward(index)
        sent += side.start(side.output_out(index))
    side.wait(sent)
    sent = []
    for index in range(micro_batches):
        side.wait(side.start(side.gradient_in(index)))
        side.backward(index)
        sent += side.start(side.gradient_out(index))
    side.wait(sent)
    return side.actions


def _one_forward_one_backward(stages: Sequence[StageCost], number: int, micro_batches: int) -> list[_Action]:
    """Some forwards, then backward and forward in turn; a send and the receive after it are awaited together."""
    side = _Side(stages, number)
    ahead = in_flight("1f1b", micro_batches, len(stages), number)
    sent: list[Transfer] = []
    for index in range(ahead):
        side.wait(side.start(side.output_in(index)))
        side.forward(index)
        side.wait(sent)
        sent = side.start(side.output_out(index)) if index < ahead - 1 else []
    for index in range(micro_batches - ahead + 1):
        side.wait(side.start(side.output_out(index + ahead - 1) + side.gradient_in(index)))
        side.backward(index)
        if index + ahead < micro_batches:
            side.wait(side.start(side.gradient_out(index) + side.output_in(index + ahead)))
            side.forward(index + ahead)
    sent = side.start(side.gradient_out(micro_batches - ahead))
    for index in range(micro_batches - ahead + 1, micro_batches):
        side.wait(side.start(side.gradient_in(index)))
        side.backward(index)
        side.wait(sent)
        sent = side.start(side.gradient_out(index))
    side.wait(sent)
    return side.actions
