"""All bars of the studio and the report: `python -m benchmarks.studio.run`. `--seconds 30` is a trial of the load test.

slider     from a slider to the page redrawn, ResNet-50, closed forms                          at most 300 ms, median
slicing    from another slicing of one layer to the new price, ResNet-152 on 64 devices        at most 300 ms, median
paint      the studio's first paint                                                            at most 1.5 s
report     of ResNet-152 on 64 devices: its size, and until it is there in a browser           at most 6 MB, 2 s
load       50 sessions for 5 minutes on loopback: no error, p95 under 1 s, memory flat         last third within 5 %
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.markdown import show
from benchmarks.studio.load import quantile, report, visited
from benchmarks.studio.page import PAINT, SLICED, SLIDER, looked, opened
from benchmarks.studio.server import served

FLAT = 1.05  # the last third's memory over the second's
PLAN = ("resnet152", "--cluster", "dgx-a100", "--devices", "64", "--batch", "2048", "--time-limit", "60s")
Row = tuple[str, str, str, str]


def browser_rows() -> Iterator[Row]:
    with served() as server:
        times = looked(server.address)
    for name, most_ms in ((SLIDER, 300.0), (SLICED, 300.0), (PAINT, 1500.0)):
        middle = statistics.median(times[name])
        told = f"{middle:,.0f} ms ({min(times[name]):,.0f} to {max(times[name]):,.0f}, {len(times[name])} times)"
        yield name, f"at most {most_ms:,.0f} ms", told, _met(middle <= most_ms)


def report_rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        plan, page = Path(folder) / "plan.json", Path(folder) / "report.html"
        _slicewise("plan", *PLAN, "-o", str(plan))
        _slicewise("report", str(plan), "-o", str(page))
        size, times = page.stat().st_size, opened(page)
    middle = statistics.median(times)
    yield "report of ResNet-152, size", "at most 6 MB", f"{size / 1e6:.2f} MB", _met(size <= 6e6)
    told = f"{middle:,.0f} ms ({min(times):,.0f} to {max(times):,.0f}, {len(times)} times)"
    yield "the same, opened from disk", "at most 2,000 ms", told, _met(middle <= 2000)


def load_rows(sessions: int, seconds: float) -> Iterator[Row]:
    with served() as server:
        load = visited(server, sessions, seconds, think_s=1.0)
    report(load, sessions, seconds)
    p95 = quantile(load.quick, 0.95)
    middle, last = load.thirds_mb
    name = f"{sessions} sessions, {seconds:g} s"
    yield f"{name}: errors", "0", f"{len(load.errors)} of {len(load.quick):,} questions", _met(not load.errors)
    yield f"{name}: p95", "under 1,000 ms", f"{1000 * p95:,.0f} ms", _met(p95 < 1)
    told = f"{middle:.0f} MB in the second third, {last:.0f} MB in the last"
    yield f"{name}: memory", "flat", told, _met(last <= FLAT * middle)


def _slicewise(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "slicewise", *words], check=True, stdout=subprocess.DEVNULL)


def _met(good: bool) -> str:
    return "met" if good else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    rows = [*browser_rows(), *report_rows(), *load_rows(options.sessions, options.seconds)]
    when = time.strftime("%Y-%m-%d", time.gmtime())
    load = os.getloadavg()[0]
    show(f"All bars, {when}, {os.cpu_count()} cores, load average {load:.1f}", ("figure", "bar", "measured", ""), rows)


if __name__ == "__main__":
    main()
