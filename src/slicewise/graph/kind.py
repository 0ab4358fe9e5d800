"""The kinds of layers, and what is true of each: everything that is decided by kind is decided here.

The independent evaluator (cost/recost.py) has a list of its own, so that a wrong entry here is seen.
"""

from enum import Flag, StrEnum, auto


class Trait(Flag):
    EDGE = auto()  # where samples come in or results go out: only the contract with the training loop slices it
    PRODUCT = auto()  # a matrix product of its input with a factor
    FREE = auto()  # nothing is computed or copied
    KEEPS_INPUT = auto()  # backward reads what it read, as it read it: gathered, if that is what its slicing wants
    KEEPS_ALL = auto()  # not the first input alone, but every one
    WINDOWED = auto()  # each output position reads a window of input positions
    REARRANGES = auto()  # the same items under other dims
    REGROUPS = auto()  # a dim may have several sizes, so parts must be even: it is merged, split, or shared by some
    ALIASES = auto()  # its output may lie in the memory of what it reads: not to be written in place
    LONE = auto()  # reads exactly one layer
    COPIES = auto()  # writes what it reads, unchanged
    WIRING = auto()  # no operator of the model: only where tensors come from and go to, so tables leave it out
    FOLLOWS = auto()  # small beside the layer that it reads alone: drawn in one box with it
    OF_INPUTS = auto()  # a product of its inputs with each other: no weight is a factor
    EITHER_ORDER = auto()  # F and C within a tier in either order: what one sums over, the next may slice
    PUBLISHED = auto()  # published runs, which ranges are fitted to, consist of such


class Kind(StrEnum):
    INPUT = "input"
    OUTPUT = "output"
    CONV = "conv"
    LINEAR = "linear"
    MATMUL = "matmul"  # a product of two tensors, both of which may be computed
    ATTENTION = "attention"  # softmax(query x key) x value, fused
    POOL = "pool"
    NORM = "norm"
    ELEMENTWISE = "elementwise"
    REDUCE = "reduce"  # a sum or mean over some dims: sliced along them it leaves summands
    LOSS = "loss"  # a number from outputs and targets
    UPSAMPLE = "upsample"
    CONCAT = "concat"
    ROLL = "roll"  # positions moved on; what leaves at one end comes in at the other
    PAD = "pad"  # borders of one value around the input
    CROP = "crop"  # some positions of the input: slices, chunks, every second row
    FLATTEN = "flatten"
    VIEW = "view"  # the same items under other dims: reshaped, permuted, squeezed
    FORK = "fork"  # one tensor, several consumers: moved once, gradients summed before they move back
    DERIVED = "derived"  # made of weights and numbers alone: no sample passes through, every device repeats it
    OPAQUE = "opaque"  # an operator nobody taught us: replicated

    def has(self, trait: Trait) -> bool:
        """`Kind.CONV.has(Trait.PRODUCT)`."""
        return trait in _TRAITS[self]


_T = Trait
_TRAITS = {
    Kind.INPUT: _T.EDGE | _T.FREE | _T.ALIASES | _T.WIRING,
    Kind.OUTPUT: _T.EDGE | _T.FREE | _T.LONE | _T.COPIES | _T.WIRING,
    Kind.CONV: _T.PRODUCT | _T.KEEPS_INPUT | _T.WINDOWED | _T.PUBLISHED,
    Kind.LINEAR: _T.PRODUCT | _T.KEEPS_INPUT | _T.EITHER_ORDER | _T.PUBLISHED,
    Kind.MATMUL: _T.PRODUCT | _T.KEEPS_INPUT | _T.KEEPS_ALL | _T.OF_INPUTS | _T.EITHER_ORDER,
    Kind.ATTENTION: _T.PRODUCT | _T.KEEPS_INPUT | _T.KEEPS_ALL | _T.REGROUPS | _T.OF_INPUTS,
    Kind.POOL: _T.KEEPS_INPUT | _T.WINDOWED | _T.LONE | _T.PUBLISHED,
    Kind.NORM: _T.KEEPS_INPUT | _T.FOLLOWS | _T.PUBLISHED,
    Kind.ELEMENTWISE: _T.FOLLOWS | _T.PUBLISHED,
    Kind.REDUCE: _T(0),
    Kind.LOSS: _T(0),
    Kind.UPSAMPLE: _T.WINDOWED | _T.REGROUPS | _T.LONE,
    Kind.CONCAT: _T.PUBLISHED,
    Kind.ROLL: _T.WINDOWED | _T.LONE | _T.FOLLOWS,
    Kind.PAD: _T.WINDOWED | _T.ALIASES | _T.LONE | _T.FOLLOWS | _T.PUBLISHED,
    Kind.CROP: _T.FREE | _T.WINDOWED | _T.ALIASES | _T.LONE | _T.FOLLOWS,
    Kind.FLATTEN: _T.FREE | _T.REARRANGES | _T.REGROUPS | _T.ALIASES | _T.LONE | _T.FOLLOWS,
    Kind.VIEW: _T.FREE | _T.REARRANGES | _T.REGROUPS | _T.ALIASES | _T.LONE | _T.FOLLOWS,
    Kind.FORK: _T.FREE | _T.LONE | _T.COPIES | _T.WIRING,
    Kind.DERIVED: _T.ALIASES,
    Kind.OPAQUE: _T.ALIASES,
}
