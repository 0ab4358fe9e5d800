"""The script that people with GPUs run: it measures, goes on after a failure, and tells nothing private."""

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import check_gpu
from scripts.check_gpu import SAMPLES, check, device_test, private_words, without_names
from slicewise.graph.zoo import ZOO

RAN: dict[str, Any] = {
    "model": "lenet5", "devices": 2, "batch": 8, "iteration_s": {"median": 0.2}, "bytes_moved": 100,
    "check": {"passed": True}, "predicted": {"iteration_s": 0.1, "bytes_moved": 100}, "steps_s": {"step": [[1.0]]},
}  # fmt: skip
RIVAL = {"iteration_s": {"median": 0.3}, "bytes_moved": 200, "speedup": {"median": 1.5}, "losses": [1.0]}


def _commands(failing: str = "") -> tuple[list[Sequence[str]], check_gpu.Run]:
    asked: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> tuple[int, str, str]:
        asked.append(arguments)
        if failing in arguments:
            return 3, "", "Traceback\nslicewise: rank 1 of gpu07 at 10.1.2.3 read /home/me/x.py\n"
        rival = arguments[arguments.index("--compare") + 1] if "--compare" in arguments else "none"
        return 0, json.dumps({**RAN, "model": arguments[1], rival: RIVAL}), ""

    return asked, run


def test_every_network_of_the_zoo_is_asked_for_once_against_each_rival() -> None:
    asked, run = _commands()
    found = check(2, quick=False, minutes=10, run=run)
    ran = [arguments for arguments in asked if arguments[0] == "run"]
    assert len(ran) == 2 * len(SAMPLES)
    assert set(SAMPLES) == set(ZOO) - {"alexnet_optcnn", "vit_l_16"}
    assert found["passed"]
    assert not found["left_out"]
    for network in found["networks"]:
        assert (network["seconds_over_predicted"], network["bytes_over_predicted"]) == (2.0, 1.0)
        assert network["ddp"]["speedup"] == network["fsdp"]["speedup"] == {"median": 1.5}
        assert "steps_s" not in network


def test_a_failure_is_written_down_and_the_rest_goes_on() -> None:
    found = check(2, quick=False, minutes=10, run=_commands("resnet50")[1])
    assert not found["passed"]
    (failed,) = [network for network in found["networks"] if not network["passed"]]
    assert failed["model"] == "resnet50"
    told = without_names(failed["errors"][0]["error"], {"gpu07"})
    assert told == "slicewise: rank 1 of <name> at <address> read <path>"


def test_networks_that_the_time_does_not_allow_are_named() -> None:
    found = check(2, quick=False, minutes=0, run=_commands()[1])
    assert [network["model"] for network in found["networks"]] == [next(iter(SAMPLES))]
    assert set(found["left_out"]) == set(SAMPLES) - {next(iter(SAMPLES))}


def test_a_device_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_test(torch.device("cpu"))["passed"]
    honest = check_gpu._product

    def wrong(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
        results = honest(device, dtype)
        return results if dtype == torch.float64 else [results[0], results[1] * 1.1, results[2]]

    monkeypatch.setattr(check_gpu, "_product", wrong)
    assert not device_test(torch.device("cpu"))["passed"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a file /home/ada/net.py:3 is missing", "a file <path>:3 is missing"),
        ("~/models/net.pt", "<path>"),
        ("node-7.cluster.example said no", "<name> said no"),
        ("connect to 10.0.0.7:29400", "connect to <address>:29400"),
        ("fe80:0:0:1::7 is down", "<address> is down"),
        ("features.0 at 1.5 GB/s, torch 2.13.0+cpu", "features.0 at 1.5 GB/s, torch 2.13.0+cpu"),
    ],
)
def test_private_words_are_taken_out_and_figures_stay(text: str, left: str) -> None:
    assert without_names({"said": [text]}, {"node-7", "ada"}) == {"said": [left]}


@pytest.mark.long
def test_the_quick_check_passes_on_this_machine_and_names_nobody(tmp_path: Path) -> None:
    output = tmp_path / "gpu-check.json"
    assert check_gpu.main(["--quick", "-o", str(output)]) == 0, output.read_text()
    text = output.read_text()
    found = json.loads(text)
    (network,) = found["networks"]
    assert network["check"]["passed"]
    assert network["bytes_over_predicted"] == 1.0
    assert network["ddp"]["speedup"]["median"] > 0
    assert network["fsdp"]["speedup"]["median"] > 0
    assert found["network"]["ranks"] == 2
    for private in private_words() | {socket.gethostname(), str(tmp_path)}:
        assert f'"{private}"' not in text
        assert f"{private}/" not in text
