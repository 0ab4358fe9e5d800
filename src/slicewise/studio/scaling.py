"""Every strategy by its closed form: at the chosen number of devices, and over all numbers that a slider stops at."""

from dataclasses import replace
from typing import Any

from slicewise.errors import RequestError
from slicewise.figures.scaling import scaling_figure
from slicewise.strategies.projecting import Oracle, ProjectionTable, oracle_of, table_of
from slicewise.strategies.ranking import verdict
from slicewise.strategy import SERIAL, STRATEGIES
from slicewise.studio.benches import Kept
from slicewise.studio.setting import Setting, device_counts


class Scaling:
    """Answers from oracles that are kept: another batch or device count profiles nothing anew."""

    def __init__(self, most: int = 12) -> None:
        self._oracles: Kept[Oracle] = Kept(most)
        self._tables: Kept[ProjectionTable] = Kept(256)

    def here(self, setting: Setting) -> dict[str, Any]:
        """The rows at the chosen device count."""
        table = self.table(setting, [setting.devices], weak=False)
        return {
            "rows": [row.to_dict() for row in table],
            "memory_limit_bytes": table.oracle.memory_limit_bytes,
        }

    def over_counts(self, setting: Setting, *, weak: bool) -> dict[str, Any]:
        """The rows at every count: with the same batch, or (`weak`) the same samples per device. And, which takes as
        long, why the best strategy at the chosen count is the best."""
        table = self.table(setting, self.counts(setting, weak=weak), weak=weak)
        rows = [row.to_dict() for row in table]
        title = f"Time per step of {setting.graph.name}, " + (
            f"{setting.batch / setting.devices:g} samples per device" if weak else f"batch {setting.batch:,}"
        )
        return {
            "scaling": "weak" if weak else "strong",
            "rows": rows,
            "svg": scaling_figure(_drawn(rows), title=title),
            "verdict": verdict(self.table(setting, [setting.devices], weak=False)),
        }

    def counts(self, setting: Setting, *, weak: bool) -> list[int]:
        counts = sorted({*device_counts(setting.cluster), setting.devices})
        if not weak:
            return counts
        return [count for count in counts if setting.batch * count % setting.devices == 0]

    def table(self, setting: Setting, counts: list[int], *, weak: bool) -> ProjectionTable:
        size = setting.batch / setting.devices if weak else setting.batch

        def made() -> ProjectionTable:
            setting.machine  # noqa: B018 (refuses counts that do not fill whole nodes)
            with self._oracles.lent(setting.machine_key, lambda: _oracle(setting)) as oracle:
                if weak:
                    asked = replace(oracle, batch=None, batch_per_device=size)
                else:
                    asked = replace(oracle, batch=int(size), batch_per_device=None)
                return table_of(asked, tuple(STRATEGIES), counts)

        with self._tables.lent((setting.machine_key, size, weak, tuple(counts)), made) as table:
            return table


def _drawn(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What has a step to draw; the table beside it says why others have none."""
    return [row for row in rows if row["iteration_s"] is not None and row["strategy"] != SERIAL.name]


def _oracle(setting: Setting) -> Oracle:
    if not len(setting.graph):
        raise RequestError(f"{setting.graph.name} has no layers; upload another graph")
    return oracle_of(setting.graph, setting.cluster, batch=setting.batch, training=setting.training)
