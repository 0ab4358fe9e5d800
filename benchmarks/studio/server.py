"""A studio of its own for a measurement, in a process whose memory can be read."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Server:
    port: int
    process: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def served() -> Iterator[Server]:
    command = [sys.executable, "-m", "slicewise", "studio", "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
    assert found is not None
    try:
        yield Server(port=int(found[1]), process=process.pid)
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()
