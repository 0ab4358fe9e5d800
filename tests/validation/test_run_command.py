"""`slicewise run` as a user types it, by itself and under torchrun."""

import json
import os
import socket
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns import sample
from tests.machines import write_cores
from tests.validation.commands import assert_refused, document, slicewise, typed

HERE = Path(__file__).parent
MODEL = f"{HERE / 'small_models.py'}:classifier"
FAILING = HERE / "failing_models.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cores(tmp_path_factory.mktemp("run") / "pair.toml")


@pytest.fixture(scope="module")
def plan(cluster: Path) -> Path:
    path = cluster.parent / "plan.json"
    arguments = ("plan", MODEL, "--cluster", cluster, "--strategy", "data", "--batch", 8, "-o", path)
    assert slicewise(*arguments, cache=cluster.parent).returncode == 0
    return path


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "slicewise"]
        + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def told(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("slicewise: ")]


@pytest.mark.long
def test_a_model_is_planned_by_the_launcher_and_run(cluster: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    arguments = ("--strategy", "filter", "--cluster", cluster, "--batch", 8, "--optimizer", "adam", "--iterations", 2)
    ran = document(typed("run", MODEL, *arguments, "--check", "--trace", trace, "--json", cache=cluster.parent))
    _assert_complete(ran)
    assert ran["optimizer"] == "adam"
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X"}


def test_under_torchrun_rank_0_plans_for_all(cluster: Path) -> None:
    done = torchrun(
        "run", MODEL, "--strategy", "data", "--cluster", cluster, "--batch", 4, "--iterations", 2, "--check", "--json"
    )
    _assert_complete(document(done))


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="reads listening sockets from /proc")
def test_ranks_of_one_host_listen_on_loopback_only(
    plan: Path, cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTENING_FOLDER", str(tmp_path))
    data = f"{HERE / 'listening.py'}:batches"
    done = typed("run", plan, "--iterations", 1, "--data", data, cache=cluster.parent)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        addresses = json.loads((tmp_path / f"{rank}.json").read_text())
        assert addresses  # gloo's own
        assert all(ip_address(address).is_loopback for address in addresses), addresses


@pytest.mark.long
def test_ranks_meet_where_the_environment_says_or_one_line_says_why_not(plan: Path) -> None:
    """Started by hand, on a port that somebody else listens on."""
    with socket.socket() as busy:
        busy.bind(("", 0))
        busy.listen()
        port = busy.getsockname()[1]
        described = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        done = subprocess.run(
            [sys.executable, "-m", "slicewise", "run", str(plan)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **described},
        )
    assert_refused(done, f"the ranks cannot meet at 127.0.0.1:{port}: ")
    assert len(told(done.stderr)) == 1


@pytest.mark.long
def test_an_interface_that_is_not_there_is_told_in_one_line(
    plan: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere0")
    done = typed("run", plan, cache=cluster.parent)
    assert_refused(done, "slicewise: the ranks cannot meet on this host: ")
    assert "nowhere0" in told(done.stderr)[0]
    assert told(done.stderr)[0].endswith("; check GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME")


def _assert_complete(ran: dict[str, Any]) -> None:
    assert set(ran["iteration_s"]) == {"median", "p10", "p90"}
    assert ran["compute_s"] > 0
    assert ran["communication_s"] > 0
    assert ran["bytes_by_tier"] == {"node": ran["bytes_moved"]} == ran["predicted"]["bytes_by_tier"]
    assert len(ran["peak_memory_bytes"]) == ran["devices"] == 2
    assert len(ran["losses"]) == 2
    assert ran["check"]["passed"]
    assert ran["check"]["max_relative_error"] <= ran["check"]["tolerance"]


@pytest.mark.long
def test_a_plan_runs_with_another_batch_and_is_predicted_for_it(plan: Path, cluster: Path) -> None:
    ran = document(typed("run", plan, "--batch", 4, "--iterations", 1, "--json", cache=cluster.parent))
    assert ran["batch"] == 4
    assert ran["bytes_moved"] == ran["predicted"]["bytes_moved"]
    assert ran["predicted"]["compute_s"] < json.loads(plan.read_text())["predicted"]["compute_s"]


def test_a_loss_that_is_not_finite_is_said_and_is_a_no(cluster: Path) -> None:
    arguments = ("--strategy", "data", "--cluster", cluster, "--batch", 4, "--iterations", 2)
    told = typed("run", f"{FAILING}:overflows", *arguments, "--check", cache=cluster.parent)
    assert told.returncode == 1, told.stderr
    assert "NOT FINITE: the loss is NaN or infinite from step 0 on (of steps 0 to 1)" in told.stdout
    assert "NOT EQUAL to one device; loss is NaN, infinite or missing" in told.stdout


@pytest.mark.long
def test_a_reader_that_leaves_ends_no_rank(plan: Path) -> None:
    """As under `| head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "slicewise", "run", str(plan), "--iterations", "1"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writing)
    assert (done.returncode, told(done.stderr)) == (0, [])


@pytest.mark.parametrize("direction", sample(["forward", "backward"], quick=["backward"]))
def test_one_rank_fails_and_one_line_says_which_where_and_why(cluster: Path, direction: str) -> None:
    model = f"{FAILING}:fails_{direction}"
    done = typed("run", model, "--strategy", "data", "--cluster", cluster, "--batch", 4, cache=cluster.parent)
    assert done.returncode == 3
    _assert_told_once(done.stderr, direction)


@pytest.mark.long
def test_under_torchrun_a_failure_is_told_once_too(cluster: Path) -> None:
    done = torchrun("run", f"{FAILING}:fails_backward", "--strategy", "data", "--cluster", cluster, "--batch", 4)
    assert done.returncode != 0
    _assert_told_once(done.stderr, "backward")


def _assert_told_once(stderr: str, direction: str) -> None:
    (line,) = told(stderr)
    where, cause = line.split(": RuntimeError: ")
    layer = "layer forward_fails" if direction == "forward" else "layer backward_fails, backward"
    assert where == f"slicewise: rank 1: {layer}"
    assert cause.startswith(f"no luck {direction} (at failing_models.py:")


@pytest.mark.long
def test_under_torchrun_a_wrong_request_is_told_once(plan: Path) -> None:
    done = torchrun("run", plan, "--batch", 3)
    assert done.returncode != 0
    (line,) = told(done.stderr)
    assert "the plan does not run with --batch 3" in line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("PLAN", "--batch", 3), "the plan does not run with --batch 3: "),
        (("PLAN", "--dtype", "bf16"), "--dtype is decided by the plan; give a model and --strategy, or plan again"),
        (("PLAN", "--nproc-per-node", 4), "the plan is for 2 devices, --nproc-per-node is 4"),
        (("PLAN", "--compare", "horovod"), "--compare takes ddp, fsdp or a plan file (got 'horovod')"),
        (
            ("PLAN", "--compare", "absent.json"),
            "absent.json: no such plan; `slicewise plan MODEL -o absent.json` makes one",
        ),
        (
            ("lenet5", "--strategy", "data", "--cluster", "CLUSTER", "--compare", "PLAN"),
            "--compare takes a plan for the same model: lenet5 (got ",
        ),
        (("PLAN", "--data", "absent.py:batches"), "absent.py: no such file"),
        (("PLAN", "--trace", "absent/trace.json"), "cannot write absent/trace.json: absent is not a folder"),
        (("lenet5",), "lenet5: no such plan; to run a model, say how: --strategy layerwise, data"),
        (("lenet5", "--strategy", "sideways", "--cluster", "CLUSTER"), "unknown strategy 'sideways'; choose from"),
        (("lenet5", "--strategy", "data", "--cluster", "CLUSTER", "--dtype", "fp16"), "`run` trains in fp32 or bf16"),
        (("lenet5", "--strategy", "data", "--cluster", "CLUSTER", "--optimizer", "lion"), "unknown optimizer 'lion'"),
    ],
)
def test_a_wrong_request_is_refused_before_any_rank_starts(
    plan: Path, cluster: Path, arguments: tuple[object, ...], reason: str
) -> None:
    places = {"PLAN": plan, "CLUSTER": cluster}
    done = slicewise("run", *(places.get(str(argument), argument) for argument in arguments), cache=cluster.parent)
    assert_refused(done, reason)
    assert "starting" not in done.stderr


def test_a_plan_for_another_network_is_refused_with_what_differs(plan: Path, cluster: Path, tmp_path: Path) -> None:
    edited = json.loads(plan.read_text())
    edited["layers"][1]["name"] = "renamed"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(edited))
    done = slicewise("run", other, cache=cluster.parent)
    assert_refused(done, "the plan is not for this network (no slicing for: 0; unknown layers: renamed)")
    assert "starting" not in done.stderr


@pytest.mark.long
def test_a_models_file_is_found_beside_the_plan_too(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text((HERE / "small_models.py").read_text())
    asked = ("plan", "mine.py:classifier", "--cluster", cluster, "--strategy", "data", "--batch", 8, "-o", "plan.json")
    assert slicewise(*asked, cache=cluster.parent, cwd=tmp_path).returncode == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = typed("run", tmp_path / "plan.json", "--iterations", 1, cache=cluster.parent, cwd=elsewhere)
    assert done.returncode == 0, done.stderr


def test_reading_a_plan_runs_no_code(cluster: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text((HERE / "small_models.py").read_text())
    path = tmp_path / "plan.json"
    asked = ("plan", f"{evil}:classifier", "--cluster", cluster, "--strategy", "data", "--batch", 8, "-o", path)
    assert slicewise(*asked, cache=cluster.parent).returncode == 0
    trace = tmp_path / "times.csv"
    trace.write_text("step,iteration_s\n" + "".join(f"{step},0.01\n" for step in range(20)))
    evil.write_text(f"open({str(tmp_path / 'was_here')!r}, 'w')")
    for question in (("explain", path), ("explain", path, path), ("diagnose", path, "--measured", trace)):
        done = typed(*question, cache=cluster.parent)
        assert done.returncode in (0, 1), done.stderr
    first = json.loads(path.read_text())
    for later in ("graph", "machine", "request", "references", "software"):
        first.pop(later, None)
    path.write_text(json.dumps({**first, "schema_version": 1}))
    assert_refused(typed("explain", path, cache=cluster.parent), "reading a plan runs no code")
    assert not (tmp_path / "was_here").exists()
