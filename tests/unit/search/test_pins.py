import pytest

from slicewise.cost.analytic import AnalyticModel
from slicewise.errors import InfeasibleError, RequestError
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Trait
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.layout import Slicing
from slicewise.partition.legal import Space
from slicewise.partition.spelling import degrees
from slicewise.planning import plan
from slicewise.search.baselines import baseline_slicings
from slicewise.search.candidates import candidates
from slicewise.search.optimum import best_slicings
from slicewise.search.pins import Pin, Pins
from tests.builders import Net, machine, small_cnn

CLUSTER = machine(2, 2)


def pinned(graph: LayerGraph, *, fix: tuple[str, ...] = (), forbid: tuple[str, ...] = ()) -> dict[str, Slicing]:
    model = AnalyticModel(graph, CLUSTER)
    return best_slicings(model, Space(), baseline_slicings(model)[0], pins=Pins.parse(fix, forbid))[0]


@pytest.mark.parametrize(
    ("text", "pin"),
    [
        ("features.*=N", Pin("features.*", ((Dim.N, 0),))),
        ("fc1=N4F16", Pin("fc1", ((Dim.N, 4), (Dim.F, 16)))),
        ("fc1=whole", Pin("fc1", ())),
        ("a=b=H", Pin("a=b", ((Dim.H, 0),))),
        ("HW", Pin("*", ((Dim.H, 0), (Dim.W, 0)))),
    ],
)
def test_a_pin_is_a_pattern_and_dims_with_degrees_or_not(text: str, pin: Pin) -> None:
    assert Pin.parse(text, "--fix") == pin
    assert Pin.parse(str(pin), "--fix") == pin


@pytest.mark.parametrize("dims", ["", "X", "n", "N4x", "4N", "N0", "N2N4", "Whole"])
def test_what_are_no_dims_is_refused_with_an_example(dims: str) -> None:
    with pytest.raises(RequestError, match=rf"forbid 'fc1={dims}': '{dims}' are no dims; .* as in 'features.\*=N'"):
        Pin.parse(f"fc1={dims}", "--forbid")


def test_a_pattern_that_matches_nothing_is_refused_with_names() -> None:
    names = [layer.name for layer in small_cnn()]
    Pins.parse(["conv?=N"], ["*=C"]).check(names)
    with pytest.raises(RequestError, match=r"no layer matches 'fc\*'; layers are called input0, conv0, .*, output0$"):
        Pins.parse([], ["fc*=C"]).check(names)
    with pytest.raises(RequestError, match="no layer matches 'conv7'"):
        plan(small_cnn(), CLUSTER, fix=["conv7=N"])


def test_a_fixed_layer_is_sliced_along_exactly_these_dims() -> None:
    graph = small_cnn(8)
    chosen = pinned(graph, fix=("conv*=NF", "linear0=C2"))
    conv, linear = degrees(chosen["conv0"], CLUSTER.mesh.sizes), degrees(chosen["linear0"], CLUSTER.mesh.sizes)
    assert conv == {"N": 2, "F": 2, "C": 1, "D": 1, "H": 1, "W": 1}
    assert linear == {"N": 1, "F": 1, "C": 2, "D": 1, "H": 1, "W": 1}


def test_a_forbidden_dim_is_not_sliced_and_a_forbidden_degree_not_reached() -> None:
    net = Net()
    net.output(net.conv(net.conv(net.input(8, 32, 32, 32), 32), 32))
    assert pinned(net.graph)["conv0"] == (Dim.N, Dim.N)
    assert Dim.N not in pinned(net.graph, forbid=("*=N",))["conv0"]
    assert pinned(net.graph, forbid=("conv0=N4",))["conv0"].count(Dim.N) == 1


def test_whole_fixes_and_forbids_what_slices_nothing() -> None:
    model = AnalyticModel(small_cnn(8), CLUSTER)
    conv = model.graph.index["conv0"]
    fixed = candidates(model, Space(), {}, Pins.parse(["conv0=whole"])).choices[conv]
    forbidden = candidates(model, Space(), {}, Pins.parse([], ["conv0=whole"])).choices[conv]
    everything = candidates(model, Space(), {}, Pins()).choices[conv]
    assert [fixed[row] for row in range(len(fixed))] == [(None, None)]
    assert len(forbidden) == len(everything) - 1
    assert forbidden.find((None, None)) is None


def test_pins_leave_what_ranks_feed_and_get_alone() -> None:
    chosen = pinned(small_cnn(8), fix=("*=N2",))
    for layer in small_cnn(8):
        expected = 4 if layer.kind.has(Trait.EDGE) else 2
        assert degrees(chosen[layer.name], CLUSTER.mesh.sizes)["N"] == expected


def test_pins_of_equal_layers_may_differ() -> None:
    net = Net()
    last = net.conv(net.input(8, 8, 8, 8), 8)
    for _ in range(3):
        last = net.conv(last, 8)
    net.output(last)
    chosen = pinned(net.graph, fix=("conv1=F", "conv2=H"))
    assert set(chosen["conv1"]) - {None} == {Dim.F}
    assert set(chosen["conv2"]) - {None} == {Dim.H}


def test_pins_that_no_slicing_meets_are_named_with_what_could_be_sliced() -> None:
    message = r"flatten0: no legal slicing is left under fix \*=H; it can be sliced along N, F$"
    with pytest.raises(InfeasibleError, match=message):
        plan(small_cnn(8), CLUSTER, fix=["conv0=H", "*=H"])
    with pytest.raises(InfeasibleError, match="conv0: no legal slicing is left under fix conv0=N, forbid \\*=N"):
        plan(small_cnn(8), CLUSTER, fix=["conv0=N"], forbid=["*=N"])


def test_a_pinned_plan_costs_no_less_and_says_what_was_pinned() -> None:
    free = plan(small_cnn(8), CLUSTER)
    made = plan(small_cnn(8), CLUSTER, fix=["conv0=N4"], forbid=["linear*=N", "*=C"])
    assert made.predicted["additive_s"] >= free.predicted["additive_s"]
    assert made.certificate["constraints"][:3] == ("fix conv0=N4", "forbid linear*=N", "forbid *=C")
    assert made.certificate["optimal"]
