"""The Transformer that PaSE plans (Elango 2021, large): 6 + 6 layers, words in, scores of words out."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, WIDTH, HEADS, INNER, WORDS, LENGTH, BATCH = 6, 1024, 16, 4096, 50_000, 256, 64


class Attention(nn.Module):
    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        q, k, v = (
            project(given).unflatten(2, (HEADS, -1)).transpose(1, 2)
            for project, given in ((self.query, x), (self.key, seen), (self.value, seen))
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        y: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return y


class Layer(nn.Module):
    """Attention to itself, in the decoder then to what the encoder made, and two linear layers."""

    def __init__(self, decodes: bool) -> None:
        super().__init__()
        self.own = Attention(causal=decodes)
        self.other = Attention() if decodes else None
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3 if decodes else 2))
        self.first, self.last = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        x = self.norms[0](x + self.own(x, x))
        if self.other is not None and seen is not None:
            x = self.norms[1](x + self.other(x, seen))
        y: Tensor = self.norms[-1](x + self.last(F.relu(self.first(x))))
        return y


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source_words, self.target_words = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.ModuleList(Layer(decodes=False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(decodes=True) for _ in range(LAYERS))
        self.scores = nn.Linear(WIDTH, WORDS)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen, y = self.source_words(source), self.target_words(target)
        for layer in self.encoder:
            seen = layer(seen)
        for layer in self.decoder:
            y = layer(y, seen)
        scores: Tensor = self.scores(y)
        return scores


def sample() -> tuple[Tensor, Tensor]:
    return torch.zeros(2, LENGTH, dtype=torch.long), torch.zeros(2, LENGTH, dtype=torch.long)
