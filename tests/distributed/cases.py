"""One small network per thing that a layer can be, for the walk over every slicing."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Scaled(nn.Module):
    """A parameter or buffer combined with what comes in."""

    held: Tensor

    def __init__(
        self, shape: tuple[int, ...], function: Callable[[Tensor, Tensor], Tensor], trained: bool = True
    ) -> None:
        super().__init__()
        values = torch.rand(shape) + 0.5
        if trained:
            self.held = nn.Parameter(values)
        else:
            self.register_buffer("held", values)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.held)


class ChannelsLast(nn.Sequential):
    """Modules that want channels last."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = super().forward(x.permute(0, 2, 3, 1))
        return y.permute(0, 3, 1, 2)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.excite(F.silu(self.squeeze(pooled))))


class Standardised(nn.Conv2d):
    """A convolution whose weight is computed from its parameter."""

    def forward(self, x: Tensor) -> Tensor:
        weight = F.batch_norm(self.weight.reshape(1, self.out_channels, -1), None, None, training=True)
        return F.conv2d(x, weight.reshape_as(self.weight), self.bias, self.stride, self.padding)


class Tied(nn.Module):
    """One convolution and one norm, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = torch.tanh(self.norm(self.conv(x)))
        return x


class Attend(nn.Module):
    """Attention over the positions of a plane of 8 channels, in 4 heads."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.last = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        q, k, v = (
            project(tokens).unflatten(2, (4, -1)).transpose(1, 2) for project in (self.query, self.key, self.value)
        )
        y: Tensor = self.last(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return y


def heads(x: Tensor) -> Tensor:
    """4 heads of 2 channels for every position of a signal."""
    split: Tensor = x.unflatten(1, (4, 2))
    return split.transpose(2, 3)


def unfused(x: Tensor) -> Tensor:
    weights = F.softmax(heads(x) @ torch.tanh(x).unflatten(1, (4, 2)), dim=-1)
    return torch.einsum("nhxy, nhyd -> nhxd", weights, heads(x))


def grouped(x: Tensor) -> Tensor:
    """Two heads share a key."""
    keys = heads(x)[:, :2]
    return F.scaled_dot_product_attention(heads(x), keys, keys, enable_gqa=True)


def repeated_keys(x: Tensor) -> Tensor:
    """Four heads of queries, two of keys and values."""
    q = x.unflatten(1, (4, 2)).transpose(2, 3)
    k = q[:, :2].repeat_interleave(2, dim=1)
    return F.scaled_dot_product_attention(q, k, k)


def rotated(x: Tensor) -> Tensor:
    """Pairs of channels, turned by their position."""
    pairs = torch.view_as_complex(x.transpose(1, 2).unflatten(2, (4, 2)).contiguous())
    turned = pairs * torch.view_as_complex(torch.tensor([[0.6, 0.8], [0.8, 0.6], [1.0, 0.0], [0.0, 1.0]]).to(x.dtype))
    return torch.view_as_real(turned).flatten(2).transpose(1, 2)


def filtered(x: Tensor, gain: Tensor) -> Tensor:
    """As global filters do."""
    waves = torch.fft.rfft2(x) * torch.view_as_complex(gain)
    back: Tensor = torch.fft.irfft2(waves, s=x.shape[2:])
    return back


def masked(x: Tensor) -> Tensor:
    """Each sample hides the keys that are below its mean."""
    hidden = x.mean(1)[:, None, None, :].detach()
    return F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=hidden)


def biased(x: Tensor, bias: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=bias)


def to_the_past(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True)


class SelfAttention(nn.Module):
    """torch's own module on the positions of a plane."""

    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 4, batch_first=True, **options)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        mixed, weights = self.inner(tokens, tokens, tokens)
        y: Tensor = mixed + weights.sum((1, 2))[:, None, None]
        return y


