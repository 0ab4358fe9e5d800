"""Segment volumes with MONAI: its UNet, trainer, loss and sliding-window inference, with every volume cut across ranks.

mkdir -p build && slicewise calibrate     # once per machine
slicewise plan examples/segment_monai.py:network --devices 2 --batch 1 --strategy spatial -o build/monai.json
torchrun --nproc-per-node 2 examples/segment_monai.py
"""

from typing import Any

import torch
import torch.distributed as dist
from monai.engines import SupervisedTrainer
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.networks import one_hot
from monai.networks.nets import UNet
from torch import Tensor, nn

import slicewise

WINDOW, VOLUME, VOLUMES, EPOCHS = 16, 24, 4, 10


def network() -> tuple[nn.Module, Tensor]:
    model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2), num_res_units=1)
    return model, torch.zeros(1, 1, WINDOW, WINDOW, WINDOW)


def ball(side: int, seed: int) -> dict[str, Tensor]:
    """A noisy volume with a bright ball in it, and where the ball is."""
    generator = torch.Generator().manual_seed(seed)
    centre = side * (0.3 + 0.4 * torch.rand(3, generator=generator))
    places = torch.stack(torch.meshgrid(*[torch.arange(side)] * 3, indexing="ij"), -1)
    inside = ((places - centre).norm(dim=-1) < side / 4)[None, None]
    return {"image": inside + 0.3 * torch.randn(inside.shape, generator=generator), "label": inside.long()}


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = slicewise.parallelize(network()[0], "build/monai.json")

    def prepare_batch(batch: dict[str, Tensor], device: torch.device, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Every rank reads the whole volume; the label is cut as the output is."""
        return batch["image"].to(device), net.shard(one_hot(batch["label"].to(device), 2))

    trainer = SupervisedTrainer(
        device=torch.device("cpu"),
        max_epochs=EPOCHS,
        train_data_loader=[ball(WINDOW, seed) for seed in range(VOLUMES)],
        network=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=1e-2),
        loss_function=DiceCELoss(softmax=True),
        prepare_batch=prepare_batch,
        decollate=False,
    )
    trainer.run()

    net.eval()
    unseen = ball(VOLUME, VOLUMES)
    with torch.no_grad():
        found = sliding_window_inference(
            unseen["image"], (WINDOW,) * 3, 1, lambda window: net.gather(net(window))
        ).argmax(1, keepdim=True)
    both = 2 * (found & unseen["label"]).sum() / (found.sum() + unseen["label"].sum())
    if dist.get_rank() == 0:
        print(f"Dice of a volume of {VOLUME}^3, window by window: {both:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
