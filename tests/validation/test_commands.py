"""The commands as a user types them, on this machine, with real ranks."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.validation.commands import assert_refused, document, slicewise, typed

MODELS = Path(__file__).parent / "small_models.py"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def calibrated(cache: Path) -> Path:
    """What `calibrate --quick` writes, once for all tests here."""
    done = typed("calibrate", "--quick", "--figure", cache / "fit.svg", "--json", cache=cache)
    assert done.returncode == 0, done.stderr
    assert document(done)["measured_on"]["ranks"] == 2
    assert (cache / "fit.svg").read_text().startswith("<svg")
    return cache / "local.toml"


def test_calibration_finds_believable_rates(calibrated: Path) -> None:
    from slicewise.cluster.cluster import parse_cluster
    from slicewise.cluster.lines import MOVED, MULTIPLIED, STEP, UPDATE

    cluster = parse_cluster(calibrated.read_text(), "local")
    assert cluster.origin == "fitted"
    assert cluster.devices == 2
    assert 1e9 < cluster.device.peak_flops_per_s < 1e13
    assert 1e8 < cluster.device.memory_bytes_per_s < 1e12
    assert 0 <= cluster.overlap <= 1
    assert cluster.device.layers is not None
    assert set(cluster.device.layers) == {*MULTIPLIED, *MOVED, STEP, UPDATE}
    assert 0 < cluster.device.layers[STEP]["forward"].call_s < 0.1
    assert 1e-13 < cluster.device.layers["window"]["forward"].s_per_flop < 1e-7


def test_a_users_own_model_is_planned_run_and_equal_to_one_device(calibrated: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    planned = document(
        slicewise("plan", f"{MODELS}:classifier", "--batch", 8, "-o", plan, "--json", cache=calibrated.parent)
    )
    assert planned["certificate"]["optimal"]
    assert json.loads(plan.read_text()) == planned
    ran = document(
        typed("run", plan, "--check", "--compare", "ddp", "--iterations", 4, "--json", cache=calibrated.parent)
    )
    assert ran["check"]["passed"]
    assert ran["check"]["gradients"] == 8
    assert ran["bytes_moved"] == planned["predicted"]["bytes_moved"]
    assert len(ran["losses"]) == 4
    assert ran["ddp"]["speedup"]["pairs"] == 4
    assert ran["ddp"]["losses"][0] > 0


@pytest.mark.long
def test_layers_are_timed_once_and_priced_by_their_times(calibrated: Path, tmp_path: Path) -> None:
    from slicewise.planning.timing import untimed
    from slicewise.plans.plan import Plan

    plan = tmp_path / "plan.json"
    asked = ("--strategy", "data", "--batch", 8, "--cost", "measured", "-o", plan, "--json")
    first, again = (typed("plan", f"{MODELS}:classifier", *asked, cache=calibrated.parent) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert document(again)["predicted"] == document(first)["predicted"]
    made = Plan.load(plan)
    assert not untimed(made)
    assert made.machine is not None
    assert made.machine.times
    assert all(0 < time.forward_s < 10 for time in made.machine.times.values())


@pytest.mark.long
def test_the_data_plan_moves_the_bytes_of_ddp_and_the_statistics_of_its_norm(calibrated: Path, tmp_path: Path) -> None:
    plan = tmp_path / "data.json"
    model = f"{MODELS}:classifier"
    slicewise("plan", model, "--strategy", "data", "--batch", 8, "-o", plan, cache=calibrated.parent)
    ran = document(typed("run", plan, "--compare", "ddp", "--iterations", 1, "--json", cache=calibrated.parent))
    weights = 4 * 2 * 268_026  # float32, ring over two ranks
    statistics = 2 * 4 * (2 * 8 + 2 * 8)  # two vectors of batch norm each way, exact here, local under DDP
    buffers = 4 * (8 + 8) + 8  # DDP sends rank 0's running statistics and counter to the other
    assert ran["ddp"]["bytes_moved"] == weights + buffers
    assert ran["bytes_moved"] == weights + statistics


def test_an_edited_plan_is_costed_as_edited_and_an_illegal_edit_is_refused(cache: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    arguments = ("plan", "alexnet", "--cluster", "p100-4x4", "--devices", 4, "--batch", 64, "-o", plan)
    assert slicewise(*arguments, cache=cache).returncode == 0
    before = document(slicewise("explain", plan, "--json", cache=cache))
    edited = json.loads(plan.read_text())
    linear = next(layer for layer in edited["layers"] if layer["name"] == "classifier.1")
    linear["slicing"] = {"intra0": "N", "intra1": "N"}
    plan.write_text(json.dumps(edited))
    after = document(slicewise("explain", plan, "--json", cache=cache))
    assert after["saved_s"] < before["saved_s"]
    linear["slicing"] = {"intra0": "H"}
    plan.write_text(json.dumps(edited))
    refused = slicewise("explain", plan, cache=cache)
    assert refused.returncode == 2
    assert "classifier.1: a linear layer like this cannot be sliced along H; it can along C, F, N" in refused.stderr


@pytest.mark.long
def test_a_failing_rank_ends_the_run_with_its_reason(calibrated: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    good = slicewise("plan", f"{MODELS}:classifier", "--batch", 8, "-o", plan, cache=calibrated.parent)
    assert good.returncode == 0
    plan.write_text(plan.read_text().replace(":classifier", ":fails_on_rank_one"))
    done = typed("run", plan, cache=calibrated.parent)
    assert done.returncode == 3
    assert "slicewise: rank 1: MemoryError: no room for the weights" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("plan", "alexnte", "--cluster", "p100-4x4"),
            "unknown model 'alexnte'; choose from alexnet, alexnet_optcnn, cosmoflow",
        ),
        (("plan", "alexnet", "--cluster", "p100"), "unknown cluster 'p100'; choose from abci-v100, dgx-a100"),
        (("plan", "alexnet", "--cluster", "local"), "run `slicewise calibrate --quick` first"),
        (("plan", "alexnet", "--cluster", "p100-4x4", "--batch", "0"), "must be a positive whole number (got '0')"),
        (("plan", "alexnet", "--cluster", "p100-4x4", "--devices", "6"), "choose a multiple of 4"),
        (("plan", "alexnet", "--cluster", "p100-4x4", "--strategy", "sideways"), "unknown strategy 'sideways'"),
        (("plan", f"{MODELS}:unsized", "--cluster", "p100-4x4"), "give the shape of one sample: --input 3x224x224"),
        (("plan", f"{MODELS}:branching", "--cluster", "p100-4x4"), "make it free of branches on tensor values"),
        (("capture", "alexnte", "-o", "never-written.json"), "unknown model 'alexnte'; choose from alexnet"),
        (("plan", f"{MODELS}:absent", "--cluster", "p100-4x4"), "has no factory 'absent'"),
        (("plan", "alexnet", "--cluster", "p100-4x4", "-o", "absent/plan.json"), "absent is not a folder"),
        (("run", "absent.json"), "absent.json: no such plan"),
        (("explain", str(MODELS.parent)), "Is a directory"),
        (("explain", str(MODELS)), "not JSON"),
    ],
)
def test_a_wrong_request_gets_one_line_and_code_2(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    assert_refused(slicewise(*arguments, cache=tmp_path), told)


def test_what_ranks_feed_and_get_cannot_be_edited(cache: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    slicewise("plan", "alexnet", "--cluster", "p100-4x4", "--devices", 2, "--batch", 4, "-o", plan, cache=cache)
    edited = json.loads(plan.read_text())
    edited["layers"][0]["slicing"] = {"intra0": "H"}
    plan.write_text(json.dumps(edited))
    refused = slicewise("explain", plan, cache=cache)
    assert refused.returncode == 2
    assert "x_nchw: with batch 4 on 2 devices this must be N2" in refused.stderr


def test_run_says_what_it_cannot_train(calibrated: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    slicewise("plan", f"{MODELS}:one_channel", "--batch", 4, "-o", plan, cache=calibrated.parent)
    done = slicewise("run", plan, cache=calibrated.parent)
    assert done.returncode == 2
    assert "one output of two or more classes" in done.stderr
    assert "starting" not in done.stderr


def test_ending_the_launcher_ends_its_ranks(calibrated: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    slicewise("plan", f"{MODELS}:classifier", "--batch", 8, "-o", plan, cache=calibrated.parent)
    command = [sys.executable, "-m", "slicewise", "run", str(plan), "--iterations", "100000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as launcher:
        assert launcher.stderr is not None
        launcher.stderr.readline()  # "starting 2 ranks"
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        deadline_s = time.monotonic() + 30
        while len(ranks := children.read_text().split()) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.1)
        launcher.terminate()
        assert launcher.wait(30) == 128 + 15
    assert len(ranks) == 2
    assert not [rank for rank in ranks if Path(f"/proc/{rank}").exists()]


def test_a_plan_for_more_ranks_than_asked_is_refused_before_any_starts(cache: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    slicewise("plan", "unet3d", "--cluster", "p100-4x4", "--devices", 4, "--batch", 4, "-o", plan, cache=cache)
    done = slicewise("run", plan, "--nproc-per-node", 2, cache=cache)
    assert done.returncode == 2
    assert "the plan is for 4 devices, --nproc-per-node is 2; plan again with --devices 2" in done.stderr
