"""Sizes that nobody has are refused in one line, at once; large ones that somebody may have take no more than 8 GB."""

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cli.main import main
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from tests.builders import Net
from tests.machines import write_cores
from tests.validation.commands import assert_refused

MOST_BYTES = 8 * 2**30
PLAN, ORACLE = ("plan", "resnet50", "--cluster", "dgx-a100"), ("oracle", "resnet50", "--cluster", "dgx-a100")
PIPELINE = (*PLAN, "--devices", "8", "--strategy", "pipeline")
PROVISION = ("provision", "resnet50", "--cluster", "dgx-a100", "--dataset", "imagenet", "--epochs", "1")
RUN = ("run", "resnet50", "--strategy", "data", "--cluster", "dgx-a100")


def limited(*arguments: object, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """The command in a process that cannot take more memory than it should."""
    return subprocess.run(
        [sys.executable, "-m", "slicewise", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES)),
    )


@pytest.mark.parametrize("command", [PLAN, (*ORACLE, "--batch-per-device", "32")], ids=["plan", "oracle"])
def test_a_thousand_million_devices_are_refused_without_memory_or_time(command: tuple[str, ...]) -> None:
    done = limited(*command, "--devices", 10**9)
    assert_refused(done, "devices must be from 1 to 65,536 (got 1000000000)")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((*PLAN, "--devices", "8", "--batch", str(10**14)), "slicewise: with batch 100000000000000 x_nchw: "),
        ((*PLAN, "--batch", str(10**18)), "--batch: must be a positive whole number of at most 15 digits"),
        ((*PLAN, "--input", "3x99999999x99999999"), "--input: must have at most 8 dims and 1e+13 items"),
        ((*PLAN, "--input", "x".join("1" * 9)), "--input: must have at most 8 dims and 1e+13 items (got '1x1x1x1x"),
        ((*PIPELINE, "--batch", "2097152", "--segments", "2097152"), "are too many to simulate; use up to 131072"),
        ((*ORACLE, "--devices", "8", "--batch-per-device", "1e15"), "has 1.2e+21 items; at most 1e+13"),
        ((*ORACLE, "--devices", "8", "--batch", str(10**14)), "has 1.51e+19 items; at most 1e+13"),
        ((*ORACLE, "--devices", "999,1000,...,60000", "--batch", "8"), "makes more than 1000 counts"),
        ((*PROVISION, "--devices", "65537"), "devices must be from 1 to 65,536 (got 65537)"),
        ((*RUN, "--nproc-per-node", "10000"), "10000 ranks are too many for the "),
        ((*RUN, "--devices", "65536"), "65536 ranks are too many for the "),
        (("calibrate", "--nproc-per-node", "10000"), "10000 ranks are too many for the "),
        ((*RUN, "--iterations", str(10**12)), "--iterations: must be at most 1,000,000 (got '1000000000000')"),
        ((*RUN, "--seed", str(10**30)), "--seed: must be 0 or a positive whole number"),
    ],
)
def test_absurd_sizes_are_refused_in_one_line(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(arguments)
    except SystemExit as refused:  # by the parser
        code = int(refused.code or 0)
    told = capsys.readouterr().err.splitlines()
    assert code == 2
    assert complaint in told[-1]


def test_a_tier_of_absurd_size_is_refused_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_cores(tmp_path / "vast.toml")
    path.write_text(path.read_text().replace("size = 2\n", "size = 2000000\n"))
    assert main(["cluster", "show", str(path)]) == 2
    assert "vast.toml: vast: 2,000,000 devices; at most 65,536 can be described" in capsys.readouterr().err


def test_a_plan_file_of_absurd_size_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    arguments = ["plan", "lenet5", "--cluster", "p100-4x4", "--devices", "2", "--batch", "8", "--strategy", "data"]
    assert main([*arguments, "-o", str(path)]) == 0
    path.write_text(
        path.read_text()
        .replace('"intra0": 2', '"intra0": 2000000000000')
        .replace('"devices": 2,', '"devices": 2000000000000,')
    )
    capsys.readouterr()
    assert main(["explain", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def deep_chain(depth: int) -> LayerGraph:
    """`depth` times convolution, norm and activation, ever wider."""
    layers = [*_block(32, 32)[:1]]
    for number in range(depth):
        before, behind = layers[-1].shape[1], 32 + 2 * (64 * number // depth)
        for layer in _block(before, behind)[1:4]:
            name = f"{number}.{layer.kind}"
            weights = tuple(replace(weight, name=f"{name}.{weight.name}") for weight in layer.weights)
            layers.append(replace(layer, name=name, inputs=(layers[-1].name,), weights=weights))
    layers.append(replace(_block(before, behind)[4], inputs=(layers[-1].name,)))
    return LayerGraph(name="deep", layers=tuple(layers))


def _block(before: int, behind: int) -> list[Layer]:
    net = Net()
    net.output(net.relu(net.norm(net.conv(net.input(8, before, 32, 32), behind))))
    return net.layers


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_4096_devices_are_planned_within_8_gigabytes() -> None:
    done = limited(*PLAN, "--devices", 4096, "--batch", 131072, timeout_s=3000)
    assert done.returncode == 0, done.stderr
    assert "the smallest sum of costs (additive_s), proven" in " ".join(done.stdout.split())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--devices", "8", "--batch", "32"),
        ("plan", "--devices", "4", "--batch", "32", "--recompute"),
        ("plan", "--devices", "8", "--batch", "64", "--memory-limit", "21.7GB"),
        ("plan", "--devices", "8", "--batch", "32", "--strategy", "pipeline"),
        ("oracle", "--devices", "1,2,4,8", "--batch-per-device", "4"),
    ],
    ids=" ".join,
)
def test_ten_thousand_layers_are_planned_within_8_gigabytes(command: tuple[str, ...], tmp_path: Path) -> None:
    deep_chain(3333).save(tmp_path / "deep.json")
    name, *options = command
    done = limited(name, tmp_path / "deep.json", "--cluster", "p100-4x4", *options, timeout_s=3000)
    assert done.returncode == 0, done.stderr
