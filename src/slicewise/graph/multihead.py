"""torch's multi-head attention, written so that samples stay in a dim of their own.

`nn.MultiheadAttention` puts the samples second and merges them with heads or tokens, in `(tokens * N, channels)` and
`(N * heads, tokens, channels)`. While a model is captured, this stands in its place: the same numbers, in tensors of
`(N, tokens, channels)` and `(N, heads, tokens, channels)`, with torch's fused kernel.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_torchs = F.multi_head_attention_forward


@contextmanager
def batch_kept_apart() -> Iterator[None]:
    """Models that are called inside have their attention written so."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole encoder layer in eval mode
    F.multi_head_attention_forward = _forward  # type: ignore[assignment]
    try:
        yield
    finally:
        F.multi_head_attention_forward = _torchs
        torch.backends.mha.set_fastpath_enabled(fused)


_NAMES = (
    "in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "add_zero_attn", "dropout_p", "out_proj_weight",
    "out_proj_bias", "training", "key_padding_mask",
)  # fmt: skip


def _forward(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, *given: Any, **named: Any) -> Any:
    """As torch's, which is left what is rare: keys that were projected elsewhere, and samples without a batch."""
    said = {**dict(zip(_NAMES, given, strict=False)), **named}
    if query.dim() != 3 or any(said.get(name) is not None for name in ("static_k", "static_v")):
        return _torchs(query, key, value, width, heads, *given, **named)
    drop = said["dropout_p"] if said.get("training", True) else 0.0
    further = (said["bias_k"] is not None) + said["add_zero_attn"]
    mask, causal = _mask(said, heads, len(query), len(key), further)
    q, k, v = _projected(query, key, value, said)
    k, v = _with_further(k, v, said)
    q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    weights = None
    if said.get("need_weights", True):
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = F.softmax(scores if mask is None else scores + mask, dim=-1)
        weights = F.dropout(weights, drop) if drop else weights
    # weights that are returned have been dropped as those that are used
    spelled_out = weights is not None and drop
    mixed = weights @ v if spelled_out else F.scaled_dot_product_attention(q, k, v, mask, drop, causal)
    output = F.linear(mixed.transpose(1, 2).flatten(2), said["out_proj_weight"], said["out_proj_bias"])
    if weights is not None and said.get("average_attn_weights", True):
        weights = weights.mean(dim=1)
    return output.transpose(0, 1), weights


def _projected(query: Tensor, key: Tensor, value: Tensor, said: dict[str, Any]) -> tuple[Tensor, ...]:
    """Queries, keys and values, `(N, tokens, channels)`."""
    bias = said["in_proj_bias"]
    if query is key is value and not said.get("use_separate_proj_weight"):
        return F.linear(query.transpose(0, 1), said["in_proj_weight"], bias).chunk(3, -1)
    if said.get("use_separate_proj_weight"):
        weights = [said[f"{name}_proj_weight"] for name in "qkv"]
    else:
        weights = said["in_proj_weight"].chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(
        F.linear(x.transpose(0, 1), weight, own)
        for x, weight, own in zip((query, key, value), weights, biases, strict=True)
    )


def _with_further(k: Tensor, v: Tensor, said: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Beside the tokens' keys and values: a learned pair that all samples share, and one of zeros."""
    if said["bias_k"] is not None:
        learned = (said[name].expand(len(x), -1, -1) for name, x in (("bias_k", k), ("bias_v", v)))
        k, v = (torch.cat([x, own], dim=1) for x, own in zip((k, v), learned, strict=True))
    if said["add_zero_attn"]:
        k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
    return k, v


def _mask(said: dict[str, Any], heads: int, queries: int, keys: int, further: int) -> tuple[Tensor | None, bool]:
    """What is added to the scores, and whether it is the past instead, which the kernel knows by itself.

    Under a mask, every query sees the `further` keys that are no token's; the kernel's past, as in torch, hides them.
    """
    mask, padding = said.get("attn_mask"), said.get("key_padding_mask")
    if said.get("is_causal") and padding is None and not said.get("need_weights", True):
        return None, True
    if mask is not None and mask.dim() == 3:  # of each sample's every head
        mask = mask.view(-1, heads, queries, keys)
    if padding is not None:
        hidden = padding[:, None, None, :]
        mask = hidden if mask is None else mask + hidden
    return (F.pad(mask, (0, further)) if mask is not None and further else mask), False
