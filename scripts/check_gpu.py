"""Ten minutes on a host with two or more GPUs: is slicewise right there, as predicted, and faster than DDP and FSDP2?

    python scripts/check_gpu.py                  # writes gpu-check.json, the one file to send back
    python scripts/check_gpu.py --quick          # one small network, also on CPU cores

In this order: each device computes what the CPU computes; `slicewise calibrate` measures the host; networks of the zoo
are planned and run, compared with one device (`--check`), in bytes, in seconds against the prediction, and in turn with
DDP and FSDP2. What fails is written down, and the rest goes on.

The file has figures, names of devices and versions. Host names, user names, addresses and paths are taken out.
Exit codes: 0 all is right, 1 something is not, 2 the request was wrong.
"""

import argparse
import getpass
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import slicewise
from slicewise.saving import write_file

# samples per rank, what tells most first
SAMPLES = {
    "alexnet": 32,
    "resnet50": 16,
    "vit_b_16": 8,
    "vgg16": 8,
    "unet3d": 1,
    "lenet5": 64,
    "textcnn": 64,
    "densenet121": 8,
    "inception_v3": 8,
    "resnet101": 8,
    "resnet152": 8,
    "cosmoflow": 1,
    "swin_t": 8,
    "unetr": 1,
    "swin_unetr": 1,
    "weather_swin": 1,
    "diffusion_unet": 4,
}
INPUT = {"cosmoflow": "4x128x128x128"}
QUICK = {"lenet5": 4}
KEPT = (
    *("model", "devices", "batch", "dtype", "iteration_s", "compute_s", "communication_s", "update_s"),
    *("bytes_moved", "bytes_by_tier", "collectives", "peak_memory_bytes", "first_nan_step", "check", "predicted"),
)
RIVALS = ("ddp", "fsdp")
_TOLERANCE = 1e-2  # of fp32 with TF32 allowed; a wrong kernel is off by far more

Run = Callable[[Sequence[str]], tuple[int, str, str]]  # a command's arguments -> exit code, standard output and error


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small network, a few steps")
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no network after that (default: 10)")
    parser.add_argument("--ranks", type=int, default=max(2, torch.cuda.device_count()), help="default: all GPUs, or 2")
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu-check.json"))
    options = parser.parse_args(arguments)
    if torch.cuda.is_available() and options.ranks > torch.cuda.device_count():
        parser.error(f"--ranks {options.ranks}: this host has {torch.cuda.device_count()} GPUs")
    if options.ranks < 2:
        parser.error(f"--ranks must be at least 2 (got {options.ranks})")
    with tempfile.TemporaryDirectory() as cache:
        found = check(options.ranks, quick=options.quick, minutes=options.minutes, run=_command(cache))
    write_file(options.output, json.dumps(without_names(found, private_words()), indent=1) + "\n")
    print(f"{'all is right' if found['passed'] else 'something is not right'}: wrote {options.output}, to be sent back")
    return 0 if found["passed"] else 1


def check(ranks: int, *, quick: bool, minutes: float, run: Run) -> dict[str, Any]:
    """The document; `passed` where every device, check, count of bytes and command was right."""
    started_s = time.monotonic()
    devices = [device_test(device) for device in _devices()]
    calibrate = ["calibrate", "--nproc-per-node", str(ranks), *(["--quick"] if quick else [])]
    measured = _asked("calibrating", run, calibrate)
    cluster = _asked("the profile", run, ["cluster", "show", "local", "--json"])
    network = _asked("the network", run, ["doctor", "--network", "--nproc-per-node", str(ranks), "--json"])
    networks: list[dict[str, Any]] = []
    left_out: list[str] = []
    for model, samples in (QUICK if quick else SAMPLES).items():
        if networks and time.monotonic() - started_s > 60 * minutes:
            left_out.append(model)
        else:
            networks.append(network_test(model, samples, ranks, 4 if quick else 20, run))
    right = measured["code"] == 0 and all(device["passed"] for device in devices)
    return {
        "schema_version": 1,
        "passed": right and all(network["passed"] for network in networks),
        "quick": quick,
        "ranks": ranks,
        "software": _software(),
        "devices": devices,
        "calibrate": {name: measured[name] for name in ("code", "seconds", "error")},
        "cluster": cluster["document"],
        "network": (network["document"] or {}).get("network"),
        "networks": networks,
        "left_out": left_out,
        "seconds": time.monotonic() - started_s,
    }


