"""A cluster as the TOML text that `load_cluster` reads, or as the same fields inside another file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

import tomli_w

from slicewise.cluster.cluster import Cluster
from slicewise.cluster.tuning import NEUTRAL, Tuning

_WIDE = 100  # tiers indented so far do not fit on one line each: they stand as [[tiers]]


def to_toml(cluster: Cluster, remarks: Sequence[str] = ()) -> str:
    """Everything spelled out, four digits of each figure; `remarks` stand above it as comments."""
    document = {"schema_version": 1, **to_fields(cluster)}
    del document["tuning"]
    tiers = [_filled(tier) for tier in document.pop("tiers")]
    document["device"] = _filled(document["device"])
    document = _filled(document)
    comments = "".join(f"# {remark}".rstrip() + "\n" for remark in remarks)
    texts = [toml(document), toml({"tiers": tiers}, indent=_WIDE), tuning_toml(cluster.tuning)]
    return comments + "\n".join(text for text in texts if text)


def tuning_toml(tuning: Tuning) -> str:
    """`[tuning]`, of what is not neutral; nothing if all is."""
    given = {item.name: getattr(tuning, item.name) for item in fields(Tuning)}
    changed = {name: value for name, value in given.items() if value != getattr(NEUTRAL, name)}
    return toml({"tuning": changed}) if changed else ""


def toml(document: Mapping[str, Any], *, digits: int = 4, indent: int = 2) -> str:
    """Every float with so many digits, in its short form."""
    return tomli_w.dumps(_short(document, digits), indent=indent)


def to_fields(cluster: Cluster) -> dict[str, Any]:
    """What the TOML says, as tables, to the last digit."""
    fields: dict[str, Any] = said(asdict(cluster))
    return fields


def said(value: Any) -> Any:
    """Without what is None: TOML has no word for it. Lists for tuples, as a file gives them back."""
    if isinstance(value, dict):
        return {name: said(item) for name, item in value.items() if item is not None}
    return [said(item) for item in value] if isinstance(value, list | tuple) else value


def _filled(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without tables that say nothing."""
    return {name: value for name, value in table.items() if value != {}}


def _short(value: Any, digits: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _short(item, digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item, digits) for item in value]
    if isinstance(value, float):  # 1.25e+10 is a decimal's own spelling, 4.03e-05 a float's
        spelled = f"{value:.{digits}g}"
        return min(float(spelled), Decimal(spelled), key=lambda number: len(str(number)))
    return value
