"""MONAI's trainer, losses and sliding-window inference with a network whose volumes are cut across ranks."""

import logging
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import slicewise as sw
from tests.builders import machine
from tests.distributed.comparing import whole
from tests.distributed.world import World

pytestmark = pytest.mark.long  # importing MONAI and ignite takes longer than most tests
SIDE = 16


def _model() -> nn.Module:
    from monai.networks.nets import UNet

    torch.manual_seed(0)
    made: nn.Module = UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1
    )
    return made.double()


def _net(strategy: str, batch: int) -> Any:
    sample = torch.zeros(1, 1, SIDE, SIDE, SIDE, dtype=torch.float64)
    return sw.parallelize(_model(), sw.plan(_model(), machine(2), sample=sample, batch=batch, strategy=strategy))


@pytest.mark.parametrize("strategy", ["spatial", "data"])
def test_monais_trainer_and_sliding_windows_do_what_they_do_on_one_device(pair: World, strategy: str) -> None:
    assert max(pair.run(_segmented, strategy)) < 1e-10


def _segmented(strategy: str) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MONAI's own imports
        from monai.inferers import sliding_window_inference

        logging.disable(logging.CRITICAL)
        net, model = _net(strategy, 1 if strategy == "spatial" else 2), _model()
        for network in (net, model):
            _train(network)
        trained = max(
            float((whole(ours) - theirs).abs().max())
            for ours, theirs in zip(net.parameters(), model.parameters(), strict=True)
        )
        net.eval()
        model.eval()
        volume = torch.randn(1, 1, 24, 24, 24, dtype=torch.float64)
        predict = (lambda window: net.gather(net(window))) if strategy == "spatial" else net
        with torch.no_grad():
            found = sliding_window_inference(volume, (SIDE,) * 3, 2, predict)
            wanted = sliding_window_inference(volume, (SIDE,) * 3, 2, model)
    return trained, float((found - wanted).abs().max())


def _train(network: Any) -> None:
    from monai.engines import SupervisedTrainer
    from monai.losses import DiceCELoss
    from monai.networks import one_hot

    generator = torch.Generator().manual_seed(1)
    volumes = [
        {
            "image": torch.randn(1, 1, SIDE, SIDE, SIDE, dtype=torch.float64, generator=generator),
            "label": torch.randint(2, (1, 1, SIDE, SIDE, SIDE), generator=generator),
        }
        for _ in range(3)
    ]

    def prepared(batch: dict[str, Tensor], device: torch.device, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        label = one_hot(batch["label"], 2)
        shared = getattr(network, "local_samples", True)  # every rank feeds the same sample: the batch is two of it
        return batch["image"], label if shared else network.shard(label)

    SupervisedTrainer(
        device=torch.device("cpu"),
        max_epochs=2,
        train_data_loader=volumes,
        network=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9),
        loss_function=DiceCELoss(softmax=True),
        prepare_batch=prepared,
        decollate=False,
    ).run()
