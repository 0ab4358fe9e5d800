"""Two ranks that reach each other over a link: measured, and given plans to run."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.throughput.hosts import Host, hosts
from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.errors import RequestError
from slicewise.plans.plan import Plan
from slicewise.running.launch import MALLOC_TUNABLES
from slicewise.running.validating import run_command

RANKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The machine over one link."""

    hosts: Sequence[Host]
    machine: Cluster

    def run(self, plan: Plan, iterations: int, against: Plan | None = None) -> Mapping[str, Any]:
        """What `slicewise run` says of it."""
        with tempfile.TemporaryDirectory() as folder:
            command = run_command(Path(folder), plan, iterations, against)
            document: dict[str, Any] = json.loads(_everywhere(self.hosts, *command))
        return document

    def measured(self, ranks: int) -> Cluster:
        """The machine as it is now."""
        assert ranks == RANKS
        return _measured(self.hosts)


def _measured(found: Sequence[Host]) -> Cluster:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.toml"
        _everywhere(found, "calibrate", "--quick", "-o", str(path))
        return replace(load_cluster(path), name="local")


@contextmanager
def place(megabits_per_s: int | None) -> Iterator[Place]:
    """This machine's loopback (None), or two emulated hosts; `calibrate --quick` over that link."""
    with hosts(megabits_per_s, RANKS) as found:
        yield Place(hosts=found, machine=_measured(found))


def _everywhere(places: Sequence[Host], *command: str) -> str:
    """What the first rank prints; all of them end well."""
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{rank}.log" for rank in range(len(places))]
        for rank, (host, log) in enumerate(zip(places, logs, strict=True)):
            own = {"RANK": str(rank), "WORLD_SIZE": str(len(places)), "OMP_NUM_THREADS": "1"}
            environment = {**os.environ, **host.environment, **own, "GLIBC_TUNABLES": MALLOC_TUNABLES}
            program = [*host.prefix, sys.executable, "-m", "slicewise", *command]
            with log.open("wb") as errors:
                processes.append(subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=errors))
        try:
            printed = [process.communicate()[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any(process.returncode not in (0, 1) for process in processes):
            raise RequestError("; ".join(log.read_text().strip()[-300:] for log in logs))
    return printed[0].decode()
