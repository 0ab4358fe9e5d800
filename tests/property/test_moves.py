"""Layout changes that are remembered, against the same priced anew."""

from unittest.mock import patch

import numpy as np
import pytest

from slicewise.cost import moves
from slicewise.cost.analytic import AnalyticModel
from slicewise.cost.moves import Moves
from slicewise.cost.transitions import transition_seconds
from slicewise.partition.choices import input_port, output_port
from slicewise.partition.legal import Space, legal_choices
from tests.builders import machine, small_cnn

ITEM_BYTES = 4


@pytest.mark.parametrize("most", [1 << 10, 40, 1], ids=["room for all", "room for some", "room for none"])
def test_whatever_was_asked_before_a_change_takes_what_it_takes_alone(most: int) -> None:
    model = AnalyticModel(small_cnn(batch=8), machine(2, 2, 2))
    graph, mesh, network = model.graph, model.cluster.mesh, model.network
    remembered = Moves(network, ITEM_BYTES)
    generator = np.random.default_rng(0)
    with patch.object(moves, "_MOST_LAYOUTS", most):
        for _ in range(3):
            for before, after, slot in graph.edges:
                producer, consumer = graph.layers[before], graph.layers[after]
                source, target = (legal_choices(layer, mesh, Space()) for layer in (producer, consumer))
                source, target = (
                    rows.rows(np.sort(generator.choice(len(rows), size=(len(rows) + 1) // 2, replace=False)))
                    for rows in (source, target)
                )
                given, wanted = output_port(producer, source), input_port(consumer, slot, target)
                for one, other in ((given.value, wanted.value), (wanted.gradient, given.gradient)):
                    alone = transition_seconds(producer.shape, one, other, network, ITEM_BYTES)
                    np.testing.assert_array_equal(remembered.seconds(producer.shape, one, other), alone)
