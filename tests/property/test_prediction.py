"""A prediction survives its file, and its terms add up to what it says."""

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.cluster import Cluster
from slicewise.cost.prediction import FIGURES, FIGURES_S, Prediction
from slicewise.cost.registry import MODELS
from slicewise.graph.layer_graph import LayerGraph
from slicewise.simulate.predicting import predicted_step
from slicewise.terms import LAYER_TERMS, MOVING, TERMS
from tests.campaigns import examples
from tests.property.strategies import clusters, graphs, slicings

SECONDS = st.floats(0, 1e9)
BYTES = st.integers(0, 2**60)


@st.composite
def predictions(draw: st.DrawFn) -> Prediction:
    """With any of the figures unknown."""
    figures: dict[str, Any] = {name: draw(st.just(inf) | SECONDS) for name in (*FIGURES_S, "samples_per_s")}
    figures |= {name: draw(st.just(inf) | BYTES) for name in ("bytes_moved", "peak_memory_bytes")}
    return Prediction(
        **figures,
        seconds=draw(st.dictionaries(st.sampled_from([term.name for term in TERMS]), SECONDS)),
        sent_bytes=draw(st.dictionaries(st.sampled_from(MOVING), BYTES)),
        origin=draw(st.sampled_from(["", "preset", "fitted"])),
    )


@given(predictions())
def test_a_prediction_survives_its_file(prediction: Prediction) -> None:
    assert Prediction.from_dict(json.loads(json.dumps(prediction.to_dict()))) == prediction


@given(predictions())
def test_as_a_mapping_it_has_the_names_of_its_file(prediction: Prediction) -> None:
    assert dict(prediction) == {**prediction} == prediction.to_dict()
    assert len(prediction) == len(list(prediction))
    for name in (*FIGURES_S, *FIGURES):
        assert prediction.get(name, inf) == getattr(prediction, name)


@given(
    st.dictionaries(
        st.text() | st.sampled_from([*FIGURES_S, "halo_s", "origin"]), st.text() | st.none() | st.booleans()
    )
)
def test_notes_that_are_no_figures_are_not_known(notes: dict[str, Any]) -> None:
    found = Prediction.from_dict(notes)
    assert found == Prediction(origin=found.origin)


@examples(40)
@given(graphs(), clusters(), st.sampled_from(list(MODELS)), st.data())
def test_the_terms_of_layers_add_up_to_the_additive_step(
    graph: LayerGraph, cluster: Cluster, cost: str, data: st.DataObject
) -> None:
    model = MODELS[cost](graph, cluster)
    found = predicted_step(model, data.draw(slicings(graph, cluster.mesh)))
    assert sum(found.seconds[term.name] for term in LAYER_TERMS) == pytest.approx(found.additive_s, rel=1e-9)
    assert sum(found.sent_bytes.values()) == found.bytes_moved
    assert found.low_s <= found.iteration_s <= found.high_s
    assert found.samples_per_s == pytest.approx(graph.batch / found.iteration_s)
    # gradients and layers that share links slow each other down: a step is never shorter than what it waits for
    assert sum(found.waited.values()) <= found.simulated_s * (1 + 1e-9)
    if not model.overlaps:
        assert found.iteration_s == found.simulated_s == found.additive_s
