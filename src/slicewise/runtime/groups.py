"""Process groups by the mesh axes they span, made once per process, on first use, in the same order on every rank."""

from contextlib import suppress
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from slicewise.cluster.mesh import Mesh


class _Shared:
    """What was created on the current world: connecting ranks takes longer than many steps, so all modules share it."""

    def __init__(self) -> None:
        self.world: dist.ProcessGroup | None = None
        self.groups: dict[tuple[Mesh, tuple[int, ...]], dist.ProcessGroup | None] = {}
        self.meshes: dict[tuple[Mesh, str], DeviceMesh] = {}

    def current(self) -> "_Shared":
        if self.world is not dist.group.WORLD:
            self.world, self.groups, self.meshes = dist.group.WORLD, {}, {}
        return self


_shared = _Shared()


class Groups:
    """SPMD: every rank asks for the same axis sets in the same order, so creation needs no agreement."""

    def __init__(self, mesh: Mesh, rank: int) -> None:
        self.mesh = mesh
        self.rank = rank

    def of(self, axes: tuple[int, ...]) -> dist.ProcessGroup | None:
        """The group of ranks that differ from this one along `axes` only; None is the whole world."""
        known = _shared.current().groups
        if (self.mesh, axes) not in known:
            known[self.mesh, axes] = self._create(axes)
        return known[self.mesh, axes]

    def members(self, axes: tuple[int, ...]) -> list[int]:
        return self.mesh.group(self.rank, axes)

    def device_mesh(self, device_type: str) -> DeviceMesh:
        """The same mesh in PyTorch's terms, for DTensors; one device is an axis of size 1."""
        known = _shared.current().meshes
        if (self.mesh, device_type) not in known:
            names = tuple(axis.name for axis in self.mesh.axes) or ("device",)
            known[self.mesh, device_type] = init_device_mesh(device_type, self.mesh.sizes or (1,), mesh_dim_names=names)
        return known[self.mesh, device_type]

    def _create(self, axes: tuple[int, ...]) -> dist.ProcessGroup | None:
        if self.mesh.group_size(axes) == self.mesh.devices:
            return None
        own: dist.ProcessGroup | None = None
        seen: set[int] = set()
        for rank in range(self.mesh.devices):
            if rank not in seen:
                members = self.mesh.group(rank, axes)
                seen.update(members)
                group = dist.new_group(members, timeout=_timeout())
                own = group if self.rank in members else own
        return own


def _timeout() -> timedelta | None:
    """The world's own: what the script gave to init_process_group ends waits in every group."""
    world = dist.group.WORLD
    with suppress(AttributeError, RuntimeError):
        timeout: timedelta = world._get_backend(world._device_types[0]).options._timeout  # type: ignore[union-attr]
        return timeout
    return None
