"""Tables of one attention layer, forward and backward: sliced by -> bandwidth -> tokens -> devices -> what it takes.

B samples of L tokens, d channels in h heads. Four projections of d x d, and every query meets every key:

    compute    3 (8 B L d^2 + 4 B L^2 d) / (p peak)        backward computes twice what forward does
    samples    all-reduce of 4 d^2 gradients
    heads      the projection behind adds up the heads: all-reduce of B L d, forward and backward
    queries    all-gather of keys and values, 2 B L d, and their gradients the same way back; all-reduce of gradients
"""

from typing import Any

from slicewise.cost.network import Network
from slicewise.cost.training import PLAIN
from slicewise.studio.lessons.machine import DEVICES, GIGABYTES_PER_S, machine

BATCH, HEADS, CHANNELS = 8, 16, 1024
LENGTHS = (64, 256, 1024, 4096, 16384)
CUTS = {"samples": ("samples", BATCH), "heads": ("heads", HEADS), "queries": ("tokens", None)}
Row = dict[str, Any]


def attention_part() -> dict[str, Any]:
    """`tables["heads"]["5"]["1024"]["8"]`: by heads at 5 GB/s, 1,024 tokens, 8 devices."""

    def table(cut: str, rate: int) -> dict[str, Any]:
        return {str(length): {str(count): _row(cut, rate, length, count) for count in DEVICES} for length in LENGTHS}

    peak = machine(GIGABYTES_PER_S[0]).device.flops(PLAIN.dtype)
    return {
        "batch": BATCH,
        "heads": HEADS,
        "channels": CHANNELS,
        "lengths": LENGTHS,
        "peak": peak,
        "tables": {cut: {str(rate): table(cut, rate) for rate in GIGABYTES_PER_S} for cut in CUTS},
    }


def _row(cut: str, rate: int, length: int, devices: int) -> Row:
    told, most = CUTS[cut]
    if (most or length) < devices:
        return {"reason": f"{most or length} {told} do not reach {devices} devices"}
    cluster = machine(rate, devices)
    network, axes = Network(cluster), tuple(range(len(cluster.mesh.axes)))
    tokens, weights = BATCH * length * CHANNELS * PLAIN.item_bytes, 4 * CHANNELS**2 * PLAIN.item_bytes
    flops = 3 * (8 * BATCH * length * CHANNELS**2 + 4 * BATCH * length**2 * CHANNELS)
    terms = {"compute": flops / devices / cluster.device.flops(PLAIN.dtype)}
    if cut == "heads":
        terms["layerwise"] = 2 * network.all_reduce(axes).seconds(tokens)
    else:
        terms["gradient"] = network.all_reduce(axes).seconds(weights)
    if cut == "queries":
        terms["layerwise"] = 2 * network.all_gather(axes).seconds(2 * tokens)
    return {**{name: value for name, value in terms.items() if value}, "step": sum(terms.values())}
