from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.training import Training
from slicewise.explaining.flips import Changed
from tests.builders import machine, residual_net


def test_batches_without_a_sample_per_rank_are_not_tried_where_norms_are_local() -> None:
    def tried(training: Training) -> list[list[int]]:
        model = AnalyticModel(training.normalised(residual_net(8), 4), machine(4), training)
        return [[other.graph.batch for other in side] for side in Changed(model).batches]

    assert tried(Training()) == [[4, 2, 1], [16, 32, 64]]
    assert tried(Training(batchnorm="local")) == [[4], [16, 32, 64]]
