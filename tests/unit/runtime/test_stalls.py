"""Who is behind, and the sentence that says so."""

from pathlib import Path

import pytest

from slicewise.runtime import whereabouts
from slicewise.runtime.stalls import somebody_waits, stalled
from slicewise.runtime.whereabouts import Place, at_pass, at_step, mark, own_place, place_in, record_to


def _place(rank: int, marks: int, doing: str, layer: str = "", *, step: int = 4, time_s: float = 0.0) -> Place:
    return Place(rank=rank, process=0, step=step, marks=marks, time_s=time_s, doing=doing, layer=layer)


def test_ranks_that_move_have_not_stalled() -> None:
    places = [_place(0, 3, "compute", "conv1", time_s=50.0), _place(1, 3, "compute", "conv1")]
    assert stalled(places, 100.0, 60.0, 0.0) is None
    assert stalled(places, 110.0, 60.0, 0.0) is not None


def test_the_rank_that_has_come_least_far_is_behind() -> None:
    waiting = [_place(rank, 9, "sync", "fc.weight") for rank in (0, 2, 3, 5)]
    places = sorted([*waiting, _place(1, 8, "halo", "conv2"), _place(4, 9, "sync", "fc.weight")], key=lambda p: p.rank)
    stall = stalled(places, 61.0, 60.0, 0.0)
    assert stall is not None
    assert stall.behind == (1,)
    assert str(stall) == (
        "no rank has moved for 61 s: rank 1 was last seen in halo of conv2 (step 4); "
        "ranks 0, 2-5 were last seen in sync of fc.weight (step 4)"
    )


def test_an_earlier_step_is_further_behind_than_any_place_in_a_later_one() -> None:
    stall = stalled([_place(0, 900, "outside", step=3), _place(1, 2, "count")], 61.0, 60.0, 0.0)
    assert stall is not None
    assert stall.behind == (0,)
    assert "rank 0 was last seen outside the network: in the script or its loader (step 3)" in str(stall)


def test_a_rank_of_another_host_that_falls_silent_may_be_stopped_or_cut_off() -> None:
    places = [_place(0, 9, "sync", "fc.weight"), _place(1, 2, "halo", "conv2")]
    stall = stalled(places, 61.0, 60.0, 0.0, silent=(1,))
    assert stall is not None
    assert stall.behind == (1,)
    assert str(stall).endswith("; nothing is heard of rank 1 any more: stopped, or a link is down")


def test_starting_takes_longer_than_a_layer() -> None:
    starting = [_place(0, 1, "build"), None]
    assert stalled(starting, 590.0, 60.0, 0.0) is None
    stall = stalled(starting, 601.0, 60.0, 0.0)
    assert stall is not None
    assert stall.behind == (1,)
    assert str(stall).endswith("rank 0 was last seen building the model; rank 1 said nothing yet")


def test_a_rank_that_fell_silent_is_not_waited_for_because_its_last_word_was_of_its_start() -> None:
    """A link that is cut in the first steps: they are over before the next word."""
    places = [_place(0, 1, "build", step=0), _place(1, 2, "barrier", step=3)]
    assert stalled(places, 61.0, 60.0, 0.0) is None
    stall = stalled(places, 61.0, 60.0, 0.0, silent=(0,))
    assert stall is not None
    assert stall.behind == (0,)
    assert str(stall).endswith("; nothing is heard of rank 0 any more: stopped, or a link is down")


def test_whoever_reads_the_results_may_take_their_time() -> None:
    assert stalled([_place(0, 1, "done"), _place(1, 1, "update")], 1e6, 60.0, 0.0) is None


def test_a_script_in_which_nobody_waits_is_busy_with_something_else() -> None:
    assert not somebody_waits([_place(0, 1, "outside"), _place(1, 5, "outside")])
    assert somebody_waits([_place(0, 1, "count"), _place(1, 5, "outside")])


def test_marks_are_read_from_the_file_by_whoever_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_memory", "_step", "_marks", "_counted", "_process"):
        monkeypatch.setattr(whereabouts, name, getattr(whereabouts, name))
    mark("compute", "nobody reads this")
    file = tmp_path / "place"
    assert place_in(file, 3) is None
    record_to(file)
    at_pass(5)
    mark("halo", "é" * 300)
    seen = place_in(file, 3)
    assert seen is not None
    assert (seen.rank, seen.step, seen.marks, seen.doing) == (3, 5, 1, "halo")
    assert seen.layer.startswith("ééé")
    at_step(9)
    mark("compute", "conv1")
    at_pass(77)  # whoever trains knows better
    assert own_place(0) == place_in(file, 0)
    seen = place_in(file, 0)
    assert seen is not None
    assert (seen.position, seen.layer) == ((9, 1), "conv1")
