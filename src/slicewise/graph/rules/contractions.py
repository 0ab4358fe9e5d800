"""Products of two tensors, both of which may be computed: `NAQC, NACK -> NAQK`.

Every index of the product belongs to one class: in both operands and the output (one matrix each: N, A), in the left
one and the output (rows: Q), in the right one and the output (columns: K), or in both and not in the output (the
reduction: C). What the operands' dims mean goes on to the output; rows keep their meaning where columns have the same.
"""

from string import ascii_letters

from slicewise.graph.dims import WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.operators import Call, Found, Meaning, Shape, rule
from slicewise.graph.rules.products import matrix_product

Terms = tuple[str, str, str]  # the indices of left, right and output, as einsum has them
_REST = "..."  # in an equation: the dims that have no letter of their own, the last ones under each other


@rule("matmul", "mm", "bmm")
def product(call: Call) -> Found:
    """A matrix on the right that all samples share makes a linear layer."""
    left, right = (operand.shape for operand in call.operands.values())
    return matrix_product(call) or contraction(call, _matmul_terms(left, right))


@rule("einsum")
def einsum(call: Call) -> Found:
    """Of two operands, each index once in each."""
    equation = str(call.arguments["equation"]).replace(" ", "")
    terms = _einsum_terms(equation, [operand.shape for operand in call.operands.values()])
    return contraction(call, terms) if terms else None


def _einsum_terms(equation: str, shapes: list[Shape]) -> Terms | None:
    """In letters alone: `_einsum_terms("...ij,...jk", [(5, 2, 3), (5, 3, 4)]) == ("aij", "ajk", "aik")`."""
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or len(shapes) != 2:
        return None
    spare = "".join(letter for letter in ascii_letters if letter not in equation)
    hidden = [len(shape) - len(term.replace(_REST, "")) for term, shape in zip(terms, shapes, strict=True)]
    rest = spare[: max(0, *hidden)]
    left, right = (term.replace(_REST, rest[len(rest) - count :]) for term, count in zip(terms, hidden, strict=True))
    if not arrow:  # einsum's own order: what `...` stands for, then what is not summed by the alphabet
        named = inputs.replace(_REST, "").replace(",", "")
        output = _REST + "".join(sorted(letter for letter in named if named.count(letter) == 1))
    return left, right, output.replace(_REST, rest)


def _matmul_terms(left: Shape, right: Shape) -> Terms:
    """`_matmul_terms((5, 2, 3), (5, 3, 4)) == ("dab", "dbc", "dac")`; vectors have no rows or no columns."""
    rows, summed, columns = "a", "b", "c"
    batch = ascii_letters[3 : 3 + max(len(left), len(right), 2) - 2]
    own = "" if len(left) == 1 else batch[len(batch) - len(left) + 2 :] + rows
    other = ("" if len(right) == 1 else batch[len(batch) - len(right) + 2 :]) + summed
    ends = (rows if len(left) > 1 else "") + (columns if len(right) > 1 else "")
    return own + summed, other + (columns if len(right) > 1 else ""), batch + ends


def contraction(call: Call, terms: Terms) -> Found:
    """None where an index stands twice in a term, none or several are summed, or samples meet other samples."""
    left, right, output = terms
    operands = list(call.operands.values())
    summed = [index for index in left if index in right and index not in output]
    lone = (set(left) ^ set(right)) - set(output)
    if lone or len(summed) != 1 or any(len(set(term)) < len(term) for term in terms):
        return None
    known = [dict(zip(term, operand.letters, strict=True)) for term, operand in zip(terms, operands, strict=False)]
    samples = {index for letters in known for index, letter in letters.items() if letter == Dim.N}
    if len(samples) != 1:
        return None
    letters = dict.fromkeys(samples, str(Dim.N))
    classes = {
        Dim.A: [index for index in output if index in left and index in right],
        Dim.Q: [index for index in output if index not in right],
        Dim.K: [index for index in output if index not in left],
        Dim.C: summed,
    }
    for letter, indices in classes.items():
        free = [index for index in indices if index not in samples]
        letters.update(dict.fromkeys(free, WHOLE))
        if free:
            letters[free[-1]] = str(letter)
    if letters[summed[0]] == Dim.N:
        return None
    sizes = dict(zip(output, call.shape, strict=True))
    spelled = {
        name: "".join(
            letters[index] if size == sizes.get(index, size) else WHOLE
            for index, size in zip(term, operand.shape, strict=True)
        )
        for (name, operand), term in zip(call.operands.items(), terms, strict=False)
    }
    return Meaning(
        kind=Kind.MATMUL,
        operands=spelled,
        dims="".join(letters[index] for index in output),
        letters=_meaning(output, letters, *known),
    )


def _meaning(output: str, own: dict[str, str], left: dict[str, str], right: dict[str, str]) -> str:
    """Of the output's dims to those who read it; heads are channels."""
    letters = ""
    for index in output:
        named = [side[index] for side in (left, right) if side.get(index, WHOLE) != WHOLE]
        letters += named[0] if named and named[0] not in letters else WHOLE
    heads = [place for place, index in enumerate(output) if own[index] == Dim.A and letters[place] == WHOLE]
    if heads and Dim.F not in letters:
        letters = letters[: heads[0]] + Dim.F + letters[heads[0] + 1 :]
    return letters
