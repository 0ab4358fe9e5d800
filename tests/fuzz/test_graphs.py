"""Graphs: read, and what can be read is planned, written and read again."""

import json
from pathlib import Path

import pytest

from slicewise.errors import GraphError
from slicewise.graph.chunks import with_local_statistics
from slicewise.graph.layer_graph import LayerGraph
from slicewise.planning import plan
from tests.builders import machine, residual_net, small_cnn
from tests.fuzz.campaign import campaign, sizes
from tests.fuzz.mutations import Mutant, as_json, damaged, mutated

V1 = Path(__file__).parent.parent / "formats" / "v1"
GRAPHS = (small_cnn(), residual_net(), with_local_statistics(residual_net(), 2))
DOCUMENTS = [json.loads(graph.to_json()) for graph in GRAPHS]
CAPTURED = [json.loads((V1 / name).read_text()) for name in ("graph.json", "graph-loss.json")]
PAIR, FOUR = machine(2), machine(2, 2)


def planned(mutant: Mutant) -> None:
    graph = LayerGraph.from_json(json.dumps(mutant.document), "graph.json")
    assert LayerGraph.from_json(graph.to_json()) == graph
    made = plan(graph, FOUR if graph.batch % 4 == 0 else PAIR, time_limit=1.0)
    assert made.predicted["iteration_s"] > 0


@sizes(600, 24_000, parts=3)
def test_a_mutated_graph_is_refused_or_planned(inputs: int, begin: int) -> None:
    campaign(inputs, begin, mutated(DOCUMENTS), planned)


@sizes(80, 10_000)
def test_a_mutated_capture_is_refused_or_planned(inputs: int, begin: int) -> None:
    campaign(inputs, begin, mutated(CAPTURED), planned)


@sizes(150, 4_000)
def test_a_damaged_graph_file_is_refused_or_read(inputs: int, begin: int, tmp_path: Path) -> None:
    def read(content: bytes) -> None:
        path = tmp_path / "graph.json"
        path.write_bytes(content)
        LayerGraph.load(path)

    campaign(inputs, begin, damaged([as_json(document) for document in (*DOCUMENTS, *CAPTURED)]), read)


def test_the_campaign_would_notice_a_graph_that_is_read_and_cannot_be_planned() -> None:
    broken = json.loads(small_cnn().to_json())
    broken["layers"][1]["shape"][1] = -4
    with pytest.raises(GraphError, match="-4"):
        planned(Mutant(broken, []))
    planned(Mutant(DOCUMENTS[0], []))
