"""A training that is stopped and loaded again is the training that was never stopped."""

import errno
import os
import subprocess
import warnings
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import slicewise as sw
from slicewise.checkpoints.load import CheckpointWarning
from slicewise.checkpoints.manifest import checkpoints
from slicewise.checkpoints.state import random_state
from slicewise.checkpoints.storage import _Stream
from slicewise.errors import CheckpointError
from tests.distributed.checkpointing import Training, drawn, model
from tests.distributed.comparing import whole
from tests.distributed.conftest import world_of
from tests.distributed.world import World


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_the_losses_after_a_resume_are_bitwise_those_of_a_run_that_was_not_stopped(
    ranks: int, worlds: dict[int, World], tmp_path: Path
) -> None:
    """Dropout masks, Adam, schedule, scaler, average, order of samples, random numbers: in the middle of an epoch."""
    whole_run, resumed = world_of(worlds, ranks).run(_stopped_and_not, str(tmp_path), 2)
    assert whole_run == resumed


def _stopped_and_not(folder: str, plan: int) -> tuple[Any, Any]:
    straight = Training(plan)
    losses = straight.run(7, lambda step: straight.save(Path(folder)) if step == 3 else None)
    expected = losses[3:], straight.everything(), drawn()
    again = Training(plan)
    restored = again.load(Path(folder))
    assert restored is not None
    assert (restored.step, restored["note"], restored.skipped) == (3, {"step": 3}, ())
    return expected, (again.run(7), again.everything(), drawn())


def test_under_another_plan_and_number_of_ranks_the_losses_are_those_to_1e_9(
    worlds: dict[int, World], tmp_path: Path
) -> None:
    """In float64, without dropout, whose masks follow the slices."""
    expected = world_of(worlds, 4).run(_first_half, str(tmp_path))
    for ranks, plan in ((4, 5), (2, 1), (2, 6)):
        assert world_of(worlds, ranks).run(_second_half, str(tmp_path), plan) == pytest.approx(expected, rel=1e-9)


def _first_half(folder: str) -> list[float]:
    training = Training(2, dropout=0.0)
    return training.run(7, lambda step: training.save(Path(folder)) if step == 3 else None)[3:]


def _second_half(folder: str, plan: int) -> list[float]:
    training = Training(plan, dropout=0.0)
    training.load(Path(folder))
    return training.run(7)


def test_a_save_in_the_background_has_the_weights_of_its_step(pair: World, tmp_path: Path) -> None:
    """Though training has gone on while it was written."""
    now, saved, loaded = pair.run(_in_background, str(tmp_path))
    assert now != saved == loaded


def _in_background(folder: str) -> tuple[list[float], list[float], list[float]]:
    training = Training(2)
    training.run(2)
    saved = _first_weight(training)
    saving = training.save(Path(folder), asynchronous=True)
    training.run(4)
    path = saving.wait()
    assert checkpoints(Path(folder)) == [path]
    other = Training(3)
    other.load(Path(folder))
    return _first_weight(training), saved, _first_weight(other)


def _first_weight(training: Training) -> list[float]:
    values: list[float] = whole(next(training.net.parameters()).detach()).flatten().tolist()
    return values


def test_what_goes_wrong_in_the_background_is_raised_by_the_next_save(pair: World, tmp_path: Path) -> None:
    pair.run(_fails_in_background, str(tmp_path))


def _fails_in_background(folder: str) -> None:
    training = Training(2)
    with _FullDisk(1):
        saving = training.save(Path(folder), asynchronous=True)
        with pytest.raises(CheckpointError, match="rank 1: No space left on device"):
            saving.wait()
        training.save(Path(folder), asynchronous=True)
        with pytest.raises(CheckpointError, match=r"step 0 was not saved to .*0001-step-0: rank 1: No space left"):
            training.save(Path(folder))
    training.save(Path(folder)).wait()


