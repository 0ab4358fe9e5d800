"""What is known of a board by its name: its generation, and whether its power lets it hold its peak."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp

# place in time, maker: devices without data are judged by the nearest that have some
GENERATIONS = {
    "maxwell": (0.0, "nvidia"),
    "pascal": (1.0, "nvidia"),
    "volta": (2.0, "nvidia"),
    "turing": (2.6, "nvidia"),
    "ampere": (4.0, "nvidia"),
    "ada": (4.6, "nvidia"),
    "hopper": (5.5, "nvidia"),
    "blackwell": (7.0, "nvidia"),
    "gcn": (1.4, "amd"),
    "cdna": (3.6, "amd"),
}
OTHER_MAKER = 2.0
_NAMES = (
    (r"M40|Maxwell|M60|980|K80", "maxwell"),
    (r"P100|P40|\bP4\b|TitanXp|Pascal|10[678]0", "pascal"),
    (r"V100|TitanV", "volta"),
    (r"\bL4|40[6789]0|Ada", "ada"),
    (r"\bT4\b|20[678]0|TITAN[ -]RTX|RTX ?[4568]000\b", "turing"),
    (r"A100|A800|A30|\bA10|A40|A[456]000|30[6789]0", "ampere"),
    (r"H100|H200|H800|GH200", "hopper"),
    (r"B100|B200|50[6789]0", "blackwell"),
    (r"MI25\b|Vega|MI50|MI60", "gcn"),
    (r"MI[123]\d\d", "cdna"),
)
# watts of boards without a fan or a plug of their own, and what their generation needs per 1e12 fp32 FLOP/s held
_WATTS = {"T4": 70, "P4": 75, "L4": 72}
_WATTS_PER_TFLOPS = {"pascal": 18.0, "turing": 15.0, "ada": 5.0}


@dataclass(frozen=True, slots=True)
class Standing:
    generation: str
    held: float  # share of the nominal peak that its power allows


@cache
def standing(name: str, fp32_flops_per_s: float) -> Standing:
    """`standing("T4", 8.1e12)`: turing, and 58 % of its peak. A name that says nothing counts as of today."""
    generation = next((found for pattern, found in _NAMES if re.search(pattern, name)), "ampere")
    watts = next((watts for board, watts in _WATTS.items() if re.fullmatch(rf"(.*\W)?{board}(\W.*)?", name)), None)
    if watts is None or generation not in _WATTS_PER_TFLOPS:
        return Standing(generation, 1.0)
    return Standing(generation, min(1.0, watts / (_WATTS_PER_TFLOPS[generation] * fp32_flops_per_s / 1e12)))


def apart(one: str, other: str) -> float:
    """How far two generations are from each other."""
    (early, maker), (late, other_maker) = GENERATIONS[one], GENERATIONS[other]
    return abs(early - late) + (OTHER_MAKER if maker != other_maker else 0.0)


def weights(generation: str, others: Sequence[str]) -> list[float]:
    """How much devices of these generations say of one: those of its own alike; without any, all, by exp(-distance)."""
    distances = [apart(generation, other) for other in others]
    own = 0 in distances
    return [float(distance == 0) if own else exp(-distance) for distance in distances]
