"""Cluster files: read, and what can be read is planned for and written again."""

import tomllib
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import strategies as st

from slicewise.cluster.cluster import cluster_of, load_cluster, parse_cluster
from slicewise.cluster.writing import to_fields, to_toml
from slicewise.planning import baseline_plan
from tests.builders import small_cnn
from tests.fuzz.campaign import campaign, sizes
from tests.fuzz.mutations import Mutant, damaged, mutated

V1 = Path(__file__).parent.parent / "formats" / "v1"
TEXTS = [
    *((V1 / name).read_text() for name in ("cluster.toml", "cluster-fitted.toml")),
    resources.files("slicewise.cluster").joinpath("presets", "abci-v100.toml").read_text(),
]
GRAPH = small_cnn(batch=64)


@sizes(300, 8_000)
def test_a_mutated_cluster_is_refused_or_planned_for(inputs: int, begin: int) -> None:
    def used(mutant: Mutant) -> None:
        cluster = cluster_of(mutant.document, "mine.toml")
        assert cluster_of(to_fields(cluster), "again") == cluster
        parse_cluster(to_toml(cluster), "again.toml")
        pair = cluster.with_devices(2)
        assert baseline_plan(GRAPH, pair, "data", batch=64).predicted["iteration_s"] > 0

    campaign(inputs, begin, mutated([tomllib.loads(text) for text in TEXTS]), used)


@sizes(150, 3_000)
def test_a_damaged_cluster_file_is_refused_or_read(inputs: int, begin: int, tmp_path: Path) -> None:
    def read(content: bytes) -> None:
        path = tmp_path / "mine.toml"
        path.write_bytes(content)
        load_cluster(str(path))

    campaign(inputs, begin, damaged([text.encode() for text in TEXTS]), read)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, ".".join(["a"] * 50_000) + " = 1", "a = " + "{a=" * 5000])
def test_a_cluster_file_that_is_nested_without_end_is_refused(text: str) -> None:
    campaign(1, 0, st.just(Mutant(text, ["nested"])), lambda mutant: parse_cluster(mutant.document, "mine.toml"))
