"""Whether ranks have stalled, which of them is behind, and the sentence that says so."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewise.runtime.whereabouts import DONE, OUTSIDE, STARTING, Place

_STARTING_S, _STARTING_FACTOR = 600.0, 10  # importing, building and checking a model take longer than a layer
_DOING = {
    "compute": "computing {layer}",
    "backward": "in backward, after {layer}",
    "count": "waiting for the other ranks' batches",
    "data": "waiting for its own batch",
    "update": "in the optimizer's step",
    "save": "saving a checkpoint",
    "load": "loading a checkpoint",
    "barrier": "waiting for the other ranks to begin the step",
    "start": "starting",
    "build": "building the model",
    "check": "comparing with one device",
    OUTSIDE: "outside the network: in the script or its loader",
}
_MOST_PLACES = 4  # in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """`behind`: the ranks that the others wait for; none where all have come equally far."""

    waited_s: float
    places: tuple[Place | None, ...]  # by rank
    behind: tuple[int, ...]
    stopped: tuple[int, ...] = ()  # ranks whose process somebody has stopped
    silent: tuple[int, ...] = ()  # ranks of other hosts that say nothing any more

    def __str__(self) -> str:
        groups = _grouped([place for place in self.places if place is not None], first=self.behind)
        told = [f"{_ranks(ranks)} {_seen(place, len(ranks))}" for place, ranks in groups[:_MOST_PLACES]]
        silent = [rank for rank, place in enumerate(self.places) if place is None]
        told += [f"{_ranks(silent)} said nothing yet"] if silent else []
        told += ["..."] if len(groups) > _MOST_PLACES else []
        why = ""
        if self.stopped:
            why = f"; {_ranks(self.stopped)} {'is' if len(self.stopped) == 1 else 'are'} stopped (SIGSTOP?)"
        elif self.silent:
            why = f"; nothing is heard of {_ranks(self.silent)} any more: stopped, or a link is down"
        elif not self.behind:
            why = "; all have come equally far: a link may be down"
        return f"no rank has moved for {self.waited_s:.0f} s: {'; '.join(told)}{why}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "waited_s": self.waited_s,
            "behind": list(self.behind),
            "stopped": list(self.stopped),
            "silent": list(self.silent),
            "ranks": [
                None if place is None else {"step": place.step, "doing": place.doing, "layer": place.layer}
                for place in self.places
            ],
            "told": str(self),
        }


def stalled(
    places: Sequence[Place | None], now_s: float, timeout_s: float, since_s: float, silent: tuple[int, ...] = ()
) -> Stall | None:
    """`since_s`: when ranks were started; those that have said nothing count from then.

    The last word of a `silent` rank may be an old one: that it was starting is no reason to wait for it.
    """
    if any(place is not None and place.doing == DONE for place in places):
        return None
    newest_s = max((place.time_s for place in places if place is not None), default=since_s)
    starting = any(
        place is None or (place.doing in STARTING and rank not in silent) for rank, place in enumerate(places)
    )
    waited_s = now_s - newest_s
    if waited_s < (max(_STARTING_S, timeout_s * _STARTING_FACTOR) if starting else timeout_s):
        return None
    stopped = tuple(place.rank for place in places if place is not None and _is_stopped(place.process))
    behind = stopped or silent or _behind(places)
    return Stall(waited_s=waited_s, places=tuple(places), behind=behind, stopped=stopped, silent=silent)


def somebody_waits(places: Sequence[Place | None]) -> bool:
    """Inside the network; where all are outside, a script does something else."""
    return any(place is not None and place.doing != OUTSIDE for place in places)


def _behind(places: Sequence[Place | None]) -> tuple[int, ...]:
    silent = tuple(rank for rank, place in enumerate(places) if place is None)
    if silent:
        return silent if len(silent) < len(places) else ()
    known = [place for place in places if place is not None]
    first, last = min(place.position for place in known), max(place.position for place in known)
    return tuple(place.rank for place in known if place.position == first) if first != last else ()


def _is_stopped(process: int) -> bool:
    """As far as the system tells: on Linux, for a process of this host."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    return False


def _grouped(places: Sequence[Place], first: Sequence[int]) -> list[tuple[Place, list[int]]]:
    """Ranks that were seen at the same place, those of `first` before the others."""
    found: dict[tuple[Any, ...], tuple[Place, list[int]]] = {}
    for place in sorted(places, key=lambda place: (place.rank not in first, place.position, place.rank)):
        key = (place.rank in first, place.step, place.doing, place.layer)
        found.setdefault(key, (place, []))[1].append(place.rank)
    return list(found.values())


def _seen(place: Place, ranks: int) -> str:
    where = _DOING.get(place.doing, f"in {place.doing} of {{layer}}").format(layer=place.layer or "the last layer")
    step = "" if place.doing in STARTING else f" (step {place.step})"
    return f"{'was' if ranks == 1 else 'were'} last seen {where}{step}"


def _ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-3, 5`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    told = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {told}" if len(ranks) == 1 else f"ranks {told}"
