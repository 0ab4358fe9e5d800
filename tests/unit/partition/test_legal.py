from dataclasses import replace

import pytest

from slicewise.cluster.mesh import Mesh
from slicewise.errors import SlicingError
from slicewise.graph.dims import Dim
from slicewise.partition.legal import Space, check_legal, check_ties, legal_slicings, refusal, sliceable_dims
from tests.builders import Net

PAIR, FOUR, GRID = Mesh.of({"all": 2}), Mesh.of({"all": 4}), Mesh.of({"outer": 2, "inner": 2})


@pytest.fixture
def net() -> Net:
    return Net()


def test_every_kind_knows_what_it_can_slice(net: Net) -> None:
    source = net.input(4, 8, 8, 8)
    assert sliceable_dims(net[net.conv(source, 4)]) == {Dim.N, Dim.F, Dim.C, Dim.H, Dim.W}
    assert sliceable_dims(net[net.conv(source, 4, groups=2)]) == {Dim.N, Dim.F, Dim.H, Dim.W}
    assert sliceable_dims(net[net.relu(source)]) == {Dim.N, Dim.F, Dim.H, Dim.W}
    assert sliceable_dims(net[net.fork(source)]) == {Dim.N, Dim.F, Dim.C, Dim.H, Dim.W}
    assert sliceable_dims(net[net.concat(source, source)]) == {Dim.N, Dim.H, Dim.W}
    assert sliceable_dims(net[net.flatten(source)]) == {Dim.N, Dim.F}
    assert sliceable_dims(net[net.opaque(source)]) == frozenset()


def test_a_dim_that_a_layer_does_not_have_is_refused_with_those_it_has(net: Net) -> None:
    concat = net[net.concat(net.input(4, 8, 8), net.input(4, 8, 8))]
    assert refusal(concat, (Dim.F,), PAIR) == ("a concat layer like this cannot be sliced along F; it can along N, W")
    opaque = net[net.opaque(net.input(4, 8, 8))]
    assert "it can along nothing" in str(refusal(opaque, (Dim.N,), PAIR))


def test_empty_parts_are_refused_with_the_extent(net: Net) -> None:
    conv = net[net.conv(net.input(3, 8, 8, 8), 8)]
    assert refusal(conv, (Dim.N, Dim.N), FOUR) == "cannot slice N=3 into 4: a part would be empty"
    assert refusal(conv, (Dim.N, None), FOUR) is None


def test_groups_must_divide_into_parts(net: Net) -> None:
    conv = net[net.conv(net.input(4, 6, 8, 8), 6, groups=3)]
    assert refusal(conv, (Dim.F,), PAIR) == "3 groups do not divide into 2 parts"
    assert refusal(conv, (Dim.F,), Mesh.of({"all": 3})) is None


def test_flattening_keeps_channel_parts_together_only_where_they_divide(net: Net) -> None:
    uneven = net[net.flatten(net.input(4, 5, 2, 2))]
    assert refusal(uneven, (Dim.F,), PAIR) == "(4, 5, 2, 2) as (4, 20) keeps F parts together only where 2 divides them"
    assert refusal(net[net.flatten(net.input(4, 6, 2, 2))], (Dim.F,), PAIR) is None


def test_a_part_that_would_read_only_padding_is_refused(net: Net) -> None:
    conv = net[net.conv(net.input(4, 3, 4), 3, kernel=1, padding=4)]
    assert refusal(conv, (Dim.W, None), FOUR) is None
    assert refusal(conv, (Dim.W, Dim.W), FOUR) == "a part of W=12 in 4 would read nothing but padding"


def test_the_number_of_axes_must_match(net: Net) -> None:
    conv = net[net.conv(net.input(4, 3, 8, 8), 3)]
    assert refusal(conv, (Dim.N,), FOUR) == "1 axes given, the mesh has 2"


def test_an_illegal_slicing_raises_with_the_layers_name(net: Net) -> None:
    conv = net[net.conv(net.input(1, 3, 8, 8), 3)]
    with pytest.raises(SlicingError, match="conv0: cannot slice N=1 into 2: a part would be empty"):
        check_legal(conv, (Dim.N,), PAIR)
    check_legal(conv, (Dim.H,), PAIR)


