"""What is timed of which layer."""

from statistics import median

import pytest

from slicewise.cluster.lines import BACKWARD, MOVED, MULTIPLIED
from slicewise.running import probes
from slicewise.running.probes import _Passes, _points


def test_products_have_two_backward_passes_but_for_layers_that_read_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "agreed_s", median)
    once = _Passes(forward_s=1.0, backward_s=3.0, factor_s=1.0, output=4)
    for probe in probes.probes():
        taken = {point.direction for point in _points(probe, [once], 0.0)}
        if probe.kind in MOVED:
            assert taken == {"forward", "backward_input"}
            continue
        reads_samples = probe.kind in ("window", "strided") and probe.inputs[0][1] == 3
        assert taken == {"forward", *BACKWARD} - ({"backward_input"} if reads_samples else set()), probe.kind
    assert {probe.kind for probe in probes.probes()} == {*MULTIPLIED, *MOVED}
