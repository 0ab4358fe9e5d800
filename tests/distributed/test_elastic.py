"""A host is lost and comes back: the training goes on with what is left, and ends as if nothing had happened."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.throughput.hosts import Host, hosts, why_not
from tests.machines import write_cores

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS, BOUND_S = 120, 400
ADDRESSES = ("10.213.7.1", "10.213.7.2")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(2 * BOUND_S),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


class Agent:
    """torchrun on one host."""

    def __init__(self, host: Host, address: str, folder: Path, log: Path, port: int) -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"]
        command += ["--max-restarts", "9", "--monitor-interval", "0.5", "--local-addr", address]
        command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{ADDRESSES[0]}:{port}", "--rdzv-id", "elastic"]
        command += ["--rdzv-conf", "last_call_timeout=15,is_host=" + str(address == ADDRESSES[0])]
        self.log = log
        environment = {**os.environ, **host.environment, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
            environment.pop(name, None)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*host.prefix, *command, *_script(folder, "--step-s", "0.3")],
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """The host loses its power: agent and ranks are gone at once."""
        for process in _descendants(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

    def says(self, pattern: str) -> re.Match[str]:
        deadline_s = time.monotonic() + BOUND_S
        while time.monotonic() < deadline_s:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.2)
        raise AssertionError(f"never said {pattern}: {self.log.read_text()[-3000:]}")


def _descendants(process: int) -> list[int]:
    """The process and all below it, whatever sessions they have made."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = entry.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found


def _script(folder: Path, *options: str) -> list[str]:
    cluster = folder.parent / "pair.toml"
    common = ["--folder", str(folder), "--cluster", str(cluster), "--steps", str(STEPS), "--double"]
    return [str(EXAMPLES / "train_elastic.py"), *common, *options]


def _losses(folder: Path) -> dict[int, tuple[int, float]]:
    """Of each step, the last time that it was done: on how many ranks, and its loss."""
    lines = [json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines()]
    return {line["step"]: (line["ranks"], line["loss"]) for line in lines}


def test_a_host_is_lost_and_returns_and_the_losses_are_those_of_a_run_that_kept_it(tmp_path: Path) -> None:
    write_cores(tmp_path / "pair.toml")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path / "elastic"
    agents: list[Agent] = []
    with hosts(1000) as (first, second):
        try:
            agents.append(Agent(first, ADDRESSES[0], folder, tmp_path / "first.log", port))
            agents.append(Agent(second, ADDRESSES[1], folder, tmp_path / "second.log", port))
            _until(folder, 22)
            agents[1].kill()
            down = agents[0].says(r"step (\d+): went on with 1 ranks, ([\d.]+) s lost")
            _until(folder, int(down[1]) + 15)
            agents[1] = Agent(second, ADDRESSES[1], folder, tmp_path / "second.log", port)
            up = re.compile(r"step (\d+): went on with 2 ranks, ([\d.]+) s lost")
            while not any(up.search(agent.log.read_text()) for agent in agents):
                assert agents[0].process.poll() is None, agents[0].log.read_text()[-3000:]
                time.sleep(0.2)
            assert agents[0].process.wait(BOUND_S) == 0
            found = next(match for agent in agents if (match := up.search(agent.log.read_text())))
        finally:
            for agent in agents:
                agent.kill()
    print(f"lost: {down[2]} s downward at step {down[1]}, {found[2]} s upward at step {found[1]}")
    interrupted = _losses(folder)
    straight = tmp_path / "straight"
    alone = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", *_script(straight)]
    done = subprocess.run(alone, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert {ranks for ranks, _ in interrupted.values()} == {1, 2}
    assert {step: loss for step, (_, loss) in interrupted.items()} == pytest.approx(
        {step: loss for step, (_, loss) in _losses(straight).items()}, rel=1e-9
    )


def _until(folder: Path, step: int) -> None:
    deadline_s = time.monotonic() + BOUND_S
    while time.monotonic() < deadline_s:
        if (folder / "losses.jsonl").exists() and max(_losses(folder), default=0) >= step:
            return
        time.sleep(0.2)
    raise AssertionError(f"never came to step {step}")
