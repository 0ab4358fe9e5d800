"""Several hosts, emulated by network namespaces, under torchrun: calibrated, run, checked, told when misnumbered."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmarks.throughput.hosts import Host, address, hosts, why_not
from slicewise.cluster.cluster import Cluster, load_cluster
from slicewise.cluster.writing import to_toml
from tests.machines import CORE, tier

EXAMPLES = Path(__file__).parents[2] / "examples/hosts"
RATE = 400  # Mb/s: the link that calibrate has to find
BOUND_S = 400

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(2 * BOUND_S),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


def _torchrun(host: Host, number: int, count: int, ranks: int, *command: str) -> "subprocess.Popen[str]":
    """As docs/hosts.md has it."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(count), "--nproc-per-node", str(ranks)]
    launcher += ["--node-rank", str(number), "--master-addr", address(0), "--master-port", "29511"]
    environment = {**os.environ, **host.environment, "OMP_NUM_THREADS": "1"}
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        environment.pop(name, None)
    return subprocess.Popen(
        [*host.prefix, *launcher, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _on_all(machines: Sequence[Host], ranks: int, *command: str) -> str:
    """What the first host prints; all end with 0."""
    agents = [_torchrun(host, number, len(machines), ranks, *command) for number, host in enumerate(machines)]
    try:
        told = [agent.communicate(timeout=BOUND_S) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0] * len(agents), told[0][1][-3000:]
    return told[0][0]


@pytest.mark.parametrize(("count", "ranks"), [(2, 2), (4, 1)])
def test_hosts_are_calibrated_planned_for_and_run_as_the_page_says(count: int, ranks: int, tmp_path: Path) -> None:
    profile, plan = tmp_path / "hosts.toml", tmp_path / "plan.json"
    with hosts(RATE, count) as machines:
        _on_all(machines, ranks, "-m", "slicewise", "calibrate", "--quick", "-o", str(profile))
        found = load_cluster(profile)
        sizes = {"inter": count, "intra": ranks} if ranks > 1 else {"inter": count}
        assert {each.name: each.size for each in found.tiers} == sizes
        # what large messages get, though the link's token bucket lets 256 KiB through at full speed
        assert 0.4 * RATE * 1e6 / 8 < found.tiers[0].link("all_reduce").bytes_per_s < 1.3 * RATE * 1e6 / 8
        planned = ["plan", "lenet5", "--cluster", str(profile), "--batch", str(4 * count * ranks), "-o", str(plan)]
        subprocess.run([sys.executable, "-m", "slicewise", *planned], check=True, capture_output=True)
        told = _on_all(machines, ranks, "-m", "slicewise", "run", str(plan), "--check", "--iterations", "2", "--json")
    ran = json.loads(told)
    assert ran["devices"] == count * ranks
    assert ran["check"]["passed"]
    assert ran["bytes_moved"] == ran["predicted"]["bytes_moved"]


def test_ranks_that_are_numbered_in_turn_are_told_and_end(tmp_path: Path) -> None:
    """As Slurm's --distribution=cyclic has them: ranks 0 and 2 on the first host, 1 and 3 on the second."""
    nodes = Cluster(name="nodes", device=CORE, tiers=(tier("inter"), tier("intra")))
    profile, plan = tmp_path / "nodes.toml", tmp_path / "plan.json"
    profile.write_text(to_toml(replace(nodes, name="nodes")))
    planned = ["plan", "lenet5", "--cluster", str(profile), "--batch", "8", "-o", str(plan)]
    subprocess.run([sys.executable, "-m", "slicewise", *planned], check=True, capture_output=True)
    command = [sys.executable, "-m", "slicewise", "run", str(plan), "--iterations", "2"]
    with hosts(1000) as machines:
        common = {"MASTER_ADDR": address(0), "MASTER_PORT": "29512", "OMP_NUM_THREADS": "1"}
        started = [
            machines[rank % 2].start(
                ["env", *(f"{name}={value}" for name, value in common.items()), f"LOCAL_RANK={rank // 2}", *command],
                rank,
                4,
                tmp_path / f"{rank}.log",
            )
            for rank in range(4)
        ]
        try:
            codes = [process.wait(BOUND_S) for process in started]
        finally:
            for process in started:
                process.kill()
    assert codes == [2] * 4
    said = "".join((tmp_path / f"{rank}.log").read_text() for rank in range(4))
    assert "the plan takes ranks 0 to 1 for devices of one node, but the host of rank 0 has ranks 0, 2;" in said


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A plan for 2 nodes of one core each."""
    profile, plan = tmp_path / "pair.toml", tmp_path / "plan.json"
    profile.write_text(to_toml(Cluster(name="pair", device=CORE, tiers=(tier("inter"),))))
    command = ["plan", "lenet5", "--cluster", str(profile), "--batch", "8", "-o", str(plan)]
    subprocess.run([sys.executable, "-m", "slicewise", *command], check=True, capture_output=True)
    return plan


def _environment(folder: Path) -> dict[str, str]:
    """Where `torchrun` and the stand-ins are found first."""
    torchrun = folder / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


def test_the_slurm_script_starts_a_torchrun_per_node(planned: Path, tmp_path: Path) -> None:
    environment = _environment(tmp_path) | {"SLURM_JOB_NODELIST": "any", "SLURM_NNODES": "2", "SLURM_JOB_ID": "7"}
    environment |= {"RANKS_PER_NODE": "1"}
    with hosts(1000) as machines:
        started = "".join(
            f"{shlex.join(host.prefix)} env SLURM_NODEID={number} "
            f'GLOO_SOCKET_IFNAME={host.environment["GLOO_SOCKET_IFNAME"]} "$@" &\n'
            for number, host in enumerate(machines)
        )
        stand_ins = {"scontrol": f"echo {address(0)}\necho other\n", "srun": f"{started}wait -n && wait -n\n"}
        for name, text in stand_ins.items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}")
            (tmp_path / name).chmod(0o755)
        command = ["bash", str(EXAMPLES / "slurm.sh"), "-m", "slicewise", "run", str(planned), "--check", "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND_S)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["check"]["passed"]


def test_the_kubernetes_jobs_command_runs_on_every_pod(planned: Path, tmp_path: Path) -> None:
    service, job = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    assert service["metadata"]["name"] == pod["subdomain"] == job["metadata"]["name"]
    (container,) = pod["containers"]
    (command,) = container["args"]
    ours = {"--nnodes 4": "--nnodes 2", "--nproc-per-node 8": "--nproc-per-node 1", "train.py": ""}
    ours["slicewise-0.slicewise"] = address(0)
    for theirs, mine in ours.items():
        assert theirs in command
        command = command.replace(theirs, mine)
    command += f" -m slicewise run {planned} --check --json"
    with hosts(1000) as machines:
        pods = [
            subprocess.Popen(
                [*host.prefix, *container["command"], command],
                env=_environment(tmp_path)
                | {"JOB_COMPLETION_INDEX": str(number), "GLOO_SOCKET_IFNAME": host.environment["GLOO_SOCKET_IFNAME"]},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number, host in enumerate(machines)
        ]
        try:
            told = [each.communicate(timeout=BOUND_S) for each in pods]
        finally:
            for each in pods:
                each.kill()
    assert [each.returncode for each in pods] == [0, 0], told[0][1][-3000:]
    assert json.loads(told[0][0])["check"]["passed"]
