"""Process groups are made once."""

import torch.distributed as dist

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.runtime.groups import Groups
from tests.distributed.world import World


def test_meshes_that_name_their_axes_otherwise_share_their_groups(quartet: World) -> None:
    assert quartet.run(_shared) == {"same ranks": True, "other ranks": False, "its ranks": True}


def _shared() -> dict[str, bool]:
    rank = dist.get_rank()
    inner, outer = (Mesh((Axis("a", 2, 0), Axis(name, 2, tier))) for name, tier in (("b", 0), ("c", 1)))
    one, other = Groups(inner, rank).of((1,)), Groups(outer, rank).of((1,))
    members = Groups(outer, rank).members((1,))
    return {
        "same ranks": one is other,
        "other ranks": one is Groups(outer, rank).of((0,)),
        "its ranks": dist.get_process_group_ranks(one) == members,
    }
