import pytest

from slicewise.graph.operators import Found, Operand
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor, weight

QUERY, KEY = tensor("NFH.", 2, 4, 9, 3), tensor("NF.H", 2, 4, 3, 9)


def matmul(left: Operand, right: Operand, *shape: int) -> Found:
    return meaning("matmul", shape, {"self": left, "other": right})


def einsum(equation: str, left: Operand, right: Operand, *shape: int) -> Found:
    return meaning("einsum", shape, {"tensors.0": left, "tensors.1": right}, equation=equation)


@pytest.mark.parametrize(
    ("left", "right", "shape", "layer"),
    [
        (tensor("NFW", 2, 4, 8), tensor("NFW", 2, 8, 3), (2, 4, 3), "NQC, NCK -> NQK"),
        (QUERY, KEY, (2, 4, 9, 9), "NAQC, NACK -> NAQK"),
        (tensor("N..H.", 2, 6, 4, 9, 3), tensor("N...H", 2, 6, 4, 3, 9), (2, 6, 4, 9, 9), "N.AQC, N.ACK -> N.AQK"),
        (tensor("NFHW", 2, 4, 5, 7), weight(4, 7, 3), (2, 4, 5, 3), "NAQC, ACK -> NAQK"),
        (tensor("NFHW", 2, 4, 5, 7), weight(1, 7, 3), (2, 4, 5, 3), "NAQC, .CK -> NAQK"),  # one matrix for all
        (weight(5, 8), tensor("NFW", 2, 8, 3), (2, 5, 3), "QC, NCK -> NQK"),
        (tensor("NFW", 2, 4, 8), tensor(".", 8), (2, 4), "NQC, C -> NQ"),  # a vector has no columns
    ],
)
def test_a_product_has_rows_columns_and_a_reduction(
    left: Operand, right: Operand, shape: tuple[int, ...], layer: str
) -> None:
    assert spelled(matmul(left, right, *shape)) == layer


def test_an_einsum_of_two_is_the_same_in_any_order_of_its_indices() -> None:
    found = einsum("blxd, blyd -> blxy", QUERY, tensor("NFH.", 2, 4, 9, 3), 2, 4, 9, 9)
    assert spelled(found) == "NAQC, NAKC -> NAQK"
    assert spelled(einsum("nqc,nkc->knq", tensor("N..", 2, 5, 3), tensor("N..", 2, 4, 3), 4, 2, 5)) == (
        "NQC, NKC -> KNQ"
    )


@pytest.mark.parametrize(
    ("equation", "layer"),
    [
        ("...qd, ...kd -> ...qk", "NAQC, NAKC -> NAQK"),
        ("nhqd, ...kd -> nhqk", None),  # the rest is summed, and samples with it
        ("nqda, nkdb", None),  # no arrow: all that is met once stays, samples are summed
    ],
)
def test_an_einsum_may_leave_dims_unnamed(equation: str, layer: str | None) -> None:
    left, right = tensor("NFH.", 2, 4, 9, 3), tensor("NFH.", 2, 4, 9, 3)
    found = einsum(equation, left, right, 2, 4, 9, 9)
    assert (spelled(found) if found else None) == layer


def test_dims_without_a_name_stand_under_each_other_from_the_last() -> None:
    found = einsum("...c, cf -> ...f", tensor("NHW.", 2, 4, 9, 3), weight(3, 5), 2, 4, 9, 5)
    assert spelled(found) == "N.QC, CK -> N.QK"
    one_for_all = einsum("...qc, ...ck -> ...qk", tensor("NFHW", 2, 4, 5, 7), weight(1, 7, 3), 2, 4, 5, 3)
    assert spelled(one_for_all) == "NAQC, .CK -> NAQK"


def test_without_an_arrow_what_is_not_summed_comes_by_the_alphabet() -> None:
    assert spelled(einsum("...cq, ...ck", tensor("N..", 2, 3, 5), tensor("N..", 2, 3, 4), 2, 4, 5)) == (
        "NCQ, NCK -> NKQ"
    )


def test_rows_keep_their_meaning_and_matrices_without_one_are_channels() -> None:
    assert known(matmul(QUERY, KEY, 2, 4, 9, 9)).letters == "NFH."
    unnamed = matmul(tensor("N.H.", 2, 4, 9, 3), tensor("N..H", 2, 4, 3, 9), 2, 4, 9, 9)
    assert known(unnamed).letters == "NFH."


@pytest.mark.parametrize("equation", ["nqc,nck", "n...,n...->n...", "nqc,nqk->qk", "nqc,nqc->nq n", "nqc,nkl->nqckl"])
def test_einsums_of_other_forms_are_left_alone(equation: str) -> None:
    assert einsum(equation, tensor("N..", 2, 5, 3), tensor("N..", 2, 5, 3), 2, 5) is None


def test_samples_that_meet_other_samples_are_left_alone() -> None:
    assert matmul(tensor("NF", 2, 8), tensor("FN", 8, 2), 2, 2) is None
