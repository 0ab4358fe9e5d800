"""What scripts compute from an output that lies in parts: one device's value and gradient, also as a float."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from slicewise.errors import PlanError
from slicewise.runtime.sliced_tensor import sliced_tensor
from tests.distributed.world import World

ROWS = (8, 5)  # equal parts, and parts of 3 and 2
TOLERANCE = 1e-10

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda o: o.mean(),
    "mean over rows": lambda o: (o.mean(2) ** 2).sum(),
    "standard deviation": lambda o: o.std(),
    "variance per channel": lambda o: o.var((2, 3)).sum(),
    "norm": lambda o: o.norm(),
    "norms of samples": lambda o: torch.linalg.vector_norm(o, dim=(1, 2, 3)).sum(),
    "largest": lambda o: o.max(),
    "largest per channel": lambda o: o.amax((2, 3)).sum(),
    "softmax over channels": lambda o: (o.softmax(1) ** 2).sum(),
    "softmax over rows": lambda o: (o.softmax(2) ** 2).sum(),
    "differences of rows": lambda o: ((o[:, :, 1:] - o[:, :, :-1]) ** 2).sum(),
    "running sums": lambda o: (o.cumsum(2) ** 2).sum(),
    "flipped": lambda o: (o.flip(2) * o).sum(),
    "rolled": lambda o: (o.roll(1, 2) * o).sum(),
    "padded": lambda o: (F.pad(o, (1, 1, 1, 1)) ** 2).sum(),
    "resized": lambda o: (F.interpolate(o, scale_factor=2.0, mode="bilinear") ** 2).sum(),
    "pooled": lambda o: (F.max_pool2d(o, 2, 1) ** 2).sum(),
    "normalised": lambda o: (F.layer_norm(o, o.shape[1:]) ** 3).sum(),
    "Dice": lambda o: (2 * (o.sigmoid() * 0.3).sum((2, 3)) / (o.sigmoid().sum((2, 3)) + 1)).mean(),
    "cosine": lambda o: F.cosine_similarity(o, o * o + 1, dim=2).sum(),
}


def _differences(name: str, rows: int) -> tuple[float, float, float]:
    """Of the value, of the value as a float, and of the gradient."""
    whole = torch.randn(2, 3, rows, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    alone, parts = whole.clone().requires_grad_(), whole.clone().requires_grad_()
    expected = FUNCTIONS[name](alone)
    expected.backward()
    own = parts.chunk(2, 2)[dist.get_rank()]
    output = sliced_tensor(own, init_device_mesh("cpu", (2,)), (Shard(2),), tuple(whole.shape))
    found = FUNCTIONS[name](output)
    assert isinstance(found, DTensor)
    found.backward()
    assert alone.grad is not None
    assert parts.grad is not None
    first = (rows + 1) // 2
    mine = slice(0, first) if dist.get_rank() == 0 else slice(first, rows)
    return (
        float((found.full_tensor() - expected).detach().abs()),
        abs(found.item() - expected.item()),
        float((alone.grad - parts.grad)[:, :, mine].abs().max()),
    )


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_an_output_have_one_devices_value_and_gradient(pair: World, name: str, rows: int) -> None:
    assert max(pair.run(_differences, name, rows)) < TOLERANCE


def _told_by_one(rows: int) -> bool:
    """A loss that the first rank alone prints."""
    whole = torch.arange(rows * 4, dtype=torch.float64).reshape(1, 1, rows, 4)
    own = whole.chunk(2, 2)[dist.get_rank()]
    loss = (sliced_tensor(own, init_device_mesh("cpu", (2,)), (Shard(2),), tuple(whole.shape)) ** 2).mean()
    return dist.get_rank() != 0 or float(loss) == float((whole**2).mean())


def test_a_rank_prints_a_loss_alone_without_waiting(pair: World) -> None:
    assert pair.run(_told_by_one, 5)


def _given_the_whole_target() -> str:
    """Two rows on two ranks: the part has one, and would be compared with both."""
    own = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    output = sliced_tensor(own, init_device_mesh("cpu", (2,)), (Shard(2),), (1, 1, 2, 4))
    try:
        F.mse_loss(output, torch.zeros(1, 1, 2, 4, dtype=torch.float64))
    except PlanError as error:
        return str(error)
    return "taken"


def test_a_target_that_was_not_cut_is_refused(pair: World) -> None:
    told = pair.run(_given_the_whole_target)
    assert told == (
        "the loss's target has shape (1, 1, 2, 4), this rank's part of the output (1, 1, 1, 4); "
        "net.shard(target) cuts a whole one"
    )
