from benchmarks.search.annealing import SETTINGS, Annealing, Setting
from slicewise.cost.training import PLAIN
from slicewise.graph.sources import load_graph
from slicewise.partition.legal import Space
from slicewise.planning.modelling import model_for
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.pins import Pins


def test_annealing_finds_better_than_a_bad_plan() -> None:
    cluster = Setting("alexnet", "p100-4x4", 4, 64, slower=4).machine
    model = model_for(load_graph("alexnet").with_batch(64), cluster, PLAIN)
    known, _ = baseline_slicings(model)
    annealing = Annealing(candidates(model, Space(), known, Pins()), float("inf"))
    start = annealing.pool.rows(known["data"])
    assert start is not None
    began_s = annealing.steps_s([start])[0]
    assert annealing.from_(start, seconds=3.0) < began_s
    assert annealing.tried > 1


def test_slower_links_are_those_between_nodes() -> None:
    slow, quick = (Setting("alexnet", "p100-4x4", 16, 64, slower=times).machine for times in (4, 1))
    assert slow.tiers[0].bytes_per_s == quick.tiers[0].bytes_per_s / 4
    assert slow.tiers[1:] == quick.tiers[1:]
    assert len({setting.network for setting in SETTINGS}) > 10
