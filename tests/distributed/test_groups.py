"""Process groups are made once."""

import torch.distributed as dist

from slicewise.cluster.mesh import Axis, Mesh
from slicewise.runtime.groups import Groups
from tests.distributed.world import World


def test_meshes_that_name_their_axes_otherwise_share_their_groups(quartet: World) -> None:
    assert quartet.run(_shared) == {"same ranks": True, "other ranks": False, "its ranks": True}


def test_gradients_have_groups_of_their_own(quartet: World) -> None:
    assert quartet.run(_gradients) == {"apart": True, "once": True, "its ranks": True, "the world's": True}


def _gradients() -> dict[str, bool]:
    rank = dist.get_rank()
    groups = Groups(Mesh((Axis("a", 2, 0), Axis("b", 2, 0))), rank)
    own, layers = groups.for_gradients((1,)), groups.of((1,))
    whole = groups.for_gradients((0, 1))
    return {
        "apart": own is not layers,
        "once": own is groups.for_gradients((1,)),
        "its ranks": dist.get_process_group_ranks(own) == groups.members((1,)),
        "the world's": whole is not None and dist.get_process_group_ranks(whole) == [0, 1, 2, 3],
    }


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
