import pytest

from slicewise.graph.kind import Kind
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor

NONE, MEAN, SUM = 0, 1, 2
OPERANDS = {"self": tensor("NFHW", 2, 4, 8, 9), "target": tensor("NFW", 2, 8, 9)}


def test_a_mean_loss_is_a_sum_and_a_count_and_their_ratio() -> None:
    found = meaning("cross_entropy_loss", (), OPERANDS, reduction=MEAN)
    assert isinstance(found, tuple)
    parts, ratio = found
    assert (parts.kind, parts.shape, spelled(parts)) == (Kind.LOSS, (2,), "N.HW, NHW -> .")
    assert spelled(ratio) == ". -> "


@pytest.mark.parametrize(("reduction", "shape", "dims"), [(SUM, (), ""), (NONE, (2, 8, 9), "NHW")])
def test_other_losses_are_one_layer(reduction: int, shape: tuple[int, ...], dims: str) -> None:
    assert known(meaning("cross_entropy_loss", shape, OPERANDS, reduction=reduction)).dims == dims


def test_pointwise_losses_slice_channels_too() -> None:
    both = {"self": tensor("NF", 2, 4), "target": tensor("NF", 2, 4)}
    assert spelled(meaning("mse_loss", (), both, reduction=SUM)) == "NF, NF -> "
    assert meaning("mse_loss", (), {**both, "target": tensor("N.", 2, 1)}, reduction=SUM) is None
