"""A training with everything that a checkpoint must hold: dropout, norms, Adam, a schedule, an average, a loader."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import TensorDataset

import slicewise as sw
from slicewise.checkpoints.load import Restored
from slicewise.checkpoints.state import optimizer_state
from slicewise.graph.capture import capture
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.runtime.sliced_module import SlicedModule
from tests.distributed.comparing import flat_mesh, random_slicings, whole

SHAPE, BATCH = (3, 8, 8), 8


def model(dropout: float = 0.5) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(256, 12),
        nn.ReLU(),
        nn.Linear(12, 6),
    ).double()


@cache
def _graph(dropout: float) -> LayerGraph:
    return capture(model(dropout).float(), torch.zeros(BATCH, *SHAPE))


class Training:
    """`losses = training.run(until)`: the whole batch's loss of each step."""

    def __init__(self, plan: int, dropout: float = 0.5) -> None:
        network = model(dropout)
        graph = _graph(dropout)
        slicings = random_slicings(graph, flat_mesh(), plan)
        slicings[graph.inputs[0].name] = (Dim.N,) * len(flat_mesh().axes)  # each rank feeds its own samples
        self.net = SlicedModule(network, graph, slicings, flat_mesh(), seed=7)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 20)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=3)
        self.average = {name: value.detach().clone() for name, value in self.net.state_dict().items()}
        generator = torch.Generator().manual_seed(1)
        images = torch.randn(5 * BATCH, *SHAPE, generator=generator, dtype=torch.float64)
        labels = torch.randint(6, (5 * BATCH,), generator=generator)
        self.loader = sw.data_loader(TensorDataset(images, labels), self.net, batch=BATCH)
        self.step = 0

    @property
    def extra(self) -> dict[str, Any]:
        return {"schedule": self.schedule, "scaler": self.scaler, "average": self.average, "loader": self.loader}

    def save(self, folder: Path, **options: Any) -> Any:
        return sw.save_checkpoint(
            folder, self.net, self.optimizer, step=self.step, **self.extra, note={"step": self.step}, **options
        )

    def load(self, folder: Path) -> Restored | None:
        restored = sw.load_checkpoint(folder, self.net, self.optimizer, **self.extra)
        self.step = restored.step if restored else 0
        return restored

    def run(self, until: int, after: Callable[[int], object] = lambda step: None) -> list[float]:
        losses: list[float] = []
        for epoch in range(self.loader.state_dict()["epoch"], 100):
            self.loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
            for images, labels in self.loader:
                losses.append(self._train(images, labels))
                self.step += 1
                after(self.step)
                if self.step == until:
                    return losses
        raise AssertionError("never done")

    def _train(self, images: Tensor, labels: Tensor) -> float:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(images), labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        for name, value in self.net.state_dict().items():
            if value.is_floating_point():
                self.average[name].lerp_(value.detach(), 0.1)
        total = loss.detach().clone()
        dist.all_reduce(total)
        return float(total) / dist.get_world_size()

    def everything(self) -> dict[str, Any]:
        """For comparison: weights, the optimizer's state and rates, the average."""
        slots = optimizer_state(self.net, self.optimizer)
        return {
            "weights": {name: _values(value) for name, value in self.net.state_dict().items()},
            "slots": {name: {key: _values(value) for key, value in slots[name].items()} for name in slots},
            "average": {name: _values(value) for name, value in self.average.items()},
            "rates": [group["lr"] for group in self.optimizer.param_groups],
        }


def drawn() -> list[float]:
    """The next random numbers of each kind."""
    return [float(torch.rand(())), float(np.random.rand()), random.random()]


def _values(tensor: Tensor) -> Any:
    return (whole(tensor) if isinstance(tensor, DTensor) else tensor).tolist()
