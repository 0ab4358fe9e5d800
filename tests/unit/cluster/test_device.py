from itertools import combinations

import pytest

from slicewise.cluster.cluster import parse_cluster
from slicewise.cluster.device import Device, device_names, load_device
from slicewise.dtype import DTYPES
from slicewise.errors import ClusterError
from tests.builders import DEVICE

TIER = """
[[tiers]]
name = "wire"
size = 2
latency_s = 1e-6
bytes_per_s = 1e9
"""


def device(text: str) -> Device:
    return parse_cluster(f'name = "mine"\n{text}\n{TIER}', "mine.toml").device


@pytest.mark.parametrize("name", device_names())
def test_every_device_of_the_catalogue_is_whole(name: str) -> None:
    found = load_device(name)
    assert found.name == name
    assert found.memory_bytes >= 2**30
    assert all(0 < share <= 1 for share in found.efficiency.values())
    assert set(found.peaks) <= set(DTYPES)
    # fewer bits are never slower
    peaks = [found.peaks[dtype] for dtype in DTYPES if dtype in found.peaks]
    assert peaks == sorted(peaks)


def test_the_catalogue_has_the_makers_figures() -> None:
    assert device_names()[:6] == ["P100", "V100-16", "V100-32", "A100-40", "A100-80", "H100"]
    assert load_device("V100-32").peaks == {"fp32": 15.7e12, "fp16": 125e12}
    assert load_device("V100-32").memory_bytes == 2 * load_device("V100-16").memory_bytes == 32 * 2**30
    assert load_device("A100-80").memory_bytes_per_s == 2039e9
    assert load_device("H100").flops("bf16") == 989.4e12


@pytest.mark.parametrize(("dtype", "expected"), [("fp32", 19.5e12), ("tf32", 156e12), ("bf16", 312e12)])
def test_a_device_has_a_peak_per_dtype(dtype: str, expected: float) -> None:
    assert load_device("A100-40").flops(dtype) == expected


def test_a_dtype_that_the_device_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(ClusterError, match="P100 has no bf16; choose from fp32, fp16"):
        load_device("P100").flops("bf16")
    with pytest.raises(ClusterError, match="toy has no fp16; choose from fp32"):
        DEVICE.flops("fp16")


def test_a_file_names_a_device_of_the_catalogue() -> None:
    assert device('device = "A100-80"') == load_device("A100-80")
    assert device('[device]\nlike = "A100-80"') == load_device("A100-80")


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("RTX 2080 Ti", "RTX-2080Ti"),
        ("rtx-2080ti", "RTX-2080Ti"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-80", "A100-80"),
        ("A100 80GB PCIe", "A100-80-PCIe"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
        ("NVIDIA A100-PCIE-40GB", "A100-40-PCIe"),
        ("Tesla V100-SXM2-16GB", "V100-16"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
    ],
)
def test_a_device_is_found_however_its_name_is_spelled(said: str, name: str) -> None:
    assert device(f'device = "{said}"') == load_device(said) == load_device(name)
    assert device(f'[device]\nlike = "{said}"').name == name


@pytest.mark.parametrize(
    ("said", "near"),
    [
        ("V100", "V100-16, V100-32"),
        ("RTX 4080", "RTX-"),
        ("NVIDIA", "P100, V100-16"),
        ("x", "GTX-1080Ti, RTX-2080Ti"),
        ("Tesla P100-PCIE-16GB", "P100, V100-16"),
    ],
)
def test_an_unknown_device_names_the_near_ones_first(said: str, near: str) -> None:
    with pytest.raises(ClusterError, match=f"unknown device '{said}'; choose from {near}") as caught:
        load_device(said)
    assert all(name in str(caught.value) for name in device_names())


def test_no_two_devices_of_the_catalogue_are_spelled_alike() -> None:
    assert all(load_device(name.replace("-", " ").lower()).name == name for name in device_names())


def test_devices_that_share_kernels_have_the_same_peaks_and_bandwidth() -> None:
    """What matrix units keep in a step depends on the bandwidth that feeds them."""
    found = [load_device(name) for name in device_names()]
    for one, other in combinations([device for device in found if device.kernels], 2):
        if one.kernels == other.kernels:
            assert (one.peaks, one.memory_bytes_per_s) == (other.peaks, other.memory_bytes_per_s)


def test_a_file_changes_some_figures_of_a_device_it_names() -> None:
    plain = load_device("A100-80")
    mine = device(
        '[device]\nlike = "A100-80"\nname = "mine"\nmemory_bytes = 64e9\n'
        "efficiency = { conv = 0.4 }\n[device.reduced_flops_per_s]\nbf16 = 300e12"
    )
    assert (mine.name, mine.memory_bytes) == ("mine", 64 * 10**9)
    assert mine.efficiency == {**plain.efficiency, "conv": 0.4}
    assert mine.peaks == {**plain.peaks, "bf16": 300e12}
    assert mine.memory_bytes_per_s == plain.memory_bytes_per_s


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            'device = "A100"',
            "mine.toml: device: unknown device 'A100'; choose from A100-40, A100-80, A100-40-PCIe, A100-80-PCIe, P100,",
        ),
        ('[device]\nlike = "A100"', "mine.toml: device: unknown device 'A100'"),
        ("[device]\nlike = 100", "mine.toml: device.like is 100; must be text"),
        ('[device]\nname = "A100-80"', "mine.toml: device.peak_flops_per_s is missing"),
        ('[device]\nlike = "P100"\nefficiency = 0.5', "mine.toml: device.efficiency is 0.5; must be a table"),
        (
            '[device]\nlike = "P100"\n[device.reduced_flops_per_s]\nint8 = 1e12',
            "mine.toml: device.reduced_flops_per_s: unknown field 'int8'; choose from tf32, bf16, fp16",
        ),
        (
            '[device]\nlike = "P100"\n[device.reduced_flops_per_s]\nfp16 = -1',
            "mine.toml: device.reduced_flops_per_s.fp16 is -1; must be a number above 0",
        ),
    ],
)
def test_a_wrong_device_is_named_with_its_file(text: str, complaint: str) -> None:
    with pytest.raises(ClusterError) as raised:
        device(text)
    assert complaint in str(raised.value)
