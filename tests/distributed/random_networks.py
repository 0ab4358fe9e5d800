"""Small random networks from a seed: any operator that networks are made of, in one, two or three dims of space.

Two in five end in blocks of attention, products or windows.
"""

import random
from collections.abc import Callable
from math import prod

import torch
from torch import Tensor, nn

from tests.distributed.random_attention import random_block

CONVS: tuple[Callable[..., nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
MEAN_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
LINEAR_MODES = ("linear", "bilinear", "trilinear")
MOST_ITEMS = 6000  # of one sample
MOST_TOKENS = 150
FEWEST_VALUES = 16  # that a norm's statistics are taken from: fewer are badly conditioned


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.inner(x)
        return y


class Branches(nn.Module):
    """Joined along channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class MeanOverSpace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(tuple(range(2, x.dim())))


class Maker:
    """`Maker(seed).network()`; the same seed makes the same network."""

    def __init__(self, seed: int) -> None:
        self.pick, self.more = random.Random(seed), random.Random(-1 - seed)
        self.dims = self.pick.choice([1, 2, 2, 3])
        self.batch = self.pick.randint(1, 8)
        self.free = False  # whether nobody needs the last layer's output for backward, so that it may be overwritten
        low, high = {1: (9, 24), 2: (6, 13), 3: (4, 8)}[self.dims]
        self.shape = (self.pick.randint(1, 4), *(self.pick.randint(low, high) for _ in range(self.dims)))

    def network(self) -> nn.Module:
        shape, layers = self.shape, list[nn.Module]()
        for _ in range(self.pick.randint(3, 7)):
            kinds = [self._conv] * 3 + [self._transposed, self._pool, self._norm, self._norm, self._activation]
            shape = self._add(layers, self.pick.choice([*kinds, self._residual, self._branches, self._upsample]), shape)
        for _ in range(self.more.choice([0, 0, 0, 1, 2]) if prod(shape[1:]) <= MOST_TOKENS else 0):
            layers.append(random_block(self.more, shape))
        head = self.pick.choice(["flatten", "mean", "none"])
        if head != "none":
            layers.append(nn.Flatten() if head == "flatten" else MeanOverSpace())
            items = prod(shape) if head == "flatten" else shape[0]
            hidden = self.pick.randint(2, 9)
            layers += [nn.Linear(items, hidden), nn.Tanh(), nn.Linear(hidden, self.pick.randint(1, 5))]
        elif not any(True for layer in layers for _ in layer.parameters()):
            layers.append(CONVS[self.dims - 1](shape[0], 3, 1))
        return nn.Sequential(*layers)

    def _add(
        self, layers: list[nn.Module], make: Callable[[tuple[int, ...]], nn.Module], shape: tuple[int, ...]
    ) -> tuple[int, ...]:
        """A layer that fits, and the shape behind it; up to ten tries."""
        for _ in range(10):
            layer = make(shape)
            try:
                with torch.no_grad():
                    behind = tuple(layer.to("meta")(torch.empty(self.batch, *shape, device="meta")).shape[1:])
            except (RuntimeError, ValueError):  # a window larger than what it slides over
                continue
            if min(behind[1:]) >= 2 and prod(behind) <= MOST_ITEMS:
                layers.append(layer)
                self.free = isinstance(layer, (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm))
                return behind
        return shape

    def _conv(self, shape: tuple[int, ...]) -> nn.Module:
        groups = self.pick.choice([1, 1, 1, shape[0]])
        kernel = [self.pick.randint(1, 4) for _ in range(self.dims)]
        return CONVS[self.dims - 1](
            shape[0],
            groups * self.pick.randint(1, 6 if groups == 1 else 2),
            kernel,
            stride=[self.pick.randint(1, 3) for _ in kernel],
            padding=[self.pick.randint(0, size // 2 + 1) for size in kernel],
            dilation=[self.pick.choice([1, 1, 2]) for _ in kernel],
            groups=groups,
            bias=self.pick.random() < 0.5,
        )

    def _transposed(self, shape: tuple[int, ...]) -> nn.Module:
        stride = self.pick.randint(1, 3)
        groups = self.pick.choice([1, 1, shape[0]])
        return TRANSPOSED[self.dims - 1](
            shape[0],
            groups * self.pick.randint(1, 3),
            self.pick.randint(1, 4),
            stride=stride,
            padding=self.pick.randint(0, 1),
            output_padding=self.pick.randint(0, stride - 1),
            groups=groups,
            bias=self.pick.random() < 0.5,
        )

    def _pool(self, shape: tuple[int, ...]) -> nn.Module:
        kernel = self.pick.randint(1, 4)
        padding, ceil_mode = self.pick.randint(0, kernel // 2), self.pick.random() < 0.5
        stride = self.pick.randint(1, 3)
        if self.pick.random() < 0.5:
            return MAX_POOLS[self.dims - 1](kernel, stride, padding, ceil_mode=ceil_mode)
        counts = self.pick.random() < 0.5
        return MEAN_POOLS[self.dims - 1](kernel, stride, padding, ceil_mode=ceil_mode, count_include_pad=counts)

    def _norm(self, shape: tuple[int, ...]) -> nn.Module:
        values = prod(shape[1:])
        norms: list[nn.Module] = [self._activation(shape)]
        if self.batch * values >= FEWEST_VALUES:
            norms += [BATCH_NORMS[self.dims - 1](shape[0])] * 2
        if values >= FEWEST_VALUES:
            norms.append(INSTANCE_NORMS[self.dims - 1](shape[0], affine=self.pick.random() < 0.5))
            norms.append(nn.GroupNorm(self.pick.choice([1, shape[0]]), shape[0]))
        return self.pick.choice(norms)

    def _activation(self, shape: tuple[int, ...]) -> nn.Module:
        return self.pick.choice([nn.ReLU(), nn.LeakyReLU(0.1, inplace=self.free), nn.Tanh(), nn.SiLU()])

    def _residual(self, shape: tuple[int, ...]) -> nn.Module:
        return Residual(nn.Sequential(self._same(shape[0], shape[0]), nn.Tanh()))

    def _branches(self, shape: tuple[int, ...]) -> nn.Module:
        return Branches(
            self._same(shape[0], self.pick.randint(1, 3)),
            MAX_POOLS[self.dims - 1](3, 1, 1),
            self._same(shape[0], self.pick.randint(1, 3)),
        )

    def _same(self, inputs: int, outputs: int) -> nn.Module:
        return CONVS[self.dims - 1](inputs, outputs, self.pick.choice([1, 3, 5]), padding="same")

    def _upsample(self, shape: tuple[int, ...]) -> nn.Module:
        return nn.Upsample(scale_factor=2, mode=self.pick.choice(["nearest", LINEAR_MODES[self.dims - 1]]))


def random_network(seed: int) -> tuple[nn.Module, tuple[int, ...], int]:
    """The network with its weights, the shape of a sample, and the batch."""
    maker = Maker(seed)
    network = maker.network().to_empty(device="cpu")
    torch.manual_seed(seed)
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()  # type: ignore[operator]
    return network, maker.shape, maker.batch
