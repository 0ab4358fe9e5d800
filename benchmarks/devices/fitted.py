"""The fit's records as a file: what `benchmarks.devices.run` predicts with."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from benchmarks.devices.record import Record
from benchmarks.devices.samples import DATA

PATH = DATA / "fitted.json"


def save(records: Iterable[Record]) -> None:
    tables = []
    for record in records:
        table = asdict(record)
        for name in ("values", "spread"):
            table[name] = {key: round(value, 4) for key, value in sorted(table[name].items())}
        tables.append(table)
    PATH.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


def load() -> dict[str, Record]:
    tables = json.loads(PATH.read_text(encoding="utf-8"))
    return {table["group"]: Record(**table) for table in tables}
