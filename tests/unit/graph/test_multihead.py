"""Attention as capture writes it against torch's own, over the module's options."""

import pytest
import torch
from torch import Tensor, nn

from slicewise.graph.multihead import batch_kept_apart

N, TOKENS, HEADS = 3, 5, 2
MASKS = ("none", "past", "bias", "of each head", "padding", "bias and padding")


def masks(kind: str) -> dict[str, object]:
    torch.manual_seed(1)
    past = torch.triu(torch.full((TOKENS, TOKENS), float("-inf"), dtype=torch.float64), 1)
    bias = torch.randn(TOKENS, TOKENS, dtype=torch.float64)
    hidden = torch.arange(TOKENS) >= torch.tensor([[5], [3], [4]])
    if kind == "past":
        return {"attn_mask": past, "is_causal": True}
    if kind == "of each head":
        return {"attn_mask": torch.randn(N * HEADS, TOKENS, TOKENS, dtype=torch.float64)}
    of_tokens = {"attn_mask": bias} if "bias" in kind else {}
    return {**of_tokens, **({"key_padding_mask": hidden} if "padding" in kind else {})}


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_the_same_numbers_and_gradients_as_torch(kind: str, weights: bool, learned: bool, zeros: bool) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(
        4, HEADS, batch_first=True, add_bias_kv=learned, add_zero_attn=zeros, dtype=torch.float64
    )
    x = torch.randn(N, TOKENS, 4, dtype=torch.float64)

    def numbers() -> list[Tensor]:
        mixed, scores = attention(x, x, x, need_weights=weights, **masks(kind))
        loss = mixed.square().sum() + (scores[..., 0].sum() if weights else 0)
        gradients = torch.autograd.grad(loss, list(attention.parameters()))
        return [mixed, *([scores] if weights else []), *gradients]

    truth = numbers()
    with batch_kept_apart():
        written = numbers()
    for own, torchs in zip(written, truth, strict=True):
        torch.testing.assert_close(own, torchs)
