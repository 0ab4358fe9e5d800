"""Train on handwritten digits with PyTorch Lightning. The network is sliced in configure_model.

mkdir -p build && slicewise calibrate     # once per machine
slicewise plan examples/digits.py:network --devices 2 --batch 64 -o build/digits.json
torchrun --nproc-per-node 2 examples/train_lightning.py
"""

from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from digits import digits, network
from torch import Tensor
from torch.utils.data import DataLoader

import slicewise
from slicewise.lightning import SlicewiseStrategy

BATCH, EPOCHS, DEVICES = 64, 4, 2


class Digits(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net: Any = None

    def configure_model(self) -> None:
        if self.net is None:  # Lightning calls this before fit, and again before test
            torch.manual_seed(0)
            self.net = slicewise.parallelize(network()[0], "build/digits.json")

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        images, labels = batch
        return F.cross_entropy(self.net(images), labels)

    def test_step(self, batch: list[Tensor], number: int) -> None:
        images, labels = batch
        right = (self.net(images).argmax(1) == labels).float().mean()
        self.log("right", right, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


def main() -> None:
    train, test = digits()
    trainer = pl.Trainer(
        strategy=SlicewiseStrategy(),
        accelerator="cpu",
        devices=DEVICES,
        max_epochs=EPOCHS,
        gradient_clip_val=1.0,
        logger=False,
        enable_progress_bar=False,
        default_root_dir="build/lightning",
    )
    module = Digits()
    trainer.fit(module, DataLoader(train, BATCH // DEVICES, shuffle=True, drop_last=True))
    (found,) = trainer.test(module, DataLoader(test, BATCH // DEVICES), verbose=False)
    if trainer.is_global_zero:
        print(f"{found['right']:.1%} right")


if __name__ == "__main__":
    main()
