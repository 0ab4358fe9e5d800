"""A training that faults happen to, each once; torchrun starts it again, and it goes on from its last checkpoint.

torchrun --standalone --nproc-per-node 4 --max-restarts 20 tests/distributed/soak.py FOLDER --steps 2000 --faults 200
"""

import argparse
import errno
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import slicewise as sw
from slicewise.checkpoints.manifest import checkpoints
from slicewise.checkpoints.save import Saving
from slicewise.checkpoints.storage import _Stream
from slicewise.errors import CheckpointError
from slicewise.runtime.watchdog import StallWarning

BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=40)
    parser.add_argument("--faults", type=int, default=0, help="so many steps apart")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", StallWarning)
    warnings.showwarning = lambda told, *_: _stalled(options.folder, str(told))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = sw.parallelize(network(), options.plan, seed=3, stall_timeout=15.0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    loader = sw.data_loader(samples(), net, batch=BATCH, drop_last=True)
    restored = sw.load_checkpoint(options.folder, net, optimizer, loader=loader)
    saving = None
    step, epoch = restored.step if restored else 0, loader.state_dict()["epoch"]
    _note(options.folder, {"begin": step, "skipped": len(restored.skipped) if restored else 0})
    while step < options.steps:
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        for images, labels in loader:
            if options.faults and step and step % options.faults == 0:
                _once(options.folder, step, step // options.faults - 1)
            loss = F.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % options.save_every == 0:
                saving = _save(options.folder, net, optimizer, step, loader, step % (2 * options.save_every) == 0)
            if step in (options.steps // 5, options.steps):
                _note(options.folder, {"step": step, **_held()})
            if step == options.steps:
                break
        epoch += 1
    if saving:
        saving.wait()
    weights = {name: value.full_tensor() for name, value in net.state_dict().items()}
    if dist.get_rank() == 0:
        torch.save(weights, options.folder / "weights.pt")
    dist.barrier()
    dist.destroy_process_group()


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(128, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def samples() -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(20 * BATCH, 1, 8, 8, generator=generator)
    return TensorDataset(images, torch.randint(10, (20 * BATCH,), generator=generator))


def _save(folder: Path, net: Any, optimizer: Any, step: int, loader: Any, asynchronous: bool) -> Saving | None:
    try:
        return sw.save_checkpoint(folder, net, optimizer, step=step, loader=loader, asynchronous=asynchronous)
    except CheckpointError as error:  # the disk is full: train on, and save again later
        _note(folder, {"step": step, "not saved": str(error)})
        return None


def _stalled(folder: Path, told: str) -> None:
    """What this training does about it: torchrun starts it again."""
    _note(folder, {"stalled": told})
    os._exit(3)


def _note(folder: Path, told: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"notes-{dist.get_rank()}.jsonl").open("a") as file:
        print(json.dumps(told), file=file)


def _held() -> dict[str, int]:
    """Of this process: resident memory, threads, open files."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "memory_kb": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
    }


def _once(folder: Path, step: int, number: int) -> None:
    """The fault of this step, on one rank, unless it has happened; ranks take turns."""
    done, mine = folder / f"fault-{step}", number % dist.get_world_size() == dist.get_rank()
    happened = [done.exists()]
    dist.broadcast_object_list(happened, src=0)
    dist.barrier()
    if happened[0] or not mine:
        return
    name = list(FAULTS)[number % len(FAULTS)]
    done.touch()
    _note(folder, {"step": step, "fault": name})
    FAULTS[name](folder)


def _end(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _in_next_save(*_: object) -> None:
    os.fsync = _end  # type: ignore[assignment]


def _full_disk(*_: object) -> None:
    """For the next save alone."""
    write = _Stream.write

    def refuse(stream: _Stream, data: Any) -> int:
        if not stream.bytes:
            return write(stream, data)
        _Stream.write = write  # type: ignore[method-assign]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _Stream.write = refuse  # type: ignore[assignment, method-assign]


def _flip(folder: Path) -> None:
    """One bit of the last checkpoint, and the end."""
    file = next(checkpoints(folder)[0].glob("*.distcp"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    _end()


FAULTS: dict[str, Callable[[Path], None]] = {
    "killed": _end,
    "stopped": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "full disk": _full_disk,
    "flipped": _flip,
    "killed in a save": _in_next_save,
    "blocked": lambda _: time.sleep(600),
    "failed": lambda _: sys.exit("no luck"),
}

if __name__ == "__main__":
    main()