def windows(x: Tensor) -> Tensor:
    """Attention inside of shifted windows of 3 x 3, which stand in the batch's place."""
    n, c, h, w = x.shape
    shifted = torch.roll(x, (-1, -1), (2, 3)).permute(0, 2, 3, 1)
    parts = shifted.view(n, h // 3, 3, w // 3, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 9, c)
    inside = parts.unflatten(2, (4, -1)).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(inside, inside, inside).transpose(1, 2).flatten(2)
    whole = mixed.view(n, h // 3, w // 3, 3, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
    return torch.roll(whole, (1, 1), (1, 2)).permute(0, 3, 1, 2) + x


def class_token(x: Tensor, token: Tensor) -> Tensor:
    tokens = torch.cat([token.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], dim=1)
    return tokens[:, 0] + tokens.mean(1)


def flatten_linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(8 * 9 * 7, 6))


def global_response(x: Tensor, gain: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True)
    return gain * (x * (norms / (norms.mean(dim=1, keepdim=True) + 1e-6))) + x


def shuffled(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.view(n, 4, c // 4, h, w).transpose(1, 2).reshape(n, c, h, w)


def activations(x: Tensor) -> Tensor:
    functions: tuple[Callable[[Tensor], Tensor], ...]
    functions = (F.silu, F.gelu, F.hardswish, F.mish, F.softplus, F.elu, F.leaky_relu, F.hardsigmoid, F.selu)
    for function in functions:
        x = function(x)
    return x.clamp(-1.0, 1.0) - F.relu6(x) / 2


def other_names(x: Tensor) -> Tensor:
    """Operators that torch has twice, and masks that are joined."""
    both = torch.logical_xor(x > 0, x < 0.5) & torch.greater(x, -1.0)
    y = torch.multiply(torch.clip(x, -1.5, 1.5), torch.subtract(x, 0.25)) + torch.hypot(x, torch.sinh(x))
    return torch.where(both, torch.fmax(y, torch.cosh(x)), torch.concatenate([x], 1).absolute())


def scattered(x: Tensor) -> Tensor:
    order = x.detach().argsort(2)
    return torch.zeros_like(x).scatter(2, order, x) + x.scatter_add(2, order, torch.sin(x))


def without_sums(x: Tensor) -> Tensor:
    """Reductions that keep their dim whole."""
    norms: Tensor = torch.linalg.vector_norm(x, 1, dim=2) + torch.linalg.vector_norm(x, 3, dim=2)
    return norms + x.cos().prod(2) + x.median(2)[0] + x.kthvalue(2, dim=2)[0] + x.nansum(2) + x.nanmean(2)


def pieces(x: Tensor) -> Tensor:
    left, right = x.chunk(2, 1)
    one, other = torch.split(x, [3, 5], 1)
    return (
        left[:, :, ::2, 1:] * right[:, :3].sum(1, keepdim=True)[:, :, ::2, 1:]
        + one[:, 1:2, 1::2, :-1]
        + other[:, :4, ::2, 1:]
    )


Case = tuple[Callable[[], nn.Module], tuple[int, ...]]

PLANE = (8, 9, 7)

# name -> the layers under test, and the shape (channels, space...) that reaches them
CASES: dict[str, Case] = {
    "conv1d": (lambda: nn.Conv1d(8, 6, 5, padding=2), (8, 17)),
    "conv2d": (lambda: nn.Conv2d(8, 6, 3, padding=1), PLANE),
    "conv2d strided": (lambda: nn.Conv2d(8, 6, 5, stride=2, padding=2), (8, 19, 17)),
    "conv2d dilated": (lambda: nn.Conv2d(8, 6, 3, padding=2, dilation=2), (8, 11, 9)),
    "conv2d no bias": (lambda: nn.Conv2d(8, 6, (1, 3), bias=False), (8, 6, 9)),
    "conv2d grouped": (lambda: nn.Conv2d(8, 12, 3, padding=1, groups=4), (8, 8, 7)),
    "conv2d depthwise": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), (8, 9, 8)),
    "conv2d same": (lambda: nn.Conv2d(8, 6, (4, 3), padding="same"), PLANE),
    "conv1d same dilated": (lambda: nn.Conv1d(8, 6, 4, padding="same", dilation=3), (8, 17)),
    "conv2d valid": (lambda: nn.Conv2d(8, 6, 2, padding="valid"), PLANE),
    "conv3d": (lambda: nn.Conv3d(4, 6, 3, padding=1), (4, 6, 5, 7)),
    "conv2d of a computed weight": (lambda: Standardised(8, 6, 3, padding=1), PLANE),
    "conv2d of a normed weight": (lambda: weight_norm(nn.Conv2d(8, 6, 3)), PLANE),
    "conv2d of a buffer": (
        lambda: Scaled((8, 1, 3, 3), lambda x, w: F.conv2d(x, w, padding=1, groups=8), trained=False),
        PLANE,
    ),
    "transposed 1d with gaps": (lambda: nn.ConvTranspose1d(8, 6, 2, stride=3), (8, 6)),
    "transposed 2d with gaps": (lambda: nn.ConvTranspose2d(8, 6, 1, stride=3, output_padding=2), (8, 5, 6)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(8, 6, 2, stride=2), (8, 5, 4)),
    "transposed 2d wide": (lambda: nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1, output_padding=1), (8, 5, 6)),
    "transposed 2d grouped": (lambda: nn.ConvTranspose2d(8, 12, 3, stride=2, groups=4), (8, 5, 6)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(4, 6, 2, stride=2), (4, 4, 5, 3)),
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 6)), (8, 1)),
    "linear channels last": (lambda: ChannelsLast(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 8)), PLANE),
    "matrix product": (lambda: Scaled((7, 5), torch.matmul), PLANE),
    "product of two": (lambda: Call(lambda x: x @ torch.tanh(x).transpose(-2, -1)), PLANE),
    "product with a matrix on the left": (lambda: Scaled((5, 9), lambda x, w: torch.matmul(w, x)), PLANE),
    "product with a matrix per channel": (lambda: Scaled((8, 7, 5), torch.matmul), PLANE),
    "attention": (Attend, (8, 3, 3)),
    "attention to the past": (lambda: Call(to_the_past), (8, 9)),
    "attention with a learned bias": (lambda: Scaled((4, 9, 9), biased), (8, 9)),
    "attention with a mask": (lambda: Call(masked), (8, 9)),
    "attention with shared keys": (lambda: Call(grouped), (8, 9)),
    "attention with repeated keys": (lambda: Call(repeated_keys), (8, 9)),
    "complex numbers": (lambda: Call(rotated), (8, 6)),
    "Fourier transform": (lambda: Scaled((8, 9, 4, 2), filtered), PLANE),
    "largest of a dim": (lambda: Call(lambda x: x.topk(3, dim=2)[0] + x.sort(2)[0][:, :, :3]), PLANE),
    "windows of a dim": (lambda: Call(lambda x: x.unfold(2, 3, 2).flatten(3)), PLANE),
    "attention spelled out": (lambda: Call(unfused), (8, 9)),
    "multi-head attention": (SelfAttention, (8, 9)),
    "multi-head attention to further keys": (lambda: SelfAttention(add_bias_kv=True, add_zero_attn=True), (8, 9)),
    "product in unnamed dims": (lambda: Call(lambda x: torch.einsum("...iw,...jw", x, torch.tanh(x))), PLANE),
    "roll": (lambda: Call(lambda x: torch.roll(x, (2, -1), (2, 3))), PLANE),
    "roll beyond the neighbour": (lambda: Call(lambda x: torch.roll(x, (-4, 3), (2, 1))), PLANE),
    "attention in windows": (lambda: Call(windows), (8, 6, 6)),
    "class token": (lambda: Scaled((1, 1, 8), class_token), (8, 3, 3)),
    "words": (lambda: nn.Sequential(Call(lambda x: x.argmax(1)), nn.Embedding(8, 6)), (8, 9)),
    "flatten": (flatten_linear, PLANE),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), (8, 9, 13)),
    "max pool ceil": (lambda: nn.MaxPool2d(3, 2, ceil_mode=True), (8, 10, 13)),
    "max pool 3d": (lambda: nn.MaxPool3d(2), (4, 8, 6, 9)),
    "avg pool": (lambda: nn.AvgPool2d(2), (8, 8, 11)),
    "avg pool padded": (lambda: nn.AvgPool2d(3, 2, 1), (8, 9, 13)),
    "avg pool without borders": (lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False), PLANE),
    "avg pool ceil": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (8, 10, 12)),
    "avg pool ceil without borders": (
        lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        (8, 10, 12),
    ),
    "avg pool divisor": (lambda: nn.AvgPool2d(3, 2, 1, divisor_override=4), (8, 9, 13)),
    "avg pool 1d": (lambda: nn.AvgPool1d(3, 2, 1), (8, 17)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d((4, 3)), (8, 8, 9)),
    "adaptive max pool": (lambda: nn.AdaptiveMaxPool2d((4, 2)), (8, 8, 9)),
    "global pool": (lambda: nn.AdaptiveAvgPool2d(1), PLANE),
    "batch norm": (lambda: nn.BatchNorm2d(8), (8, 6, 7)),
    "instance norm": (lambda: nn.InstanceNorm3d(4, affine=True), (4, 6, 5, 4)),
    "instance norm plain": (lambda: nn.InstanceNorm2d(8), (8, 6, 7)),
    "group norm": (lambda: nn.GroupNorm(4, 8), (8, 6, 7)),
    "group norm plain": (lambda: nn.GroupNorm(2, 8, affine=False), (8, 6, 7)),
    "group norm of one": (lambda: nn.GroupNorm(1, 8), (8, 6, 7)),
    "layer norm": (lambda: nn.LayerNorm((8, 6, 7)), (8, 6, 7)),
    "layer norm channels last": (lambda: ChannelsLast(nn.LayerNorm(8)), (8, 6, 7)),
    "layer norm plain": (lambda: nn.LayerNorm(7, elementwise_affine=False), (8, 6, 7)),
    "rms norm": (lambda: nn.RMSNorm(7), (8, 6, 7)),
    "local response norm": (lambda: nn.LocalResponseNorm(3), (8, 6, 7)),
    "relu": (lambda: nn.ReLU(inplace=True), (8, 6, 7)),
    "activations": (lambda: Call(activations), (8, 6, 7)),
    "prelu": (lambda: nn.Sequential(nn.PReLU(8), nn.PReLU()), (8, 6, 7)),
    "softmax": (lambda: Call(lambda x: F.softmax(x, 1) * F.log_softmax(x, -1)), (8, 6, 7)),
    "glu": (lambda: nn.GLU(1), (8, 6, 7)),
    "add": (lambda: Call(lambda x: x + torch.sigmoid(x)), (8, 6, 7)),
    "torch's other names": (lambda: Call(other_names), (8, 6, 7)),
    "scatter": (lambda: Call(scattered), (8, 6, 7)),
    "cosine similarity": (lambda: Call(lambda x: F.cosine_similarity(x, torch.tanh(x) + 1, dim=1)), (8, 6, 7)),
    "one hot": (lambda: Call(lambda x: F.one_hot(x.argmax(1), 8) * x.mT.mT.mean(1).unsqueeze(-1)), (8, 6, 7)),
    "reductions that are no sums": (lambda: Call(without_sums), (8, 6, 7)),
    "squeeze and excite": (lambda: SqueezeExcite(8), (8, 6, 7)),
    "layer scale": (lambda: Scaled((8, 1, 1), lambda x, gain: gain * x), (8, 6, 7)),
    "layer scale viewed": (lambda: Scaled((8,), lambda x, gain: gain.unsqueeze(-1).unsqueeze(-1) * x), (8, 6, 7)),
    "one scale": (lambda: Scaled((), lambda x, gain: gain * x), (8, 6, 7)),
    "position embedding": (lambda: Scaled((1, 8, 6, 7), lambda x, place: x + place), (8, 6, 7)),
    "constant factors": (lambda: Scaled((8, 1, 7), lambda x, factor: x * factor, trained=False), (8, 6, 7)),
    "global response norm": (lambda: Scaled((1, 8, 1, 1), global_response), (8, 6, 7)),
    "repeat": (lambda: Call(lambda x: x[:, :1].repeat(1, 8, 1, 1) + x + x[:, 1:2].expand(-1, 8, -1, -1)), (8, 6, 7)),
    "detach": (lambda: Call(lambda x: x * x.detach().sum((2, 3), keepdim=True)), (8, 6, 7)),
    "concat": (lambda: Call(lambda x: torch.cat([x, torch.tanh(x)], 1)), (8, 6, 7)),
    "concat rows": (lambda: Call(lambda x: torch.cat([x, torch.tanh(x)], 2)), (8, 6, 7)),
    "stack": (lambda: Call(lambda x: torch.stack([x, torch.tanh(x)], 1)), (8, 6, 7)),
    "crops": (lambda: Call(pieces), (8, 8, 9)),
    "select": (lambda: Call(lambda x: x[:, 3] + x.unbind(1)[0]), (8, 6, 7)),
    "pad": (lambda: nn.ZeroPad2d((0, 1, 2, 1)), (8, 6, 7)),
    "pad value": (lambda: nn.ConstantPad1d((1, 2), 0.5), (8, 17)),
    "pad and cut": (lambda: Call(lambda x: F.pad(x, (-1, 2, 1, -2))), (8, 8, 9)),
    "pad channels": (lambda: Call(lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))), (8, 8, 9)),
    "pad reflected": (lambda: nn.ReflectionPad2d((1, 1, 0, 0)), (8, 6, 7)),
    "shuffle": (lambda: Call(shuffled), (8, 6, 7)),
    "sequence": (
        lambda: Call(lambda x: x.flatten(2).transpose(1, 2).unflatten(1, (8, 6)).squeeze().unsqueeze(1)),
        (8, 8, 6),
    ),
    "mean of space": (lambda: Call(lambda x: x.mean((-2, -1))), (8, 6, 7)),
    "sum of channels": (lambda: Call(lambda x: x.sum(1, keepdim=True)), (8, 6, 7)),
    "mean of samples": (lambda: Call(lambda x: x.mean(0)), (8, 6, 7)),
    "largest of space": (lambda: Call(lambda x: x.amax((2, 3)) + x.max(2)[0].max(2)[0]), (8, 6, 7)),
    "nearest": (lambda: nn.Upsample(scale_factor=2), (8, 6, 7)),
    "nearest exact": (lambda: nn.Upsample(scale_factor=2, mode="nearest-exact"), (8, 6, 7)),
    "nearest by size": (lambda: nn.Upsample(size=(18, 21)), (8, 6, 7)),
    "bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (8, 6, 7)),
    "bilinear by three": (lambda: nn.Upsample(size=(18, 21), mode="bilinear"), (8, 6, 7)),
    "bilinear uneven": (lambda: nn.Upsample(size=(18, 11), mode="bilinear"), (8, 6, 7)),
    "bilinear corners": (lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), (8, 6, 7)),
    "bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (8, 6, 7)),
    "bilinear by a factor that sizes hide": (lambda: nn.Upsample(scale_factor=2.05, mode="bilinear"), (8, 6, 7)),
    "bicubic to the same size": (lambda: nn.Upsample(scale_factor=1.1, mode="bicubic"), (8, 6, 7)),
    "linear 1d": (lambda: nn.Upsample(scale_factor=4, mode="linear"), (8, 9)),
    "trilinear": (lambda: nn.Upsample(scale_factor=2, mode="trilinear"), (4, 4, 5, 3)),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), (8, 5, 6)),
    "pixel unshuffle": (lambda: nn.PixelUnshuffle(2), (4, 8, 6)),
    "cross entropy": (lambda: Call(lambda x: F.cross_entropy(x, x.argmax(1), label_smoothing=0.1)), (8, 6, 7)),
    "weighted loss": (
        lambda: Scaled(
            (8,), lambda x, w: F.nll_loss(F.log_softmax(x, 1), x.argmax(1), w, ignore_index=2), trained=False
        ),
        (8, 6, 7),
    ),
    "squared error": (
        lambda: Call(lambda x: F.mse_loss(x, torch.sigmoid(x)) + F.l1_loss(x, x * 2, reduction="sum")),
        (8, 6, 7),
    ),
    "tied": (Tied, (8, 6, 7)),
}
