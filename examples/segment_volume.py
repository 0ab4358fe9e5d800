"""Segment volumes one at a time, each too large for a single device of the given memory.

mkdir -p build && slicewise calibrate                        # once per machine
JOB="unet3d --input 1x48x48x48 --batch 1 --optimizer adam --memory-limit 100MB"
slicewise plan $JOB --devices 1                             # no plan fits
slicewise plan $JOB --devices 2 -o build/volume.json
torchrun --nproc-per-node 2 examples/segment_volume.py
torchrun --nproc-per-node 2 examples/segment_volume.py --resume      # go on after the last volume that was saved

Each rank reads its slab of a volume alone; the network, the loss and the prediction are those of the whole.
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

import slicewise
from slicewise.graph.zoo.unet3d import UNet3d
from slicewise.runtime.memory import peak_bytes

CLASSES, EDGE = 3, 48


class Balls(Dataset[tuple[Tensor, Tensor]]):
    """Noisy volumes with a ball of class 1 and a ball of class 2, placed at random."""

    def __init__(self, volumes: int) -> None:
        self._volumes = volumes

    def __len__(self) -> int:
        return self._volumes

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        place = torch.stack(torch.meshgrid(*[torch.arange(EDGE)] * 3, indexing="ij"))
        label = torch.zeros(EDGE, EDGE, EDGE, dtype=torch.long)
        for number in (1, 2):  # whatever is drawn here is drawn alike on every rank: data_loader sees to it
            center, radius = torch.randint(EDGE // 4, 3 * EDGE // 4, (3, 1, 1, 1)), EDGE * (0.15 + 0.1 * torch.rand(()))
            label[((place - center) ** 2).sum(0) < radius**2] = number
        return label.float().unsqueeze(0) / 2 + 0.3 * torch.randn(1, EDGE, EDGE, EDGE), label


def dice(output: Tensor, label: Tensor) -> Tensor:
    """1 - the mean overlap of the classes; written for one device."""
    share, space = output.softmax(1), (0, 2, 3, 4)
    wanted = torch.stack([(label == number).to(share.dtype) for number in range(CLASSES)], 1)
    overlap = 2 * (share * wanted).sum(space) / (share.sum(space) + wanted.sum(space))
    return 1 - overlap.mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default="build/volume.json")
    parser.add_argument("--volumes", type=int, default=30)
    parser.add_argument("--checkpoint", default="build/volume", metavar="FOLDER")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with torch.device("meta"):  # no rank makes the whole network
        model = UNet3d(classes=CLASSES)
    net = slicewise.parallelize(model, options.plan)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)

    def step(volume: Tensor, label: Tensor) -> Tensor:
        optimizer.zero_grad()
        output, target = net(net.slab(volume[net.local_input()])), net.shard(label)
        loss = F.cross_entropy(output, target) + dice(output, target)
        loss.backward()
        optimizer.step()
        return loss

    loader = slicewise.data_loader(Balls(options.volumes), net, batch=1)
    restored = slicewise.load_checkpoint(options.checkpoint, net, optimizer, loader=loader) if options.resume else None
    saving = None
    for number, (volume, label) in enumerate(loader, restored.step if restored else 0):
        loss = step(volume, label)
        if dist.get_rank() == 0 and number % 5 == 0:
            print(f"volume {number}: loss {loss.item():.3f}")
        if number % 10 == 9:  # written while the next volumes are trained on
            saving = slicewise.save_checkpoint(
                options.checkpoint, net, optimizer, step=number + 1, loader=loader, asynchronous=True
            )
    if saving:
        saving.wait()
    held = [*net.parameters(), volume[net.local_input()], *(x for s in optimizer.state.values() for x in s.values())]
    peak = peak_bytes(lambda: step(volume, label), held, torch.device("cpu"))
    net.eval()
    with torch.no_grad():
        found = net.gather(net(volume)).argmax(1)
    right = (found == label)[label > 0].float().mean()
    if dist.get_rank() == 0:
        print(f"{right:.0%} of the balls' voxels found; {peak / 1e6:.0f} MB of live tensors on this rank at most")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
