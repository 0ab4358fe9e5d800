"""Training real images: the loss curve and the accuracy of one device, whatever the plan."""

import pytest
import torch

from benchmarks.accuracy.digits import Curve, plan, train
from slicewise.graph.dims import Dim
from tests.distributed.world import World

EPOCHS = 3


@pytest.fixture(scope="module")
def one_device() -> Curve:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    curve = train("one device", EPOCHS, torch.float64)
    torch.set_num_threads(threads)
    return curve


@pytest.mark.parametrize("strategy", ["data", "mixed"])
def test_a_plan_trains_digits_as_one_device_does(strategy: str, pair: World, one_device: Curve) -> None:
    curve = pair.run(train, strategy, EPOCHS, torch.float64)
    assert curve.losses == pytest.approx(one_device.losses, rel=1e-9)
    assert curve.accuracies == one_device.accuracies
    assert curve.accuracies[-1] > 0.9
    assert curve.losses[-1] < curve.losses[0] / 5


def test_the_mixed_plan_slices_every_dim() -> None:
    slicings = plan("mixed", torch.float64).slicings
    assert {dim for slicing in slicings.values() for dim in slicing} >= {Dim.N, Dim.F, Dim.C, Dim.H, Dim.W}
