"""Two hosts on one machine: network namespaces joined by a veth pair whose ends are rate-limited (needs root)."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

# A burst holds a few of the 64 KiB segments that the kernel hands a veth; the queue is what a switch port has.
_BURST, _QUEUE = "256kb", "20ms"
_ADDRESSES = ("10.213.7.1", "10.213.7.2")


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
def hosts(megabits_per_s: int | None) -> Iterator[list[Host]]:
    """One host per rank: both on this machine's loopback (None), or two emulated ones with a link of that rate."""
    common = {"LOCAL_RANK": "0", "MASTER_PORT": str(_free_port())}
    if megabits_per_s is None:
        yield [Host(environment={**common, "MASTER_ADDR": "127.0.0.1"})] * 2
        return
    names = [f"slicewise-{os.getpid()}-{end}" for end in "ab"]
    ends = [f"sw{os.getpid()}{end}" for end in "ab"]  # at most 15 letters
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(names, ends, _ADDRESSES, strict=True):
            _ip("link", "set", end, "netns", name)
            inside = ("-n", name)
            _ip(*inside, "address", "add", f"{address}/24", "dev", end)
            _ip(*inside, "link", "set", end, "up")
            _ip(*inside, "link", "set", "lo", "up")
            rate = ("rate", f"{megabits_per_s}mbit", "burst", _BURST, "latency", _QUEUE)
            _run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", end, "root", "tbf", *rate)
        yield [
            Host(
                prefix=("ip", "netns", "exec", name),
                environment={**common, "MASTER_ADDR": _ADDRESSES[0], "GLOO_SOCKET_IFNAME": end},
            )
            for name, end in zip(names, ends, strict=True)
        ]
    finally:
        for name in names:  # takes the link along
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "delete", ends[0]], stderr=subprocess.DEVNULL)


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
