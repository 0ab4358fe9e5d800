"""Process groups by the mesh axes they span, created once, on first use, in the same order on every rank."""

import torch.distributed as dist

from slicewise.cluster.mesh import Mesh


class Groups:
    """SPMD: every rank asks for the same axis sets in the same order, so creation needs no agreement."""

    def __init__(self, mesh: Mesh, rank: int) -> None:
        self.mesh = mesh
        self.rank = rank
        self._known: dict[tuple[int, ...], tuple[dist.ProcessGroup | None, list[int]]] = {}

    def of(self, axes: tuple[int, ...]) -> dist.ProcessGroup | None:
        """The group of ranks that differ from this one along `axes` only; None is the whole world."""
        return self._group(axes)[0]

    def members(self, axes: tuple[int, ...]) -> list[int]:
        return self._group(axes)[1]

    def _group(self, axes: tuple[int, ...]) -> tuple[dist.ProcessGroup | None, list[int]]:
        if axes not in self._known:
            self._known[axes] = self._create(axes)
        return self._known[axes]

    def _create(self, axes: tuple[int, ...]) -> tuple[dist.ProcessGroup | None, list[int]]:
        mine = self.mesh.group(self.rank, axes)
        if len(mine) == self.mesh.devices:
            return None, mine
        seen: set[int] = set()
        own: dist.ProcessGroup | None = None
        for rank in range(self.mesh.devices):
            if rank not in seen:
                members = self.mesh.group(rank, axes)
                seen.update(members)
                group = dist.new_group(members)
                if self.rank in members:
                    own = group
        return own, mine
