"""The JSON of `slicewise run`: every term of every step on every rank."""

from typing import Annotated, Any

import numpy as np
from msgspec import UNSET, Meta, UnsetType, defstruct, to_builtins

from slicewise.diagnosis.record import FileKind, Record, Stalled
from slicewise.errors import RequestError
from slicewise.formats.checking import check_version, checked
from slicewise.formats.schema import LONGEST_S, Count, Excerpt, Name, Natural, NonNegative, Seconds, Table, Words
from slicewise.terms import LAYER_TERMS

READABLE = (1,)
Signed = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]  # what is left of a step may be a little below 0

KIND = FileKind(
    name="JSON of `slicewise run`",
    can_tell=(
        "a slow rank from a rank that waits for it",
        "a slow link or congestion from slow compute",
        "waiting for data from both (with --data)",
        "since which step, and which term",
        "in which layer's forward a slow rank loses most",
    ),
    cannot_tell=(
        "which of several links is slow: a collective is as slow as the slowest it uses",
        "a link that is slow from the first step from one that is described as too fast",
        "all ranks slow alike from the first step from a wrong cost model",
        "why a rank is slow: another process, heat, a throttled clock",
        "what goes on inside a pipeline: its ranks wait for each other unseen",
    ),
)


STALLED = FileKind(
    name="JSON of a `slicewise run` that stalled",
    can_tell=("which rank the others waited for, at which step and in which layer",),
    cannot_tell=("why it did not move", "how the steps before were"),
)

# `[[seconds of each rank] of each step]`, by term
StepsFields = defstruct(
    "StepsFields",
    [
        ("step", list[list[Seconds]]),
        *(
            (name, list[list[Signed]] | UnsetType, UNSET)
            for name in ("data", "wait", *(term.name for term in LAYER_TERMS), "communication")
        ),
    ],
    bases=(Table,),
)


class RankFields(Excerpt):
    """Where a rank was last seen."""

    step: Natural
    doing: Name
    layer: Words


class StallFields(Excerpt):
    waited_s: Seconds
    behind: list[Natural]
    ranks: list[RankFields | None]
    told: Words


class StalledFields(Excerpt):
    """What the JSON of a run says that came to a stop."""

    stalled: StallFields
    model: Name | UnsetType = UNSET
    devices: Count | UnsetType = UNSET
    batch: Count | UnsetType = UNSET


class RunFields(Excerpt):
    """What the JSON of a run says that is used here."""

    steps_s: StepsFields  # type: ignore[valid-type]
    model: Name | UnsetType = UNSET
    devices: Count | UnsetType = UNSET
    batch: Count | UnsetType = UNSET
    layers_s: dict[str, list[NonNegative]] | UnsetType = UNSET


def read(document: dict[str, Any], name: str) -> Record:
    check_version({"schema_version": READABLE[0], **document}, name, READABLE, RequestError)
    if "stalled" in document:
        return _stalled(checked(StalledFields, document, name), name)
    if "steps_s" not in document:
        raise RequestError(f"{name}: no seconds by step (`steps_s`); measure again with this version's `slicewise run`")
    fields = checked(RunFields, document, name)
    table = to_builtins(fields.steps_s)
    lengths = {len(row) for rows in table.values() for row in rows}
    if len(lengths) != 1 or lengths == {0} or len({len(rows) for rows in table.values()}) != 1:
        raise RequestError(f"{name}: `steps_s` is no table of steps x ranks for every term")
    seconds = {term: np.array(rows, dtype=np.float64) for term, rows in table.items()}
    steps, ranks = seconds["step"].shape
    return Record(
        kind=KIND,
        files=(name,),
        steps=tuple(range(steps)),
        ranks=tuple(range(ranks)),
        seconds=seconds,
        facts={key: value for key, value in to_builtins(fields).items() if key not in ("steps_s", "layers_s")},
        layers=_layers(fields, ranks, name),
    )


def _layers(fields: RunFields, ranks: int, name: str) -> dict[str, list[float]]:
    layers = {} if isinstance(fields.layers_s, UnsetType) else fields.layers_s
    if any(len(row) != ranks for row in layers.values()):
        raise RequestError(f"{name}: `layers_s` must have one number for each of the {ranks} ranks")
    return layers


def _stalled(fields: StalledFields, name: str) -> Record:
    """One step, of which nobody saw the end."""
    stall = fields.stalled
    ranks = len(stall.ranks)
    if not ranks or any(rank >= ranks for rank in stall.behind):
        raise RequestError(f"{name}: `stalled.behind` names ranks beyond the {ranks} of `stalled.ranks`")
    seen = stall.ranks[stall.behind[0] if stall.behind else 0]
    step, doing, layer = (seen.step, seen.doing, seen.layer) if seen else (0, "start", "")
    return Record(
        kind=STALLED,
        files=(name,),
        steps=(step,),
        ranks=tuple(range(ranks)),
        seconds={"step": np.full((1, ranks), stall.waited_s)},
        facts={key: value for key, value in to_builtins(fields).items() if key != "stalled"},
        stall=Stalled(
            waited_s=stall.waited_s,
            behind=tuple(stall.behind) or tuple(range(ranks)),
            step=step,
            doing=doing,
            layer=layer,
            told=stall.told,
        ),
    )
