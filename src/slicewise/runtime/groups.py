"""Process groups by the mesh axes they span, made once per process, on first use, in the same order on every rank."""

from contextlib import suppress
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from slicewise.cluster.mesh import Mesh
from slicewise.runtime.priority import starting

_Ranks = tuple[tuple[int, ...], ...]  # of groups side by side, every rank in one of them
_LAYERS, _GRADIENTS = "layers", "gradients"  # what a group is used for


class _Shared:
    """What was created on the current world: connecting ranks takes longer than many steps, so all modules share it.

    Groups are known by their ranks, whatever the mesh calls its axes: each has threads that look for messages for ever.
    """

    def __init__(self) -> None:
        self.world: dist.ProcessGroup | None = None
        self.groups: dict[tuple[_Ranks, str], dist.ProcessGroup | None] = {}
        self.of_axes: dict[tuple[Mesh, tuple[int, ...], str], dist.ProcessGroup | None] = {}
        self.meshes: dict[tuple[tuple[str, ...], tuple[int, ...], str], DeviceMesh] = {}

    def current(self) -> "_Shared":
        if self.world is not dist.group.WORLD:
            self.world, self.groups, self.of_axes, self.meshes = dist.group.WORLD, {}, {}, {}
        return self


_shared = _Shared()


class Groups:
    """SPMD: every rank asks for the same axis sets in the same order, so creation needs no agreement."""

    def __init__(self, mesh: Mesh, rank: int) -> None:
        self.mesh = mesh
        self.rank = rank

    def of(self, axes: tuple[int, ...]) -> dist.ProcessGroup | None:
        """The group of ranks that differ from this one along `axes` only; None is the whole world."""
        return self._of(axes, _LAYERS)

    def for_gradients(self, axes: tuple[int, ...]) -> dist.ProcessGroup | None:
        """Another group of the same ranks. A backend takes the messages of a group in order, NCCL one by one and gloo
        two at a time: in a group of their own, gradients under way never hold up a layer's message.
        """
        return self._of(axes, _GRADIENTS)

    def _of(self, axes: tuple[int, ...], use: str) -> dist.ProcessGroup | None:
        shared = _shared.current()
        if (self.mesh, axes, use) not in shared.of_axes:
            ranks = self._groups(axes)
            if (ranks, use) not in shared.groups:
                shared.groups[ranks, use] = self._create(ranks, use)
            shared.of_axes[self.mesh, axes, use] = shared.groups[ranks, use]
        return shared.of_axes[self.mesh, axes, use]

    def members(self, axes: tuple[int, ...]) -> list[int]:
        return self.mesh.group(self.rank, axes)

    def device_mesh(self, device_type: str) -> DeviceMesh:
        """The same mesh in PyTorch's terms, for DTensors; one device is an axis of size 1."""
        known = _shared.current().meshes
        names, sizes = tuple(axis.name for axis in self.mesh.axes) or ("device",), self.mesh.sizes or (1,)
        if (names, sizes, device_type) not in known:
            known[names, sizes, device_type] = init_device_mesh(device_type, sizes, mesh_dim_names=names)
        return known[names, sizes, device_type]

    def _groups(self, axes: tuple[int, ...]) -> _Ranks:
        """The ranks of all groups along `axes`, this rank's and the others'."""
        found: dict[int, tuple[int, ...]] = {}
        for rank in range(self.mesh.devices):
            if rank not in found:
                members = tuple(self.mesh.group(rank, axes))
                found |= dict.fromkeys(members, members)
        return tuple(dict.fromkeys(found.values()))

    def _create(self, ranks: _Ranks, use: str) -> dist.ProcessGroup | None:
        if len(ranks) == 1 and use == _LAYERS:
            return None
        own: dist.ProcessGroup | None = None
        with starting():
            for members in ranks:
                group = dist.new_group(list(members), timeout=_timeout())
                own = group if self.rank in members else own
        return own


def _timeout() -> timedelta | None:
    """The world's own: what the script gave to init_process_group ends waits in every group."""
    world = dist.group.WORLD
    with suppress(AttributeError, RuntimeError):
        timeout: timedelta = world._get_backend(world._device_types[0]).options._timeout  # type: ignore[union-attr]
        return timeout
    return None
