import pytest

from slicewise.cluster.mesh import Mesh


@pytest.mark.parametrize(
    ("tiers", "names", "sizes"),
    [
        ({"inter": 4, "intra": 4}, ["inter0", "inter1", "intra0", "intra1"], (2, 2, 2, 2)),
        ({"inter": 3, "intra": 6}, ["inter0", "intra0", "intra1"], (3, 2, 3)),
        ({"all": 17}, ["all0"], (17,)),
        ({"all": 1}, [], ()),
    ],
)
def test_axes_are_the_prime_factors_of_the_tiers(
    tiers: dict[str, int], names: list[str], sizes: tuple[int, ...]
) -> None:
    mesh = Mesh.of(tiers)
    assert [axis.name for axis in mesh.axes] == names
    assert mesh.sizes == sizes


def test_ranks_of_a_node_are_neighbours() -> None:
    mesh = Mesh.of({"inter": 2, "intra": 3})
    assert mesh.coordinates.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert mesh.group(4, (1,)) == [3, 4, 5]
    assert mesh.group(4, (0,)) == [1, 4]
    assert mesh.group(4, ()) == [4]
    assert mesh.group(4, (0, 1)) == list(range(6))


def test_a_group_has_as_many_ranks_as_its_axes_multiply_to() -> None:
    mesh = Mesh.of({"inter": 4, "intra": 6})
    assert mesh.devices == 24
    assert mesh.group_size((0, 3)) == 6
    assert mesh.group_size(()) == 1


def test_one_device_is_a_mesh_without_axes() -> None:
    mesh = Mesh.of({"all": 1})
    assert mesh.devices == 1
    assert mesh.group(0, ()) == [0]


def test_equal_meshes_are_one_key() -> None:
    assert len({Mesh.of({"a": 4}), Mesh.of({"a": 4}), Mesh.of({"a": 8})}) == 2
