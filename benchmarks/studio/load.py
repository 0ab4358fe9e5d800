"""Many visitors at once: `python -m benchmarks.studio.load --sessions 50 --seconds 300`.

Each session opens the page, then moves sliders, looks at curves, opens layers and changes them, with a second to think
in between. The server is a process of its own; its memory is read from /proc.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from benchmarks.markdown import show
from benchmarks.studio.server import Server, served

NETWORKS = ("alexnet", "resnet50", "vgg16")
DEVICES = (1, 2, 4, 8, 16, 32, 64, 128)
BATCHES = (128, 256, 512, 1024, 2048)
SEARCHED = "plan (searched)"
FILES = ("/", "/page/studio.js", "/page/base.css", "/page/studio.css", "/page/plan.js", "/page/learn.js")


class Session(threading.Thread):
    """One visitor."""

    def __init__(self, port: int, number: int, until: float, think_s: float) -> None:
        super().__init__(daemon=True)
        self.port, self.until, self.think_s = port, until, think_s
        self.chance = random.Random(number)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.later: list[float] = []  # of the second half, searches left out
        self.half = until - (until - time.monotonic()) / 2
        self.errors: list[str] = []

    def run(self) -> None:
        self.wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        time.sleep(self.chance.random() * self.think_s * 5)  # nobody comes at the same moment
        for path in FILES:
            self.asked("file", "GET", path)
        self.question("choices", {})
        setting = {"model": "alexnet", "cluster": "p100-4x4", "devices": 16, "batch": 512}
        view = self.planned(setting)
        while time.monotonic() < self.until:
            time.sleep(self.chance.expovariate(1 / self.think_s))
            kind = self.chance.choices(("project", "scaling", "layer", "change", "file"), (60, 10, 8, 17, 5))[0]
            if kind in ("project", "scaling"):
                self.question(kind, {"setting": self.moved()})
            elif kind == "file":
                self.asked("file", "GET", self.chance.choice(FILES))
            elif view:
                name = self.chance.choice([layer["name"] for layer in view["layers"] if layer["shown"]])
                more = {"to": "NNNN"} if kind == "change" else {}
                plan = {"slicings": view["slicings"], "bucket_bytes": view["bucket_bytes"]}
                self.question(kind, {"setting": setting, **plan, "layer": name, **more})
        self.wire.close()

    def moved(self) -> dict[str, Any]:
        return {
            "model": self.chance.choice(NETWORKS),
            "cluster": "p100-4x4",
            "devices": self.chance.choice(DEVICES),
            "batch": self.chance.choice(BATCHES),
        }

    def planned(self, setting: dict[str, Any]) -> dict[str, Any] | None:
        """The searched plan: all sessions wait for one search."""
        text = self.asked(SEARCHED, "POST", "/api/plan", {"setting": setting})
        found = re.search(rb"event: done\ndata: (.*)\n", text or b"")
        if found is None:
            self.errors.append("no plan")
            return None
        view: dict[str, Any] = json.loads(found[1])
        return view

    def question(self, name: str, document: dict[str, Any]) -> None:
        self.asked(name, "POST", f"/api/{name}", document)

    def asked(self, kind: str, method: str, path: str, document: dict[str, Any] | None = None) -> bytes | None:
        body = None if document is None else json.dumps(document)
        began = time.perf_counter()
        try:
            self.wire.request(method, path, body, {"content-type": "application/json"} if body else {})
            answer = self.wire.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.errors.append(f"{path}: {error!r}")
            self.wire.close()
            return None
        self.times[kind].append(time.perf_counter() - began)
        if time.monotonic() > self.half and kind != SEARCHED:
            self.later.append(self.times[kind][-1])
        if answer.status != 200:
            self.errors.append(f"{path}: {answer.status} {text[:200]!r}")
            return None
        return text


@dataclass(frozen=True, kw_only=True)
class Load:
    """What all sessions saw."""

    times: dict[str, list[float]]  # question -> seconds of each
    later: list[float]  # of the second half, searches left out
    errors: list[str]
    memory_mb: list[float]  # of the server, over time

    @property
    def quick(self) -> list[float]:
        """All but searches."""
        return [value for kind, own in self.times.items() if kind != SEARCHED for value in own]

    @property
    def thirds_mb(self) -> tuple[float, float]:
        """At most in the second third, and in the last: caches fill in the first."""
        third = max(1, len(self.memory_mb) // 3)
        return max(self.memory_mb[third : 2 * third] or self.memory_mb), max(self.memory_mb[-third:])


def visited(server: Server, count: int, seconds: float, think_s: float) -> Load:
    until = time.monotonic() + seconds
    sessions = [Session(server.port, number, until, think_s) for number in range(count)]
    for session in sessions:
        session.start()
    memory = []
    while any(session.is_alive() for session in sessions):
        memory.append(server.resident_mb())
        time.sleep(min(5.0, seconds / 20))
    times: dict[str, list[float]] = defaultdict(list)
    for session in sessions:
        for kind, own in session.times.items():
            times[kind] += own
    return Load(
        times=times,
        later=[value for session in sessions for value in session.later],
        errors=[error for session in sessions for error in session.errors],
        memory_mb=memory,
    )


def report(load: Load, count: int, seconds: float) -> None:
    rows = [*sorted(load.times.items()), ("all but searches", load.quick), ("of these, in the second half", load.later)]
    show(
        f"{count} sessions, {seconds:g} s, {os.cpu_count()} cores",
        ("question", "asked", "median", "p95", "longest"),
        (
            (
                kind,
                f"{len(own):,}",
                *(f"{1000 * value:,.0f} ms" for value in (statistics.median(own), quantile(own, 0.95), max(own))),
            )
            for kind, own in rows
            if own
        ),
    )
    print(f"\nerrors: {len(load.errors)} {load.errors[:3]}")
    middle, last = load.thirds_mb
    began = load.memory_mb[0]
    print(f"memory: {began:.0f} MB at first, at most {middle:.0f} MB in the second third, {last:.0f} MB in the last")


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--think", type=float, default=1.0, help="mean seconds between two questions")
    options = parser.parse_args()
    with served() as server:
        report(visited(server, options.sessions, options.seconds, options.think), options.sessions, options.seconds)


if __name__ == "__main__":
    main()
