"""Layers that were timed one by one, and the file that keeps them: a table per processor, torch, cores and ranks.

    times-3f0c91aa.json      beside local.toml
    {"schema_version": 1, "measured_on": {...}, "reference_s": ...,
     "times": {KEY: {"forward_s": ..., "backward_s": ..., "update_s": ...}}}

The key says which operator on how many items (cost/measured.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha1
from pathlib import Path

from msgspec import UNSET, UnsetType, to_builtins

from slicewise.cluster.cluster_file import MeasuredOnFields, TimeFields
from slicewise.cluster.freshness import MeasuredOn
from slicewise.errors import ClusterError
from slicewise.formats.checking import check_version, checked
from slicewise.formats.files import parse_json, read_text
from slicewise.formats.schema import Name, Positive, Table
from slicewise.saving import write_file

READABLE = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Of one device's part."""

    forward_s: float
    backward_s: float
    update_s: float | None = None  # None: not timed

    def over(self, pace: float) -> "LayerTime":
        """On a machine that is `pace` times as quick."""
        update_s = None if self.update_s is None else self.update_s / pace
        return LayerTime(forward_s=self.forward_s / pace, backward_s=self.backward_s / pace, update_s=update_s)


Times = Mapping[str, LayerTime]


class _FileFields(Table):
    measured_on: MeasuredOnFields
    times: dict[Name, TimeFields]
    reference_s: Positive | UnsetType = UNSET
    schema_version: int = 1


def read_time(fields: TimeFields) -> LayerTime:
    return LayerTime(**to_builtins(fields))


def times_path(folder: Path, measured_on: MeasuredOn) -> Path:
    told = json.dumps(asdict(measured_on), sort_keys=True)
    return folder / f"times-{sha1(told.encode(), usedforsecurity=False).hexdigest()[:8]}.json"


def read_times(folder: Path, measured_on: MeasuredOn, reference_s: float | None = None) -> dict[str, LayerTime]:
    """All that are known; none where nothing was timed yet.

    As on the machine when its fixed piece of work took `reference_s`: it may have been quicker when they were timed.
    """
    path = times_path(folder, measured_on)
    if not path.exists():
        return {}
    document = parse_json(read_text(path, ClusterError, "JSON"), str(path), ClusterError)
    check_version(document, str(path), READABLE, ClusterError)
    fields = checked(_FileFields, document, str(path), ClusterError)
    pace = 1.0 if fields.reference_s is UNSET or reference_s is None else fields.reference_s / reference_s
    return {key: read_time(time).over(pace) for key, time in fields.times.items()}


def keep_times(folder: Path, measured_on: MeasuredOn, times: Times, reference_s: float | None = None) -> Path:
    """With those that are kept already; the newer ones win."""
    path = times_path(folder, measured_on)
    every = {**read_times(folder, measured_on, reference_s), **times}
    document = {
        "schema_version": 1,
        "measured_on": asdict(measured_on),
        **({} if reference_s is None else {"reference_s": reference_s}),
        "times": {
            key: {name: value for name, value in asdict(time).items() if value is not None}
            for key, time in sorted(every.items())
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(document, indent=1) + "\n")
    return path
