"""Uploads are data, never code."""

import gzip
import json

import pytest

from slicewise.cluster.cluster import Cluster, description
from slicewise.errors import RequestError
from slicewise.graph.layer_graph import LayerGraph
from slicewise.graph.sources import load_graph
from slicewise.planning import plan
from slicewise.plans.plan import Plan
from slicewise.studio.answers import Answers
from slicewise.studio.uploads import LARGEST_BYTES, MOST_FILES, Uploads, read_upload


def test_each_kind_is_told_by_what_is_in_it() -> None:
    graph = load_graph("lenet5")
    made = plan(graph, "p100-4x4", devices=2, batch=8, strategy="data")
    toml, _ = description("p100-4x4")
    trace = json.dumps({"traceEvents": [{"ph": "X", "name": "step 0", "ts": 0.0, "dur": 5.0, "pid": 0, "tid": 0}]})
    assert isinstance(read_upload("graph.json", graph.to_json().encode())[1], LayerGraph)
    assert isinstance(read_upload("plan.json", made.to_json().encode())[1], Plan)
    assert isinstance(read_upload("mine.toml", toml.encode())[1], Cluster)
    assert read_upload("trace.json", trace.encode())[0] == "trace"
    assert read_upload("trace.json.gz", gzip.compress(trace.encode()))[0] == "trace"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("model.pt2", b"PK\x03\x04", "upload a graph"),
        ("model.py", b"import os", "upload a graph"),
        ("graph.json", b"\xff\xfe\x00", "not text"),
        ("graph.json", b"{", "not JSON"),
        ("graph.json", b"[" * 100_000, "nested too deeply|not JSON"),
        ("graph.json", b"{}", "neither a graph"),
        ("graph.json", b'{"layers": []}', "schema_version"),
        ("plan.json", b'{"mesh": {}, "layers": []}', "schema_version"),
        ("trace.json", b'{"traceEvents": []}', "without steps"),
        ("trace.json.gz", gzip.compress(b"[" + bytes(LARGEST_BYTES)), "larger than 32 MiB"),
        ("trace.json.gz", gzip.compress(b"[]", mtime=0)[:-4], "damaged"),
        ("cluster.toml", b"name = ", "not TOML"),
        ("cluster.toml", b"name = 'x'\n" * 100_000, "at most"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(name: str, content: bytes, told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        read_upload(name, content)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(name)


def test_a_large_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(RequestError, match="at most"):
        read_upload("graph.json", bytes(LARGEST_BYTES + 1))


def test_the_oldest_files_go_when_there_are_too_many() -> None:
    uploads = Uploads()
    text = load_graph("lenet5").to_json().encode()
    names = [uploads.add("graph.json", text)["name"] for _ in range(MOST_FILES + 1)]
    assert uploads.graph(names[-1]) is not None
    with pytest.raises(RequestError, match="upload it again"):
        uploads.graph(names[0])


def test_a_name_is_never_a_path() -> None:
    added = Answers().upload("../../etc/graph.json", load_graph("lenet5").to_json().encode())
    assert added["label"] == "graph.json"


def test_an_uploaded_plan_opens_as_it_is() -> None:
    made = plan("lenet5", "p100-4x4", devices=4, batch=64, strategy="filter")
    added = Answers().upload("plan.json", made.to_json().encode())
    assert added["plan"]["predicted"] == made.predicted.to_dict()
    assert added["plan"]["setting"]["devices"] == 4
