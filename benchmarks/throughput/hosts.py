"""Hosts on one machine: network namespaces joined by veth pairs whose ends are rate-limited (needs root).

two:   a ------ b
more:  a -+
       b -+- a switch: a namespace with a bridge
       c -+
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

# A burst holds one of the segments that the kernel hands a veth: what passes at full speed is no link of that rate. By
# default segments have 64 KiB; of 1.5 KiB they would cost a core. The queue is what a switch port has.
_SEGMENT_BYTES, _BURST, _QUEUE = "32768", "36kb", "20ms"
_NETWORK = "10.213.7"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a rank's process runs."""

    prefix: tuple[str, ...] = ()  # of its command line
    environment: Mapping[str, str]

    def start(self, command: Sequence[str], rank: int, ranks: int, log: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self.environment, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
        with log.open("wb") as output:
            return subprocess.Popen([*self.prefix, *command], env=environment, stdout=output, stderr=output)


@contextmanager
def hosts(megabits_per_s: int | None, count: int = 2) -> Iterator[list[Host]]:
    """One host per rank: all on this machine's loopback (None), or emulated ones with links of that rate."""
    common = {"LOCAL_RANK": "0", "MASTER_PORT": str(_free_port())}
    if megabits_per_s is None:
        yield [Host(environment={**common, "MASTER_ADDR": "127.0.0.1"})] * count
        return
    own = os.getpid()
    names = [f"slicewise-{own}-{number}" for number in range(count)]
    ends = [f"sw{own}h{number}" for number in range(count)]  # at most 15 letters
    switch = f"slicewise-{own}-switch"
    try:
        for name in names:
            _ip("netns", "add", name)
        _connect(names, ends, switch)
        for number, (name, end) in enumerate(zip(names, ends, strict=True)):
            inside = ("-n", name)
            _ip(*inside, "address", "add", f"{address(number)}/24", "dev", end)
            _ip(*inside, "link", "set", end, "gso_max_size", _SEGMENT_BYTES, "up")
            _ip(*inside, "link", "set", "lo", "up")
            rate = ("rate", f"{megabits_per_s}mbit", "burst", _BURST, "latency", _QUEUE)
            _run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", end, "root", "tbf", *rate)
        yield [
            Host(
                prefix=("ip", "netns", "exec", name),
                environment={**common, "MASTER_ADDR": address(0), "GLOO_SOCKET_IFNAME": end},
            )
            for name, end in zip(names, ends, strict=True)
        ]
    finally:
        for name in (*names, switch):  # takes the links along
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "delete", ends[0]], stderr=subprocess.DEVNULL)


def address(number: int) -> str:
    """Of an emulated host."""
    return f"{_NETWORK}.{number + 1}"


def _connect(names: Sequence[str], ends: Sequence[str], switch: str) -> None:
    """Put one end of a link into each namespace."""
    if len(names) == 2:
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end in zip(names, ends, strict=True):
            _ip("link", "set", end, "netns", name)
        return
    _ip("netns", "add", switch)
    _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
    _ip("-n", switch, "link", "set", "bridge", "up")
    for name, end in zip(names, ends, strict=True):
        port = f"{end}p"
        _ip("link", "add", end, "type", "veth", "peer", "name", port)
        _ip("link", "set", end, "netns", name)
        _ip("link", "set", port, "netns", switch)
        _ip("-n", switch, "link", "set", port, "master", "bridge", "up")


def why_not() -> str | None:
    """What stands in the way of emulated hosts, if anything does."""
    missing = [tool for tool in ("ip", "tc") if which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not found; install iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root; run the benchmark as root"
    return None


def _free_port() -> int:
    """One that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
