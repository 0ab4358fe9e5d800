"""Many visitors at once: `python benchmarks/studio/load.py --sessions 50 --seconds 300`.

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
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

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
                self.question(kind, {"setting": setting, "slicings": view["slicings"], "layer": name, **more})
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


def resident_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--think", type=float, default=1.0, help="mean seconds between two questions")
    options = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-m", "slicewise", "studio", "--port", "0", "--no-open"], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    found = re.search(r"127\.0\.0\.1:(\d+)", server.stderr.readline())
    assert found is not None
    until = time.monotonic() + options.seconds
    sessions = [Session(int(found[1]), number, until, options.think) for number in range(options.sessions)]
    for session in sessions:
        session.start()
    memory = []
    while any(session.is_alive() for session in sessions):
        memory.append(resident_mb(server.pid))
        time.sleep(min(5.0, options.seconds / 20))
    server.terminate()
    server.wait(10)
    report(sessions, memory, options)


def report(sessions: list[Session], memory: list[float], options: argparse.Namespace) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    for session in sessions:
        for kind, own in session.times.items():
            times[kind] += own
    quick = [value for kind, own in times.items() if kind != SEARCHED for value in own]
    print(f"{options.sessions} sessions, {options.seconds:g} s, {os.cpu_count()} cores\n")
    print("| question | asked | median | p95 | longest |\n|---|---|---|---|---|")
    later = [value for session in sessions for value in session.later]
    for kind, own in [*sorted(times.items()), ("all but searches", quick), ("of these, in the second half", later)]:
        told = (statistics.median(own), quantile(own, 0.95), max(own))
        print(f"| {kind} | {len(own):,} | " + " | ".join(f"{1000 * value:,.0f} ms" for value in told) + " |")
    errors = [error for session in sessions for error in session.errors]
    print(f"\nerrors: {len(errors)} {errors[:3]}")
    third = max(1, len(memory) // 3)
    print(f"memory: {max(memory[:third]):.0f} MB at most in the first third, {max(memory[-third:]):.0f} MB in the last")


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    main()
