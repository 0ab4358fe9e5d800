from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.cluster.cluster import Link, Tier, load_cluster, local_path, parse_cluster, preset_names
from slicewise.errors import ClusterError, RequestError, UnknownName
from tests.builders import machine

MINE = """
name = "mine"
overlap = 0.5
cores = 2

[device]
name = "toy"
peak_flops_per_s = 1e12
memory_bytes_per_s = 1e11
memory_bytes = 1e9
kernel_s = 1e-6

[device.efficiency]
conv = 0.5
conv_backward = 0.4
linear = 0.6
linear_backward = 0.5

[[tiers]]
name = "wire"
size = 4
latency_s = 5e-6
bytes_per_s = 1e9
ports = 2

[tiers.collectives.all_reduce]
latency_s = 9e-6
bytes_per_s = 5e8
"""


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads(name: str) -> None:
    cluster = load_cluster(name)
    assert cluster.name == name
    assert cluster.origin == "preset"
    assert cluster.mesh.devices == cluster.devices


def test_the_papers_cluster_has_four_nodes_of_four() -> None:
    cluster = load_cluster("p100-4x4")
    assert [(tier.name, tier.size) for tier in cluster.tiers] == [("inter", 4), ("intra", 4)]
    assert cluster.mesh.sizes == (2, 2, 2, 2)


