"""Train on handwritten digits. train_ddp.py and train_slicewise.py are the same but for one line.

mkdir -p build && slicewise calibrate     # once per machine
slicewise plan examples/digits.py:network --devices 2 --batch 64 -o build/digits.json
torchrun --nproc-per-node 2 examples/train_slicewise.py
torchrun --nproc-per-node 2 examples/train_slicewise.py --resume     # go on after the last epoch that was saved
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from digits import digits, network
from torch.utils.data import DataLoader, DistributedSampler

import slicewise

BATCH, EPOCHS = 64, 8
FOLDER = "build/digits"  # of checkpoints


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, _ = network()
    net = slicewise.parallelize(model, "build/digits.json")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    train, test = digits()
    sampler: DistributedSampler[int] = DistributedSampler(train, drop_last=True)
    restored = slicewise.load_checkpoint(FOLDER, net, optimizer) if "--resume" in sys.argv else None
    for epoch in range(restored.step if restored else 0, EPOCHS):
        net.train()
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(train, BATCH // ranks, sampler=sampler, drop_last=True):
            loss = F.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        slicewise.save_checkpoint(FOLDER, net, optimizer, step=epoch + 1)
        net.eval()
        right = torch.zeros(())
        for images, labels in DataLoader(test, BATCH // ranks, sampler=DistributedSampler(test, shuffle=False)):
            with torch.no_grad():
                right += (net(images).argmax(1) == labels).sum()
        dist.all_reduce(right)
        if rank == 0:
            print(f"epoch {epoch}: {right / len(test):.1%} right (slicewise {slicewise.__version__})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
