"""What is saved comes back the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from slicewise.cluster.mesh import Mesh
from slicewise.cost.prediction import Prediction
from slicewise.cost.training import BATCHNORMS, OPTIMIZER_STATE, Training
from slicewise.dtype import DTYPES
from slicewise.graph.layer_graph import LayerGraph
from slicewise.plans.plan import Plan
from tests.campaigns import examples
from tests.property.strategies import graphs, meshes, slicings


def trainings() -> st.SearchStrategy[Training]:
    return st.builds(
        Training,
        dtype=st.sampled_from(sorted(DTYPES)),
        optimizer=st.sampled_from(sorted(OPTIMIZER_STATE)),
        recompute=st.booleans(),
        batchnorm=st.sampled_from(BATCHNORMS),
    )


@given(graphs())
def test_a_graph_survives_json(graph: LayerGraph) -> None:
    assert LayerGraph.from_json(graph.to_json()) == graph


@given(graphs(), st.integers(1, 64))
def test_another_batch_changes_the_batch_and_nothing_else(graph: LayerGraph, batch: int) -> None:
    resized = graph.with_batch(batch)
    assert resized.batch == batch
    for layer, before in zip(resized, graph, strict=True):
        assert layer.shape == (batch, *before.shape[1:])
        assert layer.input_shapes == tuple((batch, *shape[1:]) for shape in before.input_shapes)
    assert resized.with_batch(graph.batch) == graph


@examples(40)
@given(graphs(), meshes(), trainings(), st.data())
def test_a_plan_survives_its_file(graph: LayerGraph, mesh: Mesh, training: Training, data: st.DataObject) -> None:
    plan = Plan(
        model=graph.name,
        cluster="toy",
        devices=mesh.devices,
        batch=graph.batch,
        training=training,
        cost_model="optcnn",
        input_shape=graph.inputs[0].shape[1:],
        axes={axis.name: axis.size for axis in mesh.axes},
        slicings=data.draw(slicings(graph, mesh)),
        kinds={layer.name: layer.kind.value for layer in graph},
        costs={layer.name: {"total_s": 0.5} for layer in graph},
        predicted=Prediction(iteration_s=1.5),
        baselines={"data": {"feasible": False, "reason": "too few samples"}},
        certificate={"optimal": True},
    )
    loaded = Plan.from_dict(json.loads(json.dumps(plan.to_dict())), "plan.json")
    assert loaded == plan
    loaded.check(graph, mesh)
