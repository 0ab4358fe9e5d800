"""Norms, and what their statistics span."""

from slicewise.graph.dims import WHOLE, space_letters
from slicewise.graph.kind import Kind
from slicewise.graph.operators import Call, Found, Meaning, batched, rule, without


@rule("batch_norm", "instance_norm")
def over_positions(call: Call) -> Found:
    """Batch norm over samples and space, instance norm over space."""
    over_samples = call.operator == "batch_norm"
    if not batched(call) or (not over_samples and call.arguments["running_mean"] is not None):
        return None  # running statistics of instances are a mean over samples beside one over space
    space = space_letters(len(call.shape) - 2)
    dims = f"NF{space}"
    per_channel = dict.fromkeys(("weight", "bias", "running_mean", "running_var"), "F")
    return Meaning(
        kind=Kind.NORM,
        operands=call.spelled(input=dims, **per_channel),
        dims=dims,
        statistics=f"N{space}" if over_samples else space,
    )


@rule("group_norm")
def over_groups(call: Call) -> Found:
    """Over space and the channels of a group: sliced by group, or with one group like a layer norm."""
    if not batched(call):
        return None
    groups, space = call.arguments["num_groups"], space_letters(len(call.shape) - 2)
    dims = f"NF{space}"
    return Meaning(
        kind=Kind.NORM,
        operands=call.spelled(input=dims, weight="F", bias="F"),
        dims=dims,
        statistics=space if groups > 1 else f"F{space}",
        groups=groups,
    )


@rule("layer_norm")
def over_last_dims(call: Call) -> Found:
    letters = call.first.letters
    spanned = letters[-len(call.arguments["normalized_shape"]) :]
    if WHOLE in spanned:
        return _whole(call)
    return Meaning(
        kind=Kind.NORM,
        operands=call.spelled(input=letters, weight=spanned, bias=spanned),
        dims=letters,
        statistics=spanned,
    )


@rule("rms_norm")
def _whole(call: Call) -> Found:
    """What is normalised is never sliced."""
    count = len(call.arguments["normalized_shape"])
    dims = without(call.first.letters, list(range(-count, 0)))
    return Meaning(
        kind=Kind.NORM,
        operands=call.spelled(input=dims, weight=WHOLE * count, bias=WHOLE * count),
        dims=dims,
        letters=call.first.letters,
    )
