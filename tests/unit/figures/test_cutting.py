"""What a drawing says of parts is what ranks hold."""

from math import prod

import numpy as np
import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.cluster.mesh import Mesh
from slicewise.cost.training import PLAIN, Training
from slicewise.figures.cuts import cut_figure
from slicewise.figures.cutting import Cut, cuts_of
from slicewise.figures.holding import held_bytes
from slicewise.graph.dims import Dim
from slicewise.graph.sources import load_graph
from slicewise.partition.legal import Space, legal_choices
from slicewise.planning import baseline_plan
from tests.unit.figures.drawn import tooltips, words

MESH = Mesh.of({"inter": 2, "intra": 2})


def _times_held(cut: Cut) -> set[int]:
    """How often each item of the tensor is held, counted item by item."""
    held = np.zeros(cut.shape, dtype=int)
    for box, ranks in cut.held.values():
        held[tuple(slice(start, stop) for start, stop in box)] += len(ranks)
    return set(held.ravel().tolist())


@pytest.mark.parametrize("name", ["features.3", "features.5", "classifier.2"])
def test_parts_tile_each_tensor_and_are_held_by_all_their_copies(name: str) -> None:
    layer = load_graph("lenet5").with_batch(8)[name]
    choices = legal_choices(layer, MESH, Space())
    for row in range(len(choices)):
        for cut in cuts_of(layer, choices[row], MESH):
            assert _times_held(cut) == {cut.copies * cut.summands}
            assert prod(cut.parts.values()) * cut.copies * cut.summands == MESH.devices


def test_a_spatial_cut_borrows_what_its_window_needs_and_a_reduction_leaves_summands() -> None:
    conv = load_graph("alexnet").with_batch(8)["features.3"]  # 5 x 5, padded by 2
    rows, *_ = cuts_of(conv, (Dim.H, Dim.H, None)[:2], MESH)
    assert rows.borrowed == {"H": 2}
    *_, y = cuts_of(conv, (Dim.C, Dim.C), MESH)
    assert (y.summands, y.copies) == (4, 1)
    drawn = cut_figure(conv, (Dim.C, Dim.H), MESH)
    assert "halo: 2 of H" in words(drawn)
    assert "partial sums on 2 devices" in words(drawn)
    assert any(title.startswith("halo: device 0 borrows up to 2 along height") for title in tooltips(drawn))


@pytest.mark.parametrize("strategy", ["data", "spatial", "owt", "data+filter"])
@pytest.mark.parametrize("training", [PLAIN, Training(dtype="bf16", optimizer="adam")])
def test_what_holds_memory_adds_up_to_the_predicted_peak(strategy: str, training: Training) -> None:
    cluster = load_cluster("dgx-a100").with_devices(8)
    made = baseline_plan(load_graph("alexnet"), cluster, strategy, batch=64, training=training)
    held = held_bytes(made)
    assert sum(held.values()) == pytest.approx(made.predicted.peak_memory_bytes)
    assert min(held.values()) >= 0
