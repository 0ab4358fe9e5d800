"""A sentence classifier (Kim 2014): 1-D convolutions of several widths over embedded words, the maximum of each."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn


class TextCNN(nn.Module):
    """Takes sentences already embedded, (sample, embedding, word): a table of words is looked up, not sliced."""

    def __init__(
        self,
        embedding: int = 300,
        classes: int = 2,
        kernels: Sequence[int] = (3, 4, 5),
        filters: int = 100,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(embedding, filters, kernel_size=kernel) for kernel in kernels)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(len(kernels) * filters, classes)

    def forward(self, x_ncw: torch.Tensor) -> torch.Tensor:
        maps = [self.relu(conv(x_ncw)) for conv in self.convs]
        maxima = [F.max_pool1d(y, kernel_size=y.shape[-1]) for y in maps]
        result: torch.Tensor = self.fc(self.dropout(torch.flatten(torch.cat(maxima, dim=1), 1)))
        return result
