"""Pads, crops and rolls: output position o reads input position o * step + start, a window of one."""

from slicewise.graph.dims import SPACE, WHOLE, Dim
from slicewise.graph.kind import Kind
from slicewise.graph.operators import SAME, Call, Found, Meaning, rule, without
from slicewise.graph.window import Window


@rule("pad", "constant_pad_nd")
def pad(call: Call) -> Found:
    """Borders of one value, or of none where the pad is negative; other borders keep their dims whole."""
    letters, given = call.first.letters, call.arguments["pad"]
    before = {len(letters) - 1 - number: given[2 * number] for number in range(len(given) // 2)}
    padded = sorted(dim for dim, low in before.items() if low or call.shape[dim] != call.first.shape[dim])
    if not padded:
        return SAME
    if any(letters[dim] == Dim.N for dim in padded):
        return None
    if call.arguments.get("mode", "constant") != "constant":
        dims = without(letters, padded)
        return Meaning(kind=Kind.PAD, operands=dict.fromkeys(call.operands, dims), dims=dims, letters=letters)
    windows = {Dim(letters[dim]): Window(kernel=1, padding=before[dim]) for dim in padded if letters[dim] != WHOLE}
    return Meaning(kind=Kind.PAD, operands=dict.fromkeys(call.operands, letters), dims=letters, windows=windows)


@rule("roll")
def roll(call: Call) -> Found:
    """Positions moved on by a shift, round the end: output position o reads input position o - shift."""
    letters, shape = call.first.letters, call.first.shape
    if not call.arguments["dims"]:
        return None  # all dims as one
    shifts: dict[int, int] = {}
    for dim, shift in zip(call.arguments["dims"], call.arguments["shifts"], strict=True):
        shifts[dim % len(shape)] = shifts.get(dim % len(shape), 0) + shift
    if any(letters[dim] == Dim.N for dim in shifts):
        return None  # samples change places, by a shift that another batch would count differently
    nearest = {dim: (shift + shape[dim] // 2) % shape[dim] - shape[dim] // 2 for dim, shift in shifts.items()}
    moved = {dim: shift for dim, shift in sorted(nearest.items()) if shift}
    if not moved:
        return SAME
    dims = without(letters, [dim for dim in moved if letters[dim] not in ("F", *SPACE)])
    return Meaning(
        kind=Kind.ROLL,
        operands=dict.fromkeys(call.operands, dims),
        dims=dims,
        windows={
            Dim(dims[dim]): Window(kernel=1, padding=shift, wraps=True)
            for dim, shift in moved.items()
            if dims[dim] != WHOLE
        },
        options={"op": "aten.roll.default", "arguments": {"shifts": list(moved.values()), "dims": list(moved)}},
        letters=letters,
    )


@rule("slice", "narrow")
def crop(call: Call) -> Found:
    """Positions `start`, `start + step` ... of one dim."""
    letters, shape = call.first.letters, call.first.shape
    dim = call.arguments["dim"] % len(shape)
    size, step = shape[dim], call.arguments.get("step", 1)
    start = call.arguments["start"] or 0
    start = min(max(start + size, 0) if start < 0 else start, size)
    if call.shape == shape:
        return SAME
    if letters[dim] == Dim.N:
        return None
    named = letters[dim] != WHOLE
    return Meaning(
        kind=Kind.CROP,
        operands=dict.fromkeys(call.operands, letters),
        dims=letters,
        windows={Dim(letters[dim]): Window(kernel=1, stride=step, padding=-start)} if named else {},
        options={
            "op": "aten.slice.Tensor",
            "arguments": {"dim": dim, "start": start, "end": start + (call.shape[dim] - 1) * step + 1, "step": step},
        },
    )


@rule("select")
def select(call: Call) -> Found:
    """One position of a dim, which goes."""
    letters = call.first.letters
    dim = call.arguments["dim"] % len(letters)
    if letters[dim] == Dim.N:
        return None
    return Meaning(
        kind=Kind.CROP,
        operands=dict.fromkeys(call.operands, without(letters, [dim])),
        dims=letters[:dim] + letters[dim + 1 :],
        options={"op": "aten.select.int", "arguments": {"dim": dim, "index": call.arguments["index"]}},
    )
