from slicewise.cluster.mesh import Mesh
from slicewise.graph.dims import Dim
from slicewise.graph.layer_graph import LayerGraph
from slicewise.partition.buckets import BUCKET_BYTES, Bucket, buckets
from tests.builders import small_cnn

PAIR = Mesh.of({"all": 2})


def by_sample(graph: LayerGraph) -> dict[str, tuple[Dim | None, ...]]:
    return {layer.name: (Dim.N,) for layer in graph}


def test_small_gradients_travel_together_last_layer_first() -> None:
    graph = small_cnn()
    assert buckets(graph, by_sample(graph), PAIR) == [
        Bucket(
            axes=(0,),
            weights=("linear0.bias", "linear0.weight", "conv0.bias", "conv0.weight"),
            layers=("linear0", "conv0"),
            items=10 + 10 * 128 + 8 + 8 * 27,
        )
    ]


def test_a_full_bucket_closes_and_a_large_weight_travels_alone() -> None:
    graph = small_cnn()
    made = buckets(graph, by_sample(graph), PAIR, capacity=300)
    assert [bucket.weights for bucket in made] == [
        ("linear0.bias",),
        ("linear0.weight",),
        ("conv0.bias", "conv0.weight"),
    ]


def test_weights_that_are_not_summed_are_in_no_bucket() -> None:
    graph = small_cnn()
    chosen = {**by_sample(graph), "linear0": (Dim.F,)}
    assert [bucket.weights for bucket in buckets(graph, chosen, PAIR)] == [("conv0.bias", "conv0.weight")]


def test_buckets_are_as_large_as_those_of_ddp() -> None:
    assert BUCKET_BYTES == 25 * 2**20