@pytest.mark.parametrize("batch", [4, 8])
def test_a_batch_that_divides_enters_and_leaves_by_sample(net: Net, batch: int) -> None:
    source = net.input(batch, 3, 8, 8)
    output = net.output(source)
    for name in (source, output):
        assert legal_slicings(net[name], GRID) == [(Dim.N, Dim.N)]


@pytest.mark.parametrize("batch", [1, 2, 6])
def test_any_other_batch_enters_whole_and_leaves_as_it_lies(net: Net, batch: int) -> None:
    source = net.input(batch, 3, 8, 8)
    output = net.output(source)
    assert legal_slicings(net[source], GRID) == [(None, None)]
    leaving = legal_slicings(net[output], GRID)
    assert (None, None) in leaving
    assert (Dim.H, Dim.W) in leaving
    assert not any(dim in (Dim.F, Dim.C) for slicing in leaving for dim in slicing)


def test_degrees_mean_the_same_devices_whatever_the_order_they_are_asked_in(net: Net) -> None:
    conv = net[net.conv(net.input(8, 8, 8, 8), 8)]
    assert (Dim.N, Dim.F) in legal_slicings(conv, FOUR)
    assert (Dim.F, Dim.N) not in legal_slicings(conv, FOUR)
    assert (Dim.F, Dim.N) in legal_slicings(conv, GRID)  # another tier, another device


def test_only_linear_layers_and_products_take_input_channels_before_filters(net: Net) -> None:
    conv, linear = net[net.conv(net.input(8, 8, 8, 8), 8)], net[net.linear(net.input(8, 8), 8)]
    both = {(Dim.F, Dim.C), (Dim.C, Dim.F)}
    assert both & set(legal_slicings(conv, FOUR)) == {(Dim.F, Dim.C)}
    assert both <= set(legal_slicings(linear, FOUR))
    eight = {slicing for slicing in legal_slicings(linear, Mesh.of({"all": 8})) if {Dim.F, Dim.C} <= set(slicing)}
    assert (Dim.C, Dim.F, Dim.F) in eight
    assert (Dim.F, Dim.C, Dim.F) not in eight


def test_a_space_says_what_it_leaves_out() -> None:
    assert str(Space(dims_per_layer=2, dims_per_tier=1)) == (
        "every mesh axis to a dim or nothing, canonical order "
        "(F and C of linear layers and products in either), at most 2 dims per layer and 1 per tier"
    )


def test_without_limits_each_tier_takes_every_multiset_of_labels(net: Net) -> None:
    """Two axes and three, six labels (N, H, W, nothing, F, C): 21 and 56 multisets."""
    conv = net[net.conv(net.input(64, 64, 64, 64), 64)]
    unlimited = Space(dims_per_layer=6, dims_per_tier=6)
    assert len(legal_slicings(conv, Mesh.of({"outer": 4, "inner": 8}), unlimited)) == 21 * 56


def test_a_shared_weight_is_never_sliced(net: Net) -> None:
    conv = net[net.conv(net.input(4, 8, 8, 8), 8)]
    shared = replace(conv, weights=tuple(replace(weight, shared=True) for weight in conv.weights))
    assert sliceable_dims(shared) == {Dim.N, Dim.H, Dim.W}


def test_layers_that_share_weights_must_be_sliced_alike(net: Net) -> None:
    first = net.conv(net.input(4, 8, 8, 8), 8)
    own = tuple(replace(weight, shared=True) for weight in net[first].weights)
    net.layers[-1] = replace(net[first], weights=own)
    second = net.conv(first, 8)
    net.layers[-1] = replace(net[second], weights=own)
    check_ties(net.graph, {first: (Dim.N,), second: (Dim.N,)})
    with pytest.raises(SlicingError, match="conv1 shares weights with conv0 and must be sliced like it"):
        check_ties(net.graph, {first: (Dim.N,), second: (Dim.H,)})