def test_a_file_says_all_that_a_preset_says(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    cluster = load_cluster(str(path))
    assert (cluster.name, cluster.overlap, cluster.cores, cluster.devices) == (str(path), 0.5, 2, 4)
    assert cluster.device.memory_bytes == 10**9
    assert cluster.tiers[0].ports == 2
    assert cluster.tiers[0].link("all_reduce") == Link(9e-6, 5e8)
    assert cluster.tiers[0].link("all_gather") == Link(5e-6, 1e9)


@pytest.mark.parametrize(
    ("line", "instead", "complaint"),
    [
        ('name = "mine"', "", "mine.toml: name is missing; must be text"),
        ('name = "mine"', "name = 3", "mine.toml: name is 3; must be text"),
        ('name = "mine"', 'name = ""', "mine.toml: name is ''; must be text that is not empty"),
        ('name = "mine"', 'name = "a\\nb"', "mine.toml: name is 'a\\nb'; must be text on one line"),
        ("cores = 2", "core = 2", "mine.toml: unknown field 'core' (did you mean cores?); choose from name, device"),
        ("cores = 2", "cores = 2\norigin = 1", "mine.toml: origin is 1; must be text"),
        ("cores = 2", "schema_version = 2", "mine.toml: schema_version is 2; this release reads 1"),
        ("[device.efficiency]", "[efficiency]", "mine.toml: device.efficiency is missing; must be a table"),
        ("[device.efficiency]", "[device.efficient]", "mine.toml: device: unknown field 'efficient' (did you mean"),
        ("kernel_s = 1e-6", "", "mine.toml: device.kernel_s is missing; must be a number above 0"),
        ("kernel_s = 1e-6", "kernel_s = -1", "mine.toml: device.kernel_s is -1; must be a number above 0"),
        ("kernel_s = 1e-6", "kernel_s = 1e-99", "mine.toml: device.kernel_s is 1e-99; must be a number of at least"),
        ("kernel_s = 1e-6", 'kernel_s = "x"', "mine.toml: device.kernel_s is 'x'; must be a number above 0"),
        ("kernel_s = 1e-6", "kernel_s = true", "mine.toml: device.kernel_s is true; must be a number above 0"),
        ("kernel_s = 1e-6", "kernel_s = nan", "mine.toml: device.kernel_s is nan; must be a number above 0"),
        ("kernel_s = 1e-6", "kernel_s = inf", "mine.toml: device.kernel_s is inf; must be a number of at most 1e+30"),
        ("kernel_s = 1e-6", "kernel_s = 2000-01-01", "mine.toml: device.kernel_s is datetime.date(2000, 1, 1); must"),
        ("kernel_s = 1e-6", "kernel = 1e-6", "mine.toml: device: unknown field 'kernel' (did you mean kernels?)"),
        ("linear = 0.6", "", "mine.toml: device.efficiency.linear is missing"),
        ("linear = 0.6", "matmul = 0.6", "mine.toml: device.efficiency: unknown field 'matmul'; choose from conv, "),
        ("linear = 0.6", "linear = 0.6\nconv3d = 0.3", "mine.toml: device.efficiency.conv3d_backward is missing"),
        ("memory_bytes = 1e9", "memory_bytes = 0.5", "mine.toml: device.memory_bytes is 0.5; must be a whole number"),
        ("size = 4", "", "mine.toml: tiers[0].size is missing; must be a whole number of at least 1"),
        ("size = 4", "size = 2.5", "mine.toml: tiers[0].size is 2.5; must be a whole number of at least 1"),
        ("size = 4", "size = 2000000", "mine.toml: mine: 2,000,000 devices; at most 65,536 can be described"),
        ("ports = 2", "port = 2", "mine.toml: tiers[0]: unknown field 'port' (did you mean ports?); choose from name"),
        ("ports = 2", "ports = 0", "mine.toml: tiers[0].ports is 0; must be a whole number of at least 1"),
        ("latency_s = 9e-6", "", "mine.toml: tiers[0].collectives.all_reduce.latency_s is missing"),
        ("latency_s = 9e-6", "alpha = 1", "mine.toml: tiers[0].collectives.all_reduce: unknown field 'alpha'; choose"),
        (
            "[tiers.collectives.all_reduce]",
            "[tiers.collectives.gossip]",
            "mine.toml: tiers[0].collectives: unknown field 'gossip'; choose from all_reduce, ",
        ),
        ("overlap = 0.5", "overlap = 2", "mine.toml: overlap is 2; must be a number from 0 to 1"),
        ("overlap = 0.5", 'overlap = "all"', "mine.toml: overlap is 'all'; must be a number from 0 to 1"),
        ("cores = 2", 'cores = "two"', "mine.toml: cores is 'two'; must be a whole number of at least 1"),
        ("kernel_s = 1e-6", "kernel_s = 1e-6\nhalf_size = [1, 2]", "mine.toml: device.half_size is a list of 2; must"),
        (
            "kernel_s = 1e-6",
            "kernel_s = 1e-6\nhalf_size = [1, 2, true]",
            "device.half_size[2] is true; must be a number",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_file(line: str, instead: str, complaint: str) -> None:
    text = MINE.replace(line, instead, 1)
    assert text != MINE
    with pytest.raises(ClusterError) as raised:
        parse_cluster(text, "mine.toml")
    assert complaint in str(raised.value)


def test_a_device_that_is_neither_name_nor_table_is_refused() -> None:
    text = 'name = "mine"\ndevice = 3\n'
    with pytest.raises(ClusterError, match=r"mine.toml: device is 3; must be text or a table"):
        parse_cluster(text, "mine.toml")
    with pytest.raises(ClusterError, match=r"mine.toml: device is missing"):
        parse_cluster('name = "mine"\n', "mine.toml")


def test_a_cluster_without_tiers_is_refused() -> None:
    head = MINE.split("[[tiers]]")[0]
    with pytest.raises(ClusterError, match=r"mine.toml: tiers is missing"):
        parse_cluster(head, "mine.toml")
    with pytest.raises(ClusterError, match=r"mine.toml: tiers is a table; must be a list of at least 1"):
        parse_cluster(head + '[tiers]\nname = "wire"\n', "mine.toml")


def test_tiers_of_one_name_are_refused() -> None:
    tier = "[[tiers]]" + MINE.split("[[tiers]]")[1]
    with pytest.raises(ClusterError, match=r"tiers must have different names \(got wire, wire\)"):
        parse_cluster(MINE + tier, "mine.toml")


def test_tiers_whose_axes_would_have_one_name_are_refused() -> None:
    tier = Tier(name="t", size=2**11, latency_s=1e-6, bytes_per_s=1e9)
    with pytest.raises(ClusterError, match=r"tiers t, t1 have axes of one name; drop digits at their ends"):
        replace(machine(2), tiers=(tier, replace(tier, name="t1", size=2)))


def test_what_is_not_toml_is_refused_with_the_parsers_words() -> None:
    with pytest.raises(ClusterError, match=r"mine.toml: not TOML \(.*line 1"):
        parse_cluster("name is mine", "mine.toml")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ClusterError, match=r"mine.toml: not TOML \(not UTF-8 text"):
        load_cluster(str(path))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ClusterError, match=r"nowhere.toml: no such file"):
        load_cluster("nowhere.toml")


def test_an_unknown_cluster_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"unknown cluster 'p100'; choose from .*p100-4x4 or give the path"):
        load_cluster("p100")


def test_this_machine_must_be_calibrated_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWISE_CACHE", str(tmp_path))
    with pytest.raises(RequestError, match="run `slicewise calibrate --quick` first"):
        load_cluster("local")
    (tmp_path / "local.toml").write_text(MINE)
    assert load_cluster("local").name == "mine"
    (tmp_path / "local.toml").write_text(MINE.replace("size = 4", "size = -4"))
    with pytest.raises(ClusterError, match=rf"{tmp_path}/local.toml: tiers\[0\].size is -4; must be a whole number"):
        load_cluster("local")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "/home/me/.cache/slicewise"),
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/slicewise"),
        ({"XDG_CACHE_HOME": "caches"}, "/home/me/.cache/slicewise"),  # XDG: a relative path is to be ignored
        ({"XDG_CACHE_HOME": "/caches", "SLICEWISE_CACHE": "mine"}, "mine"),
    ],
)
def test_what_was_measured_is_kept_where_caches_are(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
) -> None:
    for name, value in {"HOME": "/home/me", "XDG_CACHE_HOME": "", "SLICEWISE_CACHE": "", **environment}.items():
        monkeypatch.setenv(name, value)
    assert local_path() == Path(folder) / "local.toml"


