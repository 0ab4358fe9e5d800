from typing import Any

from slicewise.graph.kind import Kind
from slicewise.graph.operators import Found, Operand
from tests.unit.graph.rules.calls import known, meaning, spelled, tensor, weight


def attention(query: Operand, keys: Operand, mask: Operand | None = None, **changes: Any) -> Found:
    operands = {"query": query, "key": keys, "value": keys} | ({} if mask is None else {"attn_mask": mask})
    return meaning("scaled_dot_product_attention", query.shape, operands, **{"enable_gqa": False, **changes})


HEADS = tensor("NFH.", 2, 4, 9, 8)


def test_attention_is_sliced_by_sample_head_query_and_key() -> None:
    found = attention(HEADS, tensor("NFH.", 2, 4, 5, 8))
    assert spelled(found) == "NAQ., NAK., NAK. -> NAQ."
    assert (known(found).kind, known(found).letters) == (Kind.ATTENTION, "NFH.")


def test_without_heads_it_is_sliced_by_sample_query_and_key_and_of_many_dims_the_last_are_heads() -> None:
    assert spelled(attention(tensor("NH.", 2, 9, 8), tensor("NH.", 2, 5, 8))) == "NQ., NK., NK. -> NQ."
    windows = tensor("N....", 2, 6, 4, 9, 8)
    assert spelled(attention(windows, windows)) == "N.AQ., N.AK., N.AK. -> N.AQ."
    assert known(attention(windows, windows)).letters == "N.F.."


def test_heads_may_share_keys() -> None:
    grouped = attention(HEADS, tensor("NFH.", 2, 2, 9, 8), enable_gqa=True)
    assert spelled(grouped) == "NAQ., NAK., NAK. -> NAQ."
    of_all = attention(HEADS, tensor("NFH.", 2, 1, 9, 8), enable_gqa=True)
    assert spelled(of_all) == "NAQ., N.K., N.K. -> NAQ."


def test_a_mask_lies_as_the_scores_that_it_hides() -> None:
    keys = tensor("NFH.", 2, 4, 5, 8)
    assert spelled(attention(HEADS, keys, tensor("N...", 2, 1, 9, 5))).endswith("N.QK -> NAQ.")
    assert spelled(attention(HEADS, keys, tensor("N...", 2, 1, 1, 5))).endswith("N..K -> NAQ.")
    assert spelled(attention(HEADS, keys, weight(4, 9, 5))).endswith("AQK -> NAQ.")
    assert spelled(attention(HEADS, keys, tensor("..", 9, 5))).endswith("QK -> NAQ.")


def test_queries_without_samples_or_held_by_the_model_are_left_alone() -> None:
    assert attention(tensor("....", 1, 4, 9, 8), HEADS) is None
    assert attention(weight(2, 4, 9, 8), HEADS) is None
