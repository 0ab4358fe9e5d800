"""Local batch norms: which samples share statistics."""

from dataclasses import replace

import pytest

from slicewise.errors import PlanError
from slicewise.graph.chunks import cut, with_exact_statistics, with_local_statistics
from slicewise.graph.dims import Dim
from slicewise.graph.kind import Kind
from slicewise.graph.layer import Layer
from slicewise.graph.layer_graph import LayerGraph
from tests.builders import Net


def _norm(graph: LayerGraph) -> Layer:
    return next(layer for layer in graph if layer.kind is Kind.NORM)


def _graph(batch: int, *space: int, instance: bool = False) -> LayerGraph:
    net = Net()
    net.output(net.norm(net.input(batch, 3, *space), instance=instance))
    return net.graph


@pytest.mark.parametrize(
    ("batch", "ranks", "chunks"),
    [(32, 4, (8, 8, 8, 8)), (29, 4, (8, 8, 8, 5)), (5, 4, (2, 2, 1)), (7, 1, (7,))],
)
def test_chunks_are_those_of_torch_and_so_of_ddp(batch: int, ranks: int, chunks: tuple[int, ...]) -> None:
    norm = _norm(with_local_statistics(_graph(batch, 6, 6), ranks))
    assert cut(batch, norm.chunk or 0) == chunks
    assert norm.statistics_shape == (len(chunks), 3, 1, 1)


def test_statistics_span_the_space_of_a_chunk() -> None:
    assert _norm(with_local_statistics(_graph(8, 6, 6), 2)).statistics == {Dim.H, Dim.W}
    assert _norm(with_local_statistics(_graph(8), 2)).statistics == frozenset()


def test_chunks_follow_the_batch_and_the_ranks() -> None:
    graph = with_local_statistics(_graph(32, 6), 4)
    assert _norm(graph.with_batch(12)).chunk == 3
    assert _norm(with_local_statistics(graph, 8)).chunk == 4


def test_exact_statistics_are_found_again() -> None:
    for space in ((), (6,), (6, 5, 4)):
        graph = _graph(8, *space)
        assert with_exact_statistics(with_local_statistics(graph, 4)) == graph


def test_instance_norms_are_not_concerned() -> None:
    graph = _graph(8, 6, 6, instance=True)
    assert with_local_statistics(graph, 16) == graph


def test_fewer_samples_than_ranks_are_refused() -> None:
    with pytest.raises(PlanError, match="3 samples do not reach 4 ranks; use batchnorm exact, or a batch of 4 or mo"):
        with_local_statistics(_graph(3, 6, 6), 4)


def test_a_chunk_of_one_value_is_refused_as_ddp_refuses_it() -> None:
    with pytest.raises(PlanError, match=r"norm0: .* 13 samples on 4 ranks .* use batchnorm exact, or a batch of 8"):
        with_local_statistics(_graph(13, 1, 1), 4)
    assert _norm(with_local_statistics(_graph(14, 1, 1), 4)).chunk == 4
    assert _norm(with_local_statistics(_graph(1), 1)).chunk == 1  # one rank is one device


def test_a_norm_in_eval_mode_has_no_statistics_and_takes_any_batch() -> None:
    graph = _graph(3, 6, 6)
    resting = replace(_norm(graph), options={**_norm(graph).options, "arguments": {"training": False}})
    frozen = replace(graph, layers=tuple(resting if layer.kind is Kind.NORM else layer for layer in graph))
    for made in (frozen, with_local_statistics(frozen, 4)):
        assert (_norm(made).statistics, _norm(made).chunk) == (frozenset(), None)
    assert with_exact_statistics(with_local_statistics(frozen, 4)) == frozen