def network_test(model: str, samples: int, ranks: int, iterations: int, run: Run) -> dict[str, Any]:
    """One network against one device, its prediction, DDP and FSDP2. Bytes are counted in the same runs."""
    base = ["run", model, "--strategy", "layerwise", "--devices", str(ranks), "--batch", str(samples * ranks)]
    base += ["--iterations", str(iterations), "--json", *(["--input", INPUT[model]] if model in INPUT else [])]
    found: dict[str, Any] = {"model": model, "passed": True, "errors": []}
    for rival in RIVALS:
        checked = ["--check"] if rival == RIVALS[0] else []
        asked = _asked(f"{model} against {rival}", run, [*base, "--compare", rival, *checked])
        ran = asked["document"] or {}
        if checked:
            found |= {name: ran[name] for name in KEPT if name in ran}
            found["seconds_over_predicted"] = _ratio(ran, "iteration_s", "median")
            found["bytes_over_predicted"] = _ratio(ran, "bytes_moved")
        if rival in ran:
            found[rival] = {name: ran[rival][name] for name in ("iteration_s", "bytes_moved", "speedup")}
        if asked["code"] != 0:
            found["passed"] = False
            found["errors"].append({"against": rival, "code": asked["code"], "error": asked["error"]})
    return found


def _ratio(ran: Mapping[str, Any], name: str, part: str | None = None) -> float | None:
    measured, predicted = ran.get(name), ran.get("predicted", {}).get(name)
    measured = measured[part] if part and measured else measured
    return measured / predicted if measured and predicted else None


def device_test(device: torch.device) -> dict[str, Any]:
    """A convolution and a product, forward and backward: as far from float64 on the CPU as fp32 may be?"""
    worst = 0.0
    for work in (_convolution, _product):
        exact = work(torch.device("cpu"), torch.float64)
        for mine, truth in zip(work(device, torch.float32), exact, strict=True):
            error = (mine.to("cpu", torch.float64) - truth).norm() / truth.norm()
            worst = max(worst, float(error)) if bool(torch.isfinite(error)) else float("inf")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    passed = worst <= _TOLERANCE
    return {"name": name, "passed": passed, "relative_error": worst if worst < float("inf") else None}


def _convolution(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
    return _worked(device, dtype, ((4, 16, 28, 28), (32, 16, 3, 3)), lambda x, w: F.conv2d(x, w, padding=1))


def _product(device: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
    return _worked(device, dtype, ((64, 256), (128, 256)), F.linear)


def _worked(
    device: torch.device, dtype: torch.dtype, shapes: Sequence[Sequence[int]], call: Callable[..., torch.Tensor]
) -> list[torch.Tensor]:
    """Output and gradients, from the same numbers on every device."""
    source = torch.Generator().manual_seed(0)
    given = [torch.randn(*shape, generator=source, dtype=torch.float64) for shape in shapes]
    x, weight = (value.to(device, dtype).requires_grad_() for value in given)
    y = call(x, weight)
    y.square().sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    return [y.detach(), x.grad, weight.grad]


def _devices() -> list[torch.device]:
    count = torch.cuda.device_count()
    return [torch.device("cuda", number) for number in range(count)] or [torch.device("cpu")]


def _software() -> dict[str, str | None]:
    return {
        "slicewise": slicewise.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _command(cache: str) -> Run:
    """`slicewise ARGUMENTS` with a cache of its own: a profile that is there stays."""

    def run(arguments: Sequence[str]) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "slicewise", *arguments],
            env={**os.environ, "SLICEWISE_CACHE": cache},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def _asked(what: str, run: Run, arguments: Sequence[str]) -> dict[str, Any]:
    print(f"{what} ...", file=sys.stderr, flush=True)
    started_s = time.monotonic()
    code, output, errors = run(arguments)
    document = None
    with suppress(json.JSONDecodeError):
        document = json.loads(output)
    said = [line for line in errors.splitlines() if line.startswith("slicewise: ")]
    error = said[-1] if said and code else None
    return {"code": code, "seconds": time.monotonic() - started_s, "document": document, "error": error}


def private_words() -> set[str]:
    """What names this host, its user and its folders."""
    words = {socket.gethostname(), socket.gethostname().partition(".")[0], platform.node(), str(Path.home())}
    words |= {str(Path.cwd()), tempfile.gettempdir()}
    with suppress(KeyError, OSError):
        words.add(getpass.getuser())
    return {word for word in words if len(word) > 1}


def without_names(value: Any, words: set[str]) -> Any:
    """The document without private words, paths and addresses in any of its texts, keys included."""
    if isinstance(value, Mapping):
        return {_cleaned(str(key), words): without_names(item, words) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_names(item, words) for item in value]
    return _cleaned(value, words) if isinstance(value, str) else value


def _cleaned(text: str, words: set[str]) -> str:
    for pattern, mark in _private(words):
        text = pattern.sub(mark, text)
    return text


def _private(words: set[str]) -> Iterator[tuple[re.Pattern[str], str]]:
    yield re.compile(r"(?<![\w/])(?:~|[A-Za-z]:\\|/)[\w.~@+-]*(?:[/\\][\w.~@+-]+)+"), "<path>"
    yield re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-fA-F]{1,4}:){3,}[0-9a-fA-F:]+"), "<address>"
    for word in sorted(words, key=len, reverse=True):
        yield re.compile(rf"(?<!\w){re.escape(word)}(?:\.[\w-]+)*(?!\w)", re.IGNORECASE), "<name>"


if __name__ == "__main__":
    sys.exit(main())
