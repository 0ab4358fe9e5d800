"""Answers that were given before, as bytes: in a lecture everybody asks the same."""

from collections import OrderedDict
from collections.abc import Hashable


class Remembered:
    """The last answers that fit into so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        if key not in self._answers:
            return None
        self._answers.move_to_end(key)
        return self._answers[key]

    def add(self, key: Hashable, answer: bytes) -> None:
        if len(answer) > self._most // 4 or key in self._answers:
            return
        self._answers[key] = answer
        self._held += len(answer)
        while self._held > self._most:
            self._held -= len(self._answers.popitem(last=False)[1])
