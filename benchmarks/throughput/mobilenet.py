"""MobileNetV3 Large (Howard et al. 2019), a network of many small layers: what a step costs beside its arithmetic."""

import torch
from torch import Tensor, nn

# kernel, expanded channels, output channels, squeeze and excite, hard swish, stride
_BLOCKS = (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip


class _Excite(nn.Module):
    """Each channel scaled by what all of them say on average."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(8, (channels // 4 + 4) // 8 * 8)
        squeezed += 8 if squeezed < 0.9 * (channels // 4) else 0
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        scale: Tensor = self.scale(x)
        return x * scale


class _Block(nn.Module):
    """Expand, filter each channel by itself, project."""

    def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, excite: bool, swish: bool, stride: int):
        super().__init__()
        layers = [_normed(inputs, wide, 1, swish=swish)] if wide != inputs else []
        layers.append(_normed(wide, wide, kernel, stride=stride, groups=wide, swish=swish))
        if excite:
            layers.append(_Excite(wide))
        self.layers = nn.Sequential(*layers, _normed(wide, outputs, 1, swish=None))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.adds else y


def _normed(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, swish: bool | None
) -> nn.Module:
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01),
    ]
    if swish is not None:
        layers.append(nn.Hardswish() if swish else nn.ReLU())
    return nn.Sequential(*layers)


def mobilenet_v3() -> tuple[nn.Module, Tensor]:
    """Without its dropout, and a sample."""
    layers, channels = [_normed(3, 16, 3, stride=2, swish=True)], 16
    for kernel, wide, outputs, excite, swish, stride in _BLOCKS:
        layers.append(_Block(channels, kernel, wide, outputs, excite, swish, stride))
        channels = outputs
    layers += [_normed(channels, 960, 1, swish=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    layers += [nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers), torch.zeros(2, 3, 224, 224)
