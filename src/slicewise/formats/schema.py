"""The words that schemas are written in.

A schema is a class of fields, each with a type that says which values have a meaning. It belongs to one version of one
format, and stays as it is once a release has written files by it: what changes later gets a version of its own.
"""

from sys import float_info
from typing import Annotated

from msgspec import Meta, Struct

LARGEST = 10**15  # of any count: what is larger is a mistake, and products of such numbers would overflow
SMALLEST = 1e-30  # of what must be above 0, and the inverse of the largest: products and ratios stay finite
SHORTEST_S, LONGEST_S = 1e-9, 1e9  # of anything that is measured


class Table(Struct, forbid_unknown_fields=True):
    """Fields by name; any other name is refused."""


class Excerpt(Struct):
    """The fields that are read of a file that others write: more may be there."""


# names are repeated in tables and errors: no ends of lines, no invisible signs, no halves of characters
_HIDDEN = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
Name = Annotated[str, Meta(min_length=1, max_length=1000, pattern=rf"\A[^{_HIDDEN}]*\Z")]
Words = Annotated[str, Meta(max_length=100_000, pattern=rf"\A[^{_HIDDEN}]*\Z")]  # a sentence, or nothing
Count = Annotated[int, Meta(ge=1, le=LARGEST)]
Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
LARGEST_FLOAT = 1e30
Positive = Annotated[float, Meta(ge=SMALLEST, le=LARGEST_FLOAT)]
NonNegative = Annotated[float, Meta(ge=0, le=1e30)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=SHORTEST_S, le=LONGEST_S)]
# what a program leaves for people to read, under any name
Note = (
    Annotated[float, Meta(ge=-float_info.max, le=float_info.max)]
    | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    | Annotated[str, Meta(max_length=10_000)]
    | bool
    | None
)
Notes = dict[str, Note]