class _FullDisk:
    """On one rank, from its second write on."""

    def __init__(self, rank: int) -> None:
        self._rank, self._write = rank, _Stream.write

    def __enter__(self) -> None:
        def refuse(stream: _Stream, data: Any) -> int:
            if stream.bytes and dist.get_rank() == self._rank:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self._write(stream, data)

        _Stream.write = refuse  # type: ignore[assignment, method-assign]

    def __exit__(self, *_: object) -> None:
        _Stream.write = self._write  # type: ignore[method-assign]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_disk_that_fills_up_during_a_save_leaves_the_older_one_loadable(
    rank: int, pair: World, tmp_path: Path
) -> None:
    assert pair.run(_on_a_full_disk, str(tmp_path), rank) == ["0001-step-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001-step-1"]  # and nothing unfinished


def _on_a_full_disk(folder: str, rank: int) -> list[str]:
    training = Training(2)
    training.run(1)
    training.save(Path(folder))
    expected = training.everything()
    training.run(2)
    with _FullDisk(rank), pytest.raises(CheckpointError, match=f"rank {rank}: No space left on device"):
        training.save(Path(folder))
    training.load(Path(folder))
    assert training.everything() == expected
    dist.barrier()
    return [path.name for path in checkpoints(Path(folder))]


def test_flipped_bytes_are_named_and_the_checkpoint_before_is_loaded(pair: World, tmp_path: Path) -> None:
    """One bit of any file, the manifest among them."""
    pair.run(_two_checkpoints, str(tmp_path))
    newest = checkpoints(tmp_path)[0]
    assert newest.name == "0002-step-2"
    for file in sorted(newest.iterdir()):
        content = file.read_bytes()
        for place in (0, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            assert pair.run(_skips, str(tmp_path)) == ("0001-step-1", True), (file.name, place)
        file.write_bytes(content)
    assert pair.run(_skips, str(tmp_path)) == ("0002-step-2", False)


def _two_checkpoints(folder: str) -> None:
    training = Training(2)
    training.run(2, lambda step: training.save(Path(folder)))


def _skips(folder: str) -> tuple[str, bool]:
    net = Training(2).net
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        restored = sw.load_checkpoint(folder, net)
    assert restored is not None
    (skipped,) = restored.skipped or ("",)
    assert [str(warning.message) for warning in told] == (
        [f"a broken checkpoint is passed over: {skipped}"] if skipped and dist.get_rank() == 0 else []
    )
    assert all(warning.category is CheckpointWarning for warning in told)
    return restored.folder.name, "0002-step-2" in skipped


def test_where_all_are_broken_loading_says_so_and_changes_nothing(pair: World, tmp_path: Path) -> None:
    pair.run(_two_checkpoints, str(tmp_path))
    for path in checkpoints(tmp_path):
        (path / "__1_0.distcp").unlink()
    pair.run(_all_broken, str(tmp_path))


def _all_broken(folder: str) -> None:
    training = Training(3)
    before = training.everything()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CheckpointError, match=r"none of 2 checkpoints is whole; the last: .*__1_0.distcp: No such"):
            training.load(Path(folder))
    assert training.everything() == before


def test_a_load_that_fails_halfway_leaves_everything_as_it_was(pair: World, tmp_path: Path) -> None:
    """The last thing to be loaded fails, on one rank: weights, optimizer and the rest go back on all."""
    pair.run(_two_checkpoints, str(tmp_path))
    pair.run(_fails_halfway, str(tmp_path))


class _Refusing:
    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: object) -> None:
        if dist.get_rank() == 1 and state:
            raise ValueError("not like this")


def _fails_halfway(folder: str) -> None:
    training = Training(3)
    training.run(1)
    before, random = training.everything(), random_state()
    extra = {**training.extra, "note": _Refusing()}
    with pytest.raises(CheckpointError, match="rank 1: ValueError: not like this; everything is as it was before"):
        sw.load_checkpoint(folder, training.net, training.optimizer, **extra)
    after = random_state()
    assert training.everything() == before
    assert torch.equal(after["torch"], random["torch"])


def test_a_checkpoint_of_another_network_is_refused_by_name(pair: World, tmp_path: Path) -> None:
    pair.run(_two_checkpoints, str(tmp_path))
    pair.run(_of_another, str(tmp_path))


