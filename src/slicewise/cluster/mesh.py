"""The devices as a grid. Ranks count row-major: the last axis varies fastest, so ranks of one node are neighbours."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slicewise.factors import prime_factors


@dataclass(frozen=True, slots=True)
class Axis:
    """A prime factor of one tier's size. `tier` counts from the outermost link inwards."""

    name: str
    size: int
    tier: int


@dataclass(frozen=True)
class Mesh:
    """`Mesh.of({"inter": 4, "intra": 4})` has the axes inter0, inter1, intra0, intra1, each of size 2."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, tiers: dict[str, int]) -> "Mesh":
        return cls(
            tuple(
                Axis(f"{name}{number}", factor, tier)
                for tier, (name, size) in enumerate(tiers.items())
                for number, factor in enumerate(prime_factors(size))
            )
        )

    # Meshes key every cache of the partition package: hash once.
    @cached_property
    def _hash(self) -> int:
        return hash(self.axes)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def devices(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    @cached_property
    def coordinates(self) -> NDArray[np.int64]:
        """[rank, axis] -> position of the rank on the axis."""
        return np.stack(np.unravel_index(np.arange(self.devices), self.sizes or (1,)), axis=1).astype(np.int64)

    def group(self, rank: int, axes: tuple[int, ...]) -> list[int]:
        """The ranks that differ from `rank` only along `axes`, in rank order."""
        others = [axis for axis in range(len(self.axes)) if axis not in axes]
        same = (self.coordinates[:, others] == self.coordinates[rank, others]).all(axis=1)
        return [int(member) for member in np.flatnonzero(same)]

    def group_size(self, axes: tuple[int, ...]) -> int:
        return int(np.prod([self.sizes[axis] for axis in axes], dtype=np.int64))
