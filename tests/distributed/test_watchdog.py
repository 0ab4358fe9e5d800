"""Ranks that wait for one that does not come say which one, and where it was."""

import os
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

import slicewise as sw
from slicewise.runtime import watchdog, whereabouts
from slicewise.runtime.watchdog import SharedWords, StallWarning
from tests.builders import machine
from tests.campaigns import sample
from tests.distributed.world import World


@pytest.mark.parametrize("hosts", sample(["one", "several"], quick=["several"]))
def test_a_script_is_warned_of_the_rank_that_blocks_and_goes_on(hosts: str, pair: World) -> None:
    """A loader that blocks on one rank; the other tells, whichever it is."""
    for blocked in (0, 1):
        told = pair.run_each(_blocked_loader, hosts, blocked)
        assert told[blocked] == []
        (said,) = told[1 - blocked]
        assert f"rank {blocked} was last seen outside the network: in the script or its loader (step 1)" in said
        assert f"rank {1 - blocked} was last seen" in said
        assert said.endswith("(step 2)")


def _blocked_loader(hosts: str, blocked: int) -> list[str]:
    net = _network(hosts)
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2):
            if step == 1 and dist.get_rank() == blocked:
                time.sleep(5.0)
            net(torch.randn(4, 3, 8, 8)).sum().backward()
        told += [str(warning.message) for warning in caught if warning.category is StallWarning]
    _forget()
    return told


def _network(hosts: str) -> nn.Module:
    """Under a watchdog of one second, as `parallelize` starts it; an earlier one may still look after this world."""
    if watchdog._watchdog is not None:
        watchdog._watchdog.end()
    if hosts == "one":
        os.environ["LOCAL_WORLD_SIZE"] = str(dist.get_world_size())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(256, 5))
    plan = sw.plan(model, machine(2), batch=8, strategy="data", sample=torch.zeros(2, 3, 8, 8))
    net = sw.parallelize(model, plan, stall_timeout=1.0)
    os.environ.pop("LOCAL_WORLD_SIZE", None)
    return net


def _forget() -> None:
    """The world lives on: its next watchdog starts anew."""
    dist.barrier()
    if watchdog._watchdog is not None:
        watchdog._watchdog.end()
    whereabouts._step = 0


def test_a_script_that_does_something_else_is_left_alone(pair: World) -> None:
    """Both ranks are outside of the network."""
    assert pair.run(_busy_elsewhere) == []


def _busy_elsewhere() -> list[str]:
    net = _network("one")
    net(torch.randn(4, 3, 8, 8)).sum().backward()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        time.sleep(3.0)
    _forget()
    return [str(warning.message) for warning in caught]


def test_nothing_is_left_behind_in_the_temporary_folder(pair: World, tmp_path: Path) -> None:
    pair.run(_shared_words, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def _shared_words(folder: str) -> None:
    import tempfile

    tempfile.tempdir = folder
    words = SharedWords(dist.get_rank(), dist.get_world_size())
    tempfile.tempdir = None
    dist.barrier()
    assert [place is not None and place.doing for place in words.places()] == ["outside"] * 2
    _forget()
