"""Plans against DDP and FSDP2 on two ranks, over loopback and emulated links: `python -m benchmarks.throughput.run`.

Each job plans for the machine as just measured over that link, then contenders take turns step by step in one process
per rank. `--only alexnet --links loopback` runs part of it; results are kept in build/throughput and shown together.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.throughput.hosts import hosts, why_not
from slicewise.running.launch import MALLOC_TUNABLES

LINKS: dict[str, int | None] = {"loopback": None, "1 Gb/s": 1000, "500 Mb/s": 500}
BUILD = Path("build/throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    model: str
    batch: int  # over both ranks
    input: str | None = None
    has_norms: bool = True
    pairs: int = 20  # steps of each contender
    factory: str | None = None  # of a network that is not in the zoo

    @property
    def source(self) -> str:
        return self.factory or self.model


JOBS = (
    Job(model="alexnet", batch=64, has_norms=False),
    Job(model="vgg16", batch=8, has_norms=False, pairs=10),  # steps take long
    Job(model="resnet50", batch=16),
    Job(model="inception_v3", batch=8, pairs=10),
    Job(model="densenet121", batch=8),
    Job(model="mobilenet_v3", batch=16, factory="benchmarks.throughput.mobilenet:mobilenet_v3"),
    Job(model="vit_b_16", batch=4, has_norms=False, pairs=10),  # no batch norms
    Job(model="unetr", batch=2, has_norms=False, pairs=6),
)
VOLUMES = (Job(model="unet3d", batch=1, input="1x96x96x96"), Job(model="unetr", batch=1, pairs=8))
ONE_VOLUME = "one volume"  # on loopback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, help="paired steps of every job (default: the job's own)")
    parser.add_argument("--only", action="append", help="a network (default: all)")
    parser.add_argument("--links", action="append", choices=LINKS, help="default: all")
    parser.add_argument("--show", action="store_true", help="only print the tables of what was measured before")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if not options.show:
        measure(options.only or [job.model for job in (*JOBS, *VOLUMES)], options.links or list(LINKS), options.pairs)
    show()


def measure(models: Sequence[str], links: Sequence[str], pairs: int | None) -> None:
    obstacle = why_not()
    for link in links:
        if LINKS[link] is not None and obstacle:
            print(f"{link}: not measured; {obstacle}", file=sys.stderr)
            continue
        cluster = BUILD / f"{_file(link)}.toml"
        ranks(link, ["-m", "slicewise", "calibrate", *(["--quick"] if LINKS[link] else []), "-o", str(cluster)])
        for job in (job for job in JOBS if job.model in models):
            contest(job, link, cluster, pairs)
        if link == "loopback":
            for job in (job for job in VOLUMES if job.model in models):
                plan(job, cluster, "layerwise", "exact", "best")
                compete(job, ONE_VOLUME, ["best"], "one", pairs)
            for job in (job for job in JOBS if job.model in ("alexnet", "densenet121", "mobilenet_v3")):
                if job.model in models:
                    alone(job, pairs)


def contest(job: Job, link: str, cluster: Path, pairs: int | None) -> None:
    """The data plan, the best plan where that is another, and, on loopback, the cost of exact batch norms."""
    plan(job, cluster, "data", "local", "data")
    plan(job, cluster, "layerwise", "local", "best")
    names = ["best"] if _by_sample(job) else ["data", "best"]
    if job.has_norms and link == "loopback":
        plan(job, cluster, "data", "exact", "exact")
        names.append("exact")
    compete(job, link, names, "ddp and fsdp", pairs)


def alone(job: Job, pairs: int | None) -> None:
    """One rank under a plan, which slices nothing, against the plain model."""
    half = replace(job, batch=job.batch // 2)
    plan(half, BUILD / "loopback.toml", "data", "local", "single", devices=1)
    compete(half, "one rank", ["single"], "alone", pairs)


def plan(job: Job, cluster: Path, strategy: str, batchnorm: str, name: str, devices: int = 2) -> None:
    sized = ["--input", job.input] if job.input else []
    command = [
        *("plan", job.source, *sized, "--cluster", str(cluster), "--devices", str(devices), "--batch", str(job.batch)),
        *("--strategy", strategy, "--batchnorm", batchnorm, "-o", str(_folder(job) / f"{name}.json")),
    ]
    print("+ slicewise", *command, file=sys.stderr)
    subprocess.run([sys.executable, "-m", "slicewise", *command], check=True, stdout=subprocess.DEVNULL)


def compete(job: Job, link: str, plans: Sequence[str], against: str, pairs: int | None) -> None:
    sized = ["--input", job.input] if job.input else []
    program = [
        *("-m", "benchmarks.throughput.contest", job.source, *sized, "--batch", str(job.batch)),
        *("--iterations", str(pairs or job.pairs), "--against", against, "-o", str(_result(job.model, link))),
    ]
    for name in plans:
        program += ["--plan", str(_folder(job) / f"{name}.json")]
    ranks(link, program)
    result = json.loads(_result(job.model, link).read_text())
    kept = {name: json.loads((_folder(job) / f"{name}.json").read_text()) for name in plans}
    result["predicted"] = {name: plan["predicted"] for name, plan in kept.items()}
    _result(job.model, link).write_text(json.dumps(result, indent=1))


def ranks(link: str, program: Sequence[str]) -> None:
    """Run `python PROGRAM` as two ranks that reach each other over `link`, or as one."""
    os.environ |= {"GLIBC_TUNABLES": MALLOC_TUNABLES, "OMP_NUM_THREADS": "1"}
    print(f"+ [{link}] python", *program, file=sys.stderr)
    with hosts(LINKS.get(link)) as places:
        chosen = places[:1] if link == "one rank" else places
        logs = [BUILD / f"rank{number}.log" for number in range(len(chosen))]
        started = [
            place.start([sys.executable, *program], rank, len(chosen), log)
            for rank, (place, log) in enumerate(zip(chosen, logs, strict=True))
        ]
        try:
            codes = [process.wait() for process in started]
        finally:
            for process in started:
                process.kill()
    for log, code in zip(logs, codes, strict=True):
        if code:
            sys.exit(f"{' '.join(program)}: a rank ended with code {code}\n{log.read_text()[-2000:]}")


def show() -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, 2 ranks x 1 thread, gloo")
    print()
    print(
        "| network | link | data plan, times DDP's speed | best plan, times the opponent's | which is | opponent "
        "| step: DDP, best | communication: DDP / FSDP2 / best | sent: DDP / best | predicted / measured |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for link in LINKS:
        for job in JOBS:
            if _result(job.model, link).exists():
                print(_row(job, link, json.loads(_result(job.model, link).read_text())))
    print("\n| network | exact batch norm over local | one rank / plain model | parallelize |")
    print("|---|---|---|---|")
    for job in JOBS:
        if _result(job.model, "loopback").exists():
            print(_norm_row(job))
    for job in VOLUMES:
        if _result(job.model, ONE_VOLUME).exists():
            _show_volume(job, json.loads(_result(job.model, ONE_VOLUME).read_text()))


def _row(job: Job, link: str, result: dict[str, Any]) -> str:
    """Where the best plan slices everything by sample it is the data plan."""
    step_s = {name: c["iteration_s"]["median"] for name, c in result["contenders"].items()}
    opponent = min((name for name in ("ddp", "fsdp") if name in step_s), key=lambda name: step_s[name])
    data = "data" if "data" in step_s else "best"
    best, alone_s = result["contenders"]["best"], result["qualifying_s"]["alone"]
    shares = [1 - alone_s / result["qualifying_s"][name] for name in ("ddp", "fsdp")]
    shares.append(best["communication_s"] / step_s["best"])
    sent = " / ".join(f"{result['contenders'][name]['bytes_moved'] / 1e6:.0f}" for name in ("ddp", "best"))
    speed = result["speed"]
    cells = [
        *(job.model, link, _times(speed[data]["ddp"]), _times(speed["best"][opponent])),
        *("layer-wise" if data == "data" else "by sample", opponent, f"{step_s['ddp']:.2f} s, {step_s['best']:.2f} s"),
        *(" / ".join(f"{max(share, 0):.0%}" for share in shares), f"{sent} MB"),
        f"{result['predicted']['best']['iteration_s'] / step_s['best']:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _norm_row(job: Job) -> str:
    result = json.loads(_result(job.model, "loopback").read_text())
    local = "data" if "data" in result["speed"] else "best"
    exact = result["speed"][local].get("exact")
    single = _result(job.model, "one rank")
    against = json.loads(single.read_text())["speed"]["single"]["alone"] if single.exists() else None
    costs = f"{exact['median'] - 1:+.1%}" if exact else "no norms"
    return f"| {job.model} | {costs} | {_times(against) if against else ''} | {result['parallelize_s']:.1f} s |"


def _show_volume(job: Job, result: dict[str, Any]) -> None:
    best, one = result["contenders"]["best"], result["contenders"]["one"]
    memory = max(best["peak_memory_bytes"]) / one["peak_memory_bytes"][0]
    print(
        f"\n{job.model}, one 96^3 volume on 2 ranks over 1: {_times(result['speed']['best']['one'])} the speed, "
        f"{memory:.2f}x the live tensor bytes per rank ({one['peak_memory_bytes'][0] / 1e9:.2f} GB on one), "
        f"step {best['iteration_s']['median']:.2f} s, predicted {result['predicted']['best']['iteration_s']:.2f} s"
    )


def _by_sample(job: Job) -> bool:
    layers = json.loads((_folder(job) / "best.json").read_text())["layers"]
    return all(set(layer["slicing"].values()) <= {"N"} for layer in layers)


def _times(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f}x ({ratio['low']:.2f} to {ratio['high']:.2f})"


def _file(link: str) -> str:
    return "".join(letter for letter in link if letter.isalnum())


def _folder(job: Job) -> Path:
    folder = BUILD / job.model
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _result(model: str, link: str) -> Path:
    return BUILD / model / f"{_file(link)}.result"


if __name__ == "__main__":
    main()