def _of_another(folder: str) -> None:
    wider = model()
    wider[9] = nn.Linear(12, 7).double()
    with pytest.raises(CheckpointError, match=r"9\.weight has shape \(6, 12\), the network's has \(7, 12\)"):
        sw.load_checkpoint(folder, wider)
    longer = nn.Sequential(*model(), nn.Linear(6, 6))
    with pytest.raises(CheckpointError, match=r"has no 10\.weight \(2 of 1\d are missing\)"):
        sw.load_checkpoint(folder, longer)
    shorter = model()[:9]
    with pytest.raises(CheckpointError, match=r"9\.\w+ is not in the network \(2 are not\)"):
        sw.load_checkpoint(folder, shorter)
    with pytest.raises(CheckpointError, match="has no 'ema'; it has average, loader, note, scaler, schedule"):
        sw.load_checkpoint(folder, model(), ema={})


def test_ddp_reads_what_a_sliced_network_saved_and_the_other_way_round(pair: World, tmp_path: Path) -> None:
    assert pair.run(_between_ddp, str(tmp_path)) == 0.0


def _between_ddp(folder: str) -> float:
    training = Training(2)
    training.run(1)
    training.save(Path(folder))
    ddp = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1.0)
    assert sw.load_checkpoint(folder, ddp, optimizer) is not None
    assert optimizer.param_groups[0]["lr"] == training.optimizer.param_groups[0]["lr"]
    sw.save_checkpoint(folder, ddp, optimizer, step=2)
    other = Training(4)
    sw.load_checkpoint(folder, other.net, other.optimizer)
    wanted = training.net.state_dict()
    return max(float((whole(v) - whole(wanted[k])).abs().max()) for k, v in other.net.state_dict().items())


def test_the_weights_are_exported_for_people_without_slicewise(pair: World, tmp_path: Path) -> None:
    pair.run(_two_checkpoints, str(tmp_path))
    assert sw.export_checkpoint(tmp_path, tmp_path / "model.pt") == 2
    plain = model()
    plain.load_state_dict(torch.load(tmp_path / "model.pt"))
    sw.export_checkpoint(tmp_path, tmp_path / "model.safetensors")
    from safetensors.torch import load_file

    tensors = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(tensors[name], value) for name, value in plain.state_dict().items())
    alone = model()
    restored = sw.load_checkpoint(tmp_path, alone)  # one process, no process group
    assert restored is not None
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), plain.parameters(), strict=True))
    assert not torch.equal(model().state_dict()["0.weight"], tensors["0.weight"])


def test_only_the_last_are_kept_and_what_was_left_unfinished_goes(pair: World, tmp_path: Path) -> None:
    (tmp_path / ".0001-step-9-abcd.tmp").mkdir()
    (tmp_path / "notes").mkdir()
    pair.run(_many, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0003-step-3", "0004-step-4", "notes"]


def _many(folder: str) -> None:
    training = Training(2)
    training.run(4, lambda step: training.save(Path(folder), keep=2))


@pytest.mark.skipif(os.geteuid() != 0 or which("mount") is None, reason="mounts a small disk, as root")
def test_a_real_disk_that_is_too_small_for_two_keeps_the_first(pair: World, tmp_path: Path) -> None:
    pair.run(_two_checkpoints, str(tmp_path / "measured"))
    size = sum(file.stat().st_blocks * 512 for file in checkpoints(tmp_path / "measured")[0].iterdir())
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={int(1.6 * size)}", "tmpfs", disk], check=True)
    try:
        assert pair.run(_on_a_small_disk, str(disk)) == ["0001-step-1"]
        assert [path.name for path in disk.iterdir()] == ["0001-step-1"]
    finally:
        subprocess.run(["umount", disk], check=True)


def _on_a_small_disk(folder: str) -> list[str]:
    training = Training(2)
    training.run(1)
    training.save(Path(folder))
    expected = training.everything()
    training.run(2)
    with pytest.raises(CheckpointError, match="step 2 was not saved"):
        training.save(Path(folder))
    training.load(Path(folder))
    assert training.everything() == expected
    dist.barrier()
    return [path.name for path in checkpoints(Path(folder))]
