"""The same items under other dims: which letters survive a reshape or a permutation."""

from math import prod

from slicewise.graph.dims import WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Call, Found, Meaning, Shape, once_each, rule

VIEWS = ("flatten", "view", "reshape", "unflatten", "squeeze", "unsqueeze", "_unsafe_view")


@rule(*VIEWS)
def reshaped(call: Call) -> Found:
    """Where dims merge, slices of the outermost stay together; where one splits, its slices go to the outermost.

    The batch may be that outermost dim: windows of an image become samples, and samples windows again.
    """
    shape, letters = call.first.shape, call.first.letters
    if shape == call.shape:
        return SAME
    before, after, known = [WHOLE] * len(shape), [WHOLE] * len(call.shape), [WHOLE] * len(call.shape)
    for old, new in regrouped(shape, call.shape):
        named = [letters[dim] for dim in old if letters[dim] != WHOLE]
        samples = Dim.N in named
        if samples and letters[old[0]] != Dim.N:
            return None  # the batch is inside of another dim
        known[new[0]] = named[0] if named and len(new) == 1 else letters[old[0]]
        if samples or len(old) == 1 or len(new) == 1:
            before[old[0]] = after[new[0]] = letters[old[0]]
    dims = "".join(after)
    # channels and their space become features
    flat = dims[:1] == Dim.N and len(dims) == 2 and letters[:2] == "NF" and shape[0] == call.shape[0]
    return Meaning(
        kind=Kind.FLATTEN if flat else Kind.VIEW,
        operands=dict.fromkeys(call.operands, "".join(before)),
        dims=dims,
        letters=once_each("".join(known)),
    )


def regrouped(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dims that hold the same items, dims of size 1 left out.

    >>> regrouped((2, 6, 5, 1), (2, 3, 2, 5))
    [([0], [0]), ([1], [1, 2]), ([2], [3])]
    """
    olds = [dim for dim, size in enumerate(before) if size != 1]
    news = [dim for dim, size in enumerate(after) if size != 1]
    groups = []
    while olds and news:
        old, new = [olds.pop(0)], [news.pop(0)]
        while (more := prod(before[dim] for dim in old)) != (fewer := prod(after[dim] for dim in new)):
            if more < fewer:
                old.append(olds.pop(0))
            else:
                new.append(news.pop(0))
        groups.append((old, new))
    return groups


@rule("permute", "transpose", "t", "mT", "movedim", "moveaxis", "swapaxes", "swapdims")
def permuted(call: Call) -> Found:
    letters = call.first.letters
    order = _order(call, len(letters))
    return Meaning(
        kind=Kind.VIEW,
        operands=dict.fromkeys(call.operands, letters),
        dims="".join(letters[dim] for dim in order),
    )


def _order(call: Call, count: int) -> list[int]:
    """Where each dim of the result comes from."""
    arguments = call.arguments
    if call.operator == "permute":
        return [dim % count for dim in arguments["dims"]]
    order = list(range(count))
    if call.operator in ("movedim", "moveaxis"):
        sources, targets = (
            [dim % count for dim in ([given] if isinstance(given, int) else given)]
            for given in (arguments["source"], arguments["destination"])
        )
        order = [dim for dim in order if dim not in sources]
        for target, source in sorted(zip(targets, sources, strict=True)):
            order.insert(target, source)
        return order
    if call.operator == "mT":
        return [*order[:-2], order[-1], order[-2]]
    names = {"transpose": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1"), "swapdims": ("dim0", "dim1")}
    one, other = (arguments[name] for name in names[call.operator]) if call.operator != "t" else (0, count - 1)
    order[one], order[other] = order[other], order[one]
    return order
