import pytest
import torch
from torch.nn.functional import interpolate

from slicewise.graph.dims import Dim
from slicewise.graph.window import Window
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor


@pytest.mark.parametrize("factor", [2, 3, 4, 5])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_the_window_is_what_an_output_really_reads(mode: str, factor: int) -> None:
    """Gradients of one row of the output are zero outside its window, and at some row reach either end of it."""
    size = 7
    small, large = (1, 1, size, 2), (1, 1, size * factor, 2 * factor)
    found = meaning(f"upsample_{mode}2d", large, {"input": tensor("NFHW", *small)}, align_corners=False)
    window = known(found).windows[Dim.H]
    x = torch.zeros(small, dtype=torch.float64, requires_grad=True)
    y = interpolate(x, scale_factor=factor, mode=mode)
    first, last = False, False
    for row in range(size * factor):
        (gradient,) = torch.autograd.grad(y[0, 0, row, 0], x, retain_graph=True)
        read = (gradient[0, 0].abs().sum(1) > 1e-12).nonzero().flatten().tolist()
        start, stop = window.needs(row, row + 1)
        assert set(read) <= set(range(max(start, 0), min(stop, size)))
        first |= start in read
        last |= stop - 1 in read
    assert first
    assert last


def test_aligned_corners_and_broken_factors_keep_space_whole() -> None:
    plane = {"input": tensor("NFHW", 2, 4, 6, 6)}
    aligned = known(meaning("upsample_bilinear2d", (2, 4, 12, 12), plane, align_corners=True))
    assert (spelled(aligned), aligned.letters) == ("NF.. -> NF..", "NFHW")
    broken = known(meaning("upsample_nearest2d", (2, 4, 12, 9), plane))
    assert spelled(broken) == "NFH. -> NFH."
    assert broken.windows == {Dim.H: Window(kernel=2, stride=2, transposed=True)}


def test_a_factor_that_is_given_counts_and_not_the_sizes() -> None:
    plane = {"input": tensor("NFHW", 2, 4, 6, 6)}
    given = known(meaning("upsample_bilinear2d", (2, 4, 12, 12), plane, scale_factors=[2.05, 2.0]))
    assert spelled(given) == "NF.W -> NF.W"
    stays = known(meaning("upsample_bicubic2d", (2, 4, 6, 6), plane, scale_factors=[1.1, 1.1]))
    assert spelled(stays) == "NF.. -> NF.."
    assert meaning("upsample_bicubic2d", (2, 4, 6, 6), plane, scale_factors=[1.0, 1.0]) == ()


def test_shuffled_pixels_are_windows_of_their_own_size() -> None:
    found = known(meaning("pixel_shuffle", (2, 2, 12, 12), {"self": tensor("NFHW", 2, 8, 6, 6)}, upscale_factor=2))
    assert spelled(found) == "NFHW -> NFHW"
    assert found.windows[Dim.H] == Window(kernel=2, stride=2, transposed=True)
