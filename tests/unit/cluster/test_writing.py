import tomllib
from dataclasses import replace

import pytest

from slicewise.cluster.cluster import Link, load_cluster, parse_cluster, preset_names
from slicewise.cluster.tuning import NEUTRAL, Tuning
from slicewise.cluster.writing import to_toml
from slicewise.errors import ClusterError

TUNED = Tuning(
    fixed_compute={"filter": 0.25},
    communication={"data+filter": 1.5, "owt": 0.5},
    flat_rings=True,
    layer_messages=True,
    split_linear=False,
    staged_bytes_per_s=1.5e9,
    halo_latency_s=3e-3,
    overlap=0.5,
    memory_reuse=0.75,
    margin=0.125,
    networks=("alexnet", "vgg16"),
    strategies=("serial", "data"),
    dtypes=("fp32", "bf16"),
    most_devices=64,
)


@pytest.mark.parametrize("name", preset_names())
def test_a_written_preset_reads_as_it_was(name: str) -> None:
    cluster = load_cluster(name)
    assert parse_cluster(to_toml(cluster), "written") == cluster


def test_tuning_and_collectives_survive_the_file() -> None:
    plain = load_cluster("dgx-a100")
    tier = replace(plain.tiers[1], collectives={"gradient": Link(2e-6, 1e11), "all_gather": Link(1e-6, 2e11)})
    cluster = replace(plain, tiers=(plain.tiers[0], tier), tuning=TUNED, origin="fitted", name='a "name"')
    assert parse_cluster(to_toml(cluster, ["a remark", ""]), "written") == cluster


def test_figures_are_written_short_and_every_tier_as_a_table_of_its_own() -> None:
    cluster = load_cluster("abci-v100")
    device = replace(cluster.device, kernel_s=4.0312345e-5, memory_bytes_per_s=9.12345e11)
    lines = to_toml(replace(cluster, device=device)).splitlines()
    assert "kernel_s = 4.031e-05" in lines
    assert "memory_bytes_per_s = 9.123e+11" in lines
    assert "peak_flops_per_s = 1.57e+13" in lines
    assert lines.count("[[tiers]]") == len(cluster.tiers)


def test_what_is_written_says_the_fields_to_four_digits() -> None:
    plain = load_cluster("dgx-a100")
    cluster = replace(plain, tuning=replace(TUNED, staged_bytes_per_s=1.23456e9), overlap=0.123456, cores=64)
    assert tomllib.loads(to_toml(cluster))["schema_version"] == 1
    again = parse_cluster(to_toml(cluster), "written")
    assert again == replace(cluster, tuning=replace(TUNED, staged_bytes_per_s=1.235e9), overlap=0.1235)
    assert to_toml(again) == to_toml(cluster)


def test_neutral_tuning_is_not_written() -> None:
    assert load_cluster("dgx-a100").tuning == NEUTRAL
    assert "tuning" not in to_toml(load_cluster("dgx-a100"))


def test_gradients_go_at_the_pace_of_an_all_reduce_unless_they_have_their_own() -> None:
    tier = load_cluster("dgx-a100").tiers[0]
    assert tier.link("gradient") == Link(tier.latency_s, tier.bytes_per_s)
    reducing = replace(tier, collectives={"all_reduce": Link(1e-6, 1e9)})
    assert reducing.link("gradient") == Link(1e-6, 1e9)
    bucketed = replace(tier, collectives={"all_reduce": Link(1e-6, 1e9), "bucket": Link(3e-6, 3e9)})
    assert bucketed.link("gradient") == bucketed.link("bucket") == Link(3e-6, 3e9)
    own = replace(tier, collectives={"bucket": Link(1e-6, 1e9), "gradient": Link(2e-6, 2e9)})
    assert own.link("gradient") == Link(2e-6, 2e9)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("flat_rings = 1", "flat_rings is 1; must be true or false"),
        ("staged_bytes_per_s = 0", "staged_bytes_per_s is 0; must be a number above 0"),
        ("overlap = 2", "overlap is 2; must be a number from 0 to 1"),
        ("flat = true", "unknown field 'flat'; choose from fixed_compute, compute, communication, flat_rings"),
        ("fixed_compute = { pipeline = 0.5 }", "unknown field 'pipeline'; choose from filter, channel, spatial"),
        ("communication = { magic = 2 }", "unknown field 'magic'"),
    ],
)
def test_wrong_tuning_is_refused_by_name(line: str, complaint: str) -> None:
    text = to_toml(load_cluster("dgx-a100")) + f"\n[tuning]\n{line}\n"
    with pytest.raises(ClusterError) as caught:
        parse_cluster(text, "mine.toml")
    assert str(caught.value).startswith("mine.toml: tuning")
    assert complaint in str(caught.value)


def test_names_beyond_ascii_survive_the_file() -> None:
    cluster = replace(load_cluster("dgx-a100"), name="Zürich 😀")
    assert parse_cluster(to_toml(cluster), "written") == cluster
