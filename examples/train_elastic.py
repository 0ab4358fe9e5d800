"""Train on as many hosts as there are: when one goes, or comes back, torchrun starts this again on all that are left.

export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1     # torch 2.13: restarts hang without it
torchrun --nnodes 1:2 --nproc-per-node 1 --max-restarts 9 --rdzv-backend c10d --rdzv-endpoint HOST:29400 \
    examples/train_elastic.py

Each start plans for the ranks that it finds (plans are kept beside the checkpoints), goes on from the last checkpoint
that is whole, and says what the interruption cost. The batch is the same on any number of ranks.
"""

import argparse
import itertools
import json
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from digits import digits, network

import slicewise

BATCH = 64
LIKELY = (1, 2)  # ranks: their plans are made beforehand


def planned(folder: Path, ranks: int, cluster: str) -> slicewise.Plan:
    """The plan for so many ranks, made once."""
    path = folder / f"plan-{ranks}.json"
    if not path.exists():
        model, sample = network()
        slicewise.plan(model, cluster, sample=sample, devices=ranks, batch=BATCH).save(path)
    return slicewise.Plan.load(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/elastic"), help="of checkpoints, plans and losses")
    parser.add_argument("--cluster", default="local", help="what to plan for")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--double", action="store_true", help="train in float64, to compare runs digit by digit")
    parser.add_argument("--step-s", type=float, default=0.0, help="make a step last at least so long")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))  # a host that is silent for longer is gone
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        options.folder.mkdir(parents=True, exist_ok=True)
        for size in {*LIKELY, ranks}:
            planned(options.folder, size, options.cluster)
    dist.barrier()
    torch.manual_seed(0)
    model, _ = network()
    dtype = torch.float64 if options.double else torch.float32
    net = slicewise.parallelize(model.to(dtype), planned(options.folder, ranks, options.cluster))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    loader = slicewise.data_loader(digits()[0], net, batch=BATCH, drop_last=True)
    restored = slicewise.load_checkpoint(options.folder, net, optimizer, loader=loader)
    step = restored.step if restored else 0
    epoch = loader.state_dict()["epoch"]
    while step < options.steps:
        loader.sampler.set_epoch(epoch)
        for images, labels in itertools.islice(loader, options.steps - step):
            started_s = time.monotonic()
            loss = F.cross_entropy(net(images.to(dtype)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            told = loss.detach().clone()
            dist.all_reduce(told)
            if rank == 0:
                if restored:
                    lost_s = time.time() - restored["saved_at"]
                    print(f"step {restored.step}: went on with {ranks} ranks, {lost_s:.1f} s lost", flush=True)
                with (options.folder / "losses.jsonl").open("a") as file:
                    print(json.dumps({"step": step, "ranks": ranks, "loss": told.item() / ranks}), file=file)
            restored = None
            if step % options.save_every == 0:
                slicewise.save_checkpoint(
                    options.folder, net, optimizer, step=step, loader=loader, saved_at=time.time()
                )
            time.sleep(max(0.0, options.step_s - (time.monotonic() - started_s)))
        epoch += 1
    if rank == 0:
        print(f"step {step}: done on {ranks} ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
