"""Attention: `NAQ., NAK., NAK. -> NAQ.`. A bias or mask has the scores' letters.

Sliced by key, a device has the summands of its own keys: the output has no K.
"""

from slicewise.graph.dims import SPACE, WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.operators import Call, Found, Meaning, Operand, Source, once_each, rule
from slicewise.graph.rules.pointwise import aligned


@rule("scaled_dot_product_attention")
def attention(call: Call) -> Found:
    """Heads are what stands before the query; of several such dims, the last. To its readers they are channels."""
    query, key, value = (call.operands.get(name) for name in ("query", "key", "value"))
    if query is None or key is None or value is None or Dim.N not in query.letters[:-2]:
        return None
    if any(operand.source is not Source.INPUT for operand in (query, key, value)):
        return None
    kept = (Dim.N, *SPACE)  # windows lie in space
    leading = "".join(letter if letter in kept else WHOLE for letter in query.letters[:-2])
    heads = leading.rfind(WHOLE)
    if heads >= 0:
        leading = leading[:heads] + Dim.A + leading[heads + 1 :]
    scores = (*call.shape[:-1], key.shape[-2])
    operands = {
        "query": f"{leading}Q{WHOLE}",
        "key": _shared(key, leading, call),
        "value": _shared(value, leading, call),
        "attn_mask": aligned(call.operands["attn_mask"].shape, f"{leading}QK", scores)
        if "attn_mask" in call.operands
        else "",
    }
    known = query.letters[:-1] + WHOLE
    if heads >= 0 and "F" not in known:
        known = known[:heads] + "F" + known[heads + 1 :]
    return Meaning(
        kind=Kind.ATTENTION,
        operands=call.spelled(**operands),
        dims=f"{leading}Q{WHOLE}",
        letters=once_each(known),
    )


def _shared(operand: Operand, leading: str, call: Call) -> str:
    """Several heads may share a key and a value."""
    sizes = zip(leading, operand.shape[:-2], call.shape[:-2], strict=True)
    grouped = bool(call.arguments["enable_gqa"])
    letters = (
        letter if size == full or (letter == Dim.A and grouped and size > 1) else WHOLE for letter, size, full in sizes
    )
    return "".join(letters) + Dim.K + WHOLE
