"""The dimensions of a layer's iteration space.

A convolution computes `y[n, f, h, w] = sum over c, i, j of x[n, c, h + i, w + j] * weight[f, c, i, j]`:
its dims are N, F, C, H and W. Where output channels are the input channels (element-wise layers, pooling,
norms, depth-wise convolutions), the channel dim is F and slices both sides.

A product of two computed tensors is `y[n, a, q, k] = sum over c of x[n, a, q, c] * z[n, a, c, k]`: its dims are N, A,
Q, C and K. Attention reads `NAQE, NAKE, NAKV` and writes `NAQV`. It is sliced along N, A, Q and K; K is summed over.
"""

from enum import StrEnum


class Dim(StrEnum):
    N = "N"  # sample
    F = "F"  # filter: output channel
    C = "C"  # input channel: a reduction
    D = "D"  # depth
    H = "H"  # height
    W = "W"  # width; the length of a 1-D signal
    A = "A"  # attention head; of a product, one of many matrices
    Q = "Q"  # query; a row of a product
    K = "K"  # key; a column of a product


SPACE = (Dim.D, Dim.H, Dim.W)

# Letters that a tensor's dims may carry beside the Dims themselves.
WHOLE = "."  # never sliced
BATCH = "n"  # scales with the batch, never sliced
ONE = "1"  # of a random mask: one number for the whole dim


def space_letters(count: int) -> str:
    """`space_letters(2) == 'HW'`: the spatial letters of a 1-, 2- or 3-D layer."""
    return "DHW"[3 - count :]
