from typing import Any

import pytest

from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Call, Found, Operand
from slicewise.graph.rules import RULES
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor, weight

SHAPE = (2, 4, 8)


def add(*operands: Operand, shape: tuple[int, ...] = SHAPE) -> Found:
    return meaning("add", shape, dict(zip(("self", "other"), operands, strict=True)))


def test_elementwise_layers_slice_what_their_inputs_agree_on() -> None:
    assert spelled(add(tensor("NFW", *SHAPE), tensor("NFW", *SHAPE))) == "NFW, NFW -> NFW"
    assert spelled(add(tensor("NFW", *SHAPE), tensor("N.F", *SHAPE))) == "NF., NF. -> NF."
    assert spelled(add(tensor("NFW", *SHAPE), tensor("...", *SHAPE))) == "NFW, NFW -> NFW"


def test_elementwise_layers_never_name_a_letter_twice() -> None:
    assert spelled(add(tensor("NF.", *SHAPE), tensor("N.F", *SHAPE))) == "N.., N.. -> N.."


def test_a_stretched_or_missing_dim_is_not_sliced_with_the_output() -> None:
    plane = tensor("NFHW", 2, 4, 8, 8)
    assert spelled(add(plane, tensor("NF..", 2, 4, 1, 1), shape=plane.shape)) == "NFHW, NF.. -> NFHW"
    assert spelled(add(plane, tensor("..", 8, 8), shape=plane.shape)) == "NFHW, HW -> NFHW"


@pytest.mark.parametrize(("held", "dims"), [((4, 1), "F."), ((8,), "W"), ((1, 4, 8), ".FW"), ((), ""), ((1,), ".")])
def test_a_parameter_lies_as_what_it_meets(held: tuple[int, ...], dims: str) -> None:
    assert spelled(add(tensor("NFW", *SHAPE), weight(*held))) == f"NFW, {dims} -> NFW"


def test_parameters_that_lie_differently_in_one_layer_are_left_alone() -> None:
    operands = {"self": tensor("NFW", *SHAPE), "tensor1": weight(4, 1), "tensor2": weight(8)}
    assert meaning("addcmul", SHAPE, operands) is None


@pytest.mark.parametrize(("slopes", "dims"), [((4,), "F"), ((1,), ".")])
def test_prelu_has_a_slope_per_channel_or_one(slopes: tuple[int, ...], dims: str) -> None:
    operands = {"self": tensor("NFW", *SHAPE), "weight": weight(*slopes)}
    assert spelled(meaning("prelu", SHAPE, operands)) == f"NFW, {dims} -> NFW"


@pytest.mark.parametrize(("operator", "arguments"), [("clone", {}), ("contiguous", {}), ("to", {})])
def test_copies_are_nothing_unless_they_change_the_dtype(operator: str, arguments: dict[str, Any]) -> None:
    operands = {"self": tensor("NFW", *SHAPE)}
    assert meaning(operator, SHAPE, operands, casts=False, **arguments) == SAME
    assert known(meaning(operator, SHAPE, operands, casts=True, **arguments)).kind is Kind.ELEMENTWISE


@pytest.mark.parametrize("operator", ["dropout", "feature_dropout"])
def test_dropout_that_drops_nothing_is_nothing(operator: str) -> None:
    operands = {"input": tensor("NFW", *SHAPE)}
    assert meaning(operator, SHAPE, operands, p=0.0, train=True) == SAME
    assert meaning(operator, SHAPE, operands, p=0.5, train=False) == SAME
    assert spelled(meaning(operator, SHAPE, operands, p=0.5, train=True)) == "NFW -> NFW"


def test_masks_have_one_number_for_the_dims_that_they_drop_together() -> None:
    operands = {"input": tensor("NFHW", 2, 4, 8, 8)}
    channels = known(meaning("feature_dropout", (2, 4, 8, 8), operands, p=0.5, train=True))
    assert channels.options["mask"] == "NF11"
    arguments = {"p": 0.1, "scale": 1.25, "shape": [2, 1, 1, 1]}
    call = Call(operator="drop_path", arguments=arguments, operands=operands, shape=(2, 4, 8, 8))
    samples = known(RULES["drop_path"](call))
    assert samples.options == {
        "op": "slicewise.drop_path",
        "arguments": {"p": 0.1, "scale": 1.25, "train": True},
        "mask": "N111",
    }


def test_softmax_keeps_the_dim_it_normalises_whole() -> None:
    found = known(meaning("softmax", SHAPE, {"self": tensor("NFW", *SHAPE)}, dim=1))
    assert (spelled(found), found.letters) == ("N.W -> N.W", "NFW")


def test_stretching_repeats_slices_and_repeating_does_not() -> None:
    single = tensor("NFW", 2, 1, 8)
    assert spelled(meaning("expand", SHAPE, {"self": single})) == "N.W -> NFW"
    assert spelled(meaning("repeat", (2, 4, 16), {"self": tensor("NFW", *SHAPE)})) == "NF. -> NF."
    assert meaning("expand", SHAPE, {"self": tensor("NFW", *SHAPE)}) == SAME


def test_a_concatenation_keeps_the_joined_dim_whole() -> None:
    operands = {f"tensors.{number}": tensor("NFW", 2, 4, 5) for number in range(2)}
    found = known(meaning("cat", (2, 8, 5), operands, dim=-2))
    assert found.kind is Kind.CONCAT
    assert (spelled(found), found.letters) == ("N.W, N.W -> N.W", "NFW")


def test_a_stack_adds_a_dim_of_its_own() -> None:
    operands = {f"tensors.{number}": tensor("NFW", 2, 4, 5) for number in range(2)}
    assert spelled(meaning("stack", (2, 2, 4, 5), operands, dim=1)) == "NFW, NFW -> N.FW"


def test_an_embedding_is_sliced_by_position_feature_and_word() -> None:
    operands = {"weight": weight(9, 6), "indices": tensor("NW", 2, 5)}
    found = meaning("embedding", (2, 5, 6), operands, sparse=False, scale_grad_by_freq=False)
    assert spelled(found) == "CF, NW -> NWF"