@pytest.mark.parametrize(
    ("devices", "sizes"),
    [(16, [4, 4]), (8, [2, 4]), (4, [4]), (3, [3]), (2, [2]), (1, [1]), (64, [16, 4]), (12, [3, 4])],
)
def test_a_cluster_is_trimmed_and_grown_by_whole_nodes(devices: int, sizes: list[int]) -> None:
    cluster = load_cluster("p100-4x4").with_devices(devices)
    assert [tier.size for tier in cluster.tiers] == sizes
    assert cluster.devices == cluster.mesh.devices == devices


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("devices", [1, 2, 4, 1024, 4096])
def test_every_preset_grows_to_thousands(name: str, devices: int) -> None:
    cluster = load_cluster(name).with_devices(devices)
    assert cluster.devices == cluster.mesh.devices == devices
    node = load_cluster(name).tiers[-1].size
    assert [tier.size for tier in cluster.tiers] == ([devices // node, node] if devices > node else [devices])


def test_a_named_machine_is_one_machine_until_more_are_asked_for() -> None:
    for name in ("dgx1-v100", "dgx-a100", "dgx-h100"):
        assert load_cluster(name).devices == 8


def test_every_gpu_of_a_dgx_a100_has_a_port_of_its_own() -> None:
    assert load_cluster("dgx-a100").with_devices(64).bytes_per_s(0, "all_reduce") == 22.5e9
    assert load_cluster("dgx1-v100").with_devices(64).bytes_per_s(0, "all_reduce") == 11.2e9 / 2
    assert load_cluster("abci-v100").bytes_per_s(0, "all_reduce") == 12.5e9 / 2


@pytest.mark.parametrize("devices", [5, 6, 10])
def test_devices_that_fill_no_whole_node_are_refused_with_what_would(devices: int) -> None:
    with pytest.raises(
        ClusterError, match=rf"{devices} devices do not fill whole groups of 4 \(intra\).*multiple of 4"
    ):
        load_cluster("p100-4x4").with_devices(devices)


@pytest.mark.parametrize("devices", [0, -4, 65_537, 10**9])
def test_no_devices_are_refused(devices: int) -> None:
    with pytest.raises(ClusterError, match=f"devices must be from 1 to 65,536 \\(got {devices}\\)"):
        load_cluster("p100-4x4").with_devices(devices)


def test_devices_of_a_node_share_its_ports() -> None:
    cluster = machine(2, 4, ports=1)
    assert cluster.bytes_per_s(0, "all_reduce") == 1e9 / 4
    assert cluster.bytes_per_s(1, "all_reduce") == 2e9
    assert machine(2, 4, ports=8).bytes_per_s(0, "all_reduce") == 1e9


def test_more_ranks_than_cores_slow_each_other_down() -> None:
    assert machine(4, cores=2).slowdown == 2.0
    assert machine(2, cores=4).slowdown == 1.0
    assert machine(4).slowdown == 1.0
