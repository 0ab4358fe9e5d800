"""Building blocks of the networks that published runs trained [t]."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """1 x 1, grouped 3 x 3, 1 x 1."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_normed(inputs, width, 1),
            nn.ReLU(),
            *_normed(width, width, 3, stride, groups),
            nn.ReLU(),
            *_normed(width, outputs, 1),
        )
        straight = stride == 1 and inputs == outputs
        self.short = nn.Identity() if straight else nn.Sequential(*_normed(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


class Basic(nn.Module):
    """Two 3 x 3."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_normed(inputs, outputs, 3, stride), nn.ReLU(), *_normed(outputs, outputs, 3))
        straight = stride == 1 and inputs == outputs
        self.short = nn.Identity() if straight else nn.Sequential(*_normed(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


class _Squeeze(nn.Module):
    """Channels weighed by their means."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, inner, 1),
            nn.SiLU(),
            nn.Conv2d(inner, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x * self.weigh(x)
        return y


class InvertedBottleneck(nn.Module):
    """Widen, depth-wise, squeeze, narrow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        width = inputs * widening
        wide = [*_normed(inputs, width, 1), nn.SiLU()] if widening > 1 else []
        self.body = nn.Sequential(
            *wide,
            *_normed(width, width, kernel, stride, width),
            nn.SiLU(),
            _Squeeze(width, max(1, inputs // 4)),
            *_normed(width, outputs, 1),
        )
        self.straight = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.straight else y


class UNet(nn.Module):
    """As nnU-Net: strided convolutions down, transposed ones up, instance norms, leaky ReLU."""

    def __init__(self, space: int, widths: Sequence[int], inputs: int, classes: int) -> None:
        super().__init__()
        conv, turned = ((nn.Conv2d, nn.ConvTranspose2d), (nn.Conv3d, nn.ConvTranspose3d))[space - 2]
        norm = (nn.InstanceNorm2d, nn.InstanceNorm3d)[space - 2]

        def double(before: int, after: int, stride: int) -> nn.Sequential:
            first = [conv(before, after, 3, stride, 1, bias=False), norm(after, affine=True), nn.LeakyReLU()]
            second = [conv(after, after, 3, 1, 1, bias=False), norm(after, affine=True), nn.LeakyReLU()]
            return nn.Sequential(*first, *second)

        steps = list(pairwise(widths))
        self.down = nn.ModuleList([double(inputs, widths[0], 1), *(double(a, b, 2) for a, b in steps)])
        self.up = nn.ModuleList(turned(b, a, 2, 2, bias=False) for a, b in reversed(steps))
        self.merge = nn.ModuleList(double(2 * a, a, 1) for a, _ in reversed(steps))
        self.head = conv(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], dim=1))
        y: Tensor = self.head(x)
        return y


class SSD300(nn.Module):
    """ResNet-34 to its third stage, unstrided there: 38 x 38; five more scales; boxes and 81 classes from each."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 1)):
            for number in range(count):
                layers.append(Basic(channels, width, 1 if number else stride))
                channels = width
        self.backbone = nn.Sequential(*layers)
        self.scales = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(before, inner, 1),
                nn.ReLU(),
                nn.Conv2d(inner, after, 3, stride=2 if padding else 1, padding=padding),
                nn.ReLU(),
            )
            for before, inner, after, padding in (
                (256, 256, 512, 1), (512, 256, 512, 1), (512, 128, 256, 1), (256, 128, 256, 0), (256, 128, 256, 0)
            )
        )  # fmt: skip
        widths, boxes = (256, 512, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4)
        self.places = nn.ModuleList(nn.Conv2d(w, 4 * n, 3, padding=1) for w, n in zip(widths, boxes, strict=True))
        self.classes = nn.ModuleList(nn.Conv2d(w, 81 * n, 3, padding=1) for w, n in zip(widths, boxes, strict=True))

    def forward(self, x: Tensor) -> list[Tensor]:
        found = [self.backbone(x)]
        for scale in self.scales:
            found.append(scale(found[-1]))
        heads = zip(self.places, self.classes, found, strict=True)
        return [each for place, kind, y in heads for each in (place(y), kind(y))]


def _normed(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]
