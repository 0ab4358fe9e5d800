"""How many bytes of gradients travel together is part of the plan."""

from dataclasses import replace

import pytest

import slicewise as sw
from slicewise.errors import RequestError
from slicewise.planning import plan
from slicewise.plans.plan import Plan
from slicewise.report.terminal import show_plan
from tests.builders import machine, small_cnn

SIZES = [1 << 20, 2 << 20, 4 << 20, 10 << 20, 25 << 20, 100 << 20]


def test_no_other_size_makes_the_returned_plan_faster_by_half_a_percent() -> None:
    made = sw.plan("alexnet", "p100-4x4", batch=512)
    assert made.training.bucket_bytes == 1 << 20  # the gradients of the linear layers set out as they come
    for size in SIZES:
        other = sw.predict(replace(made, training=replace(made.training, bucket_bytes=size)))
        assert made.predicted["iteration_s"] <= other.iteration_s * (1 + 1e-9) / (1 - 0.005)
    pinned = sw.plan("alexnet", "p100-4x4", batch=512, bucket="25MiB")
    assert pinned.training.bucket_bytes == 25 << 20
    assert made.predicted["iteration_s"] < 0.995 * pinned.predicted["iteration_s"]
    assert made.baselines["data"]["iteration_s"] < made.references["DDP"]["iteration_s"]  # DDP has its own size


def test_the_size_survives_the_file_and_older_files_have_ddps() -> None:
    made = plan(small_cnn(batch=8), machine(2), bucket="4MiB")
    document = made.to_dict()
    assert document["bucket_bytes"] == 4 << 20
    assert Plan.from_dict(document, "plan").training.bucket_bytes == 4 << 20
    del document["bucket_bytes"]
    assert Plan.from_dict(document, "plan").training.bucket_bytes == 25 << 20


def test_a_size_that_was_asked_for_is_not_called_faster(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(plan(small_cnn(batch=8), machine(2), bucket="4MiB"))
    assert "in buckets of 4 MiB, as asked." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("size", [0, -1, "0MiB"])
def test_a_size_of_nothing_is_refused(size: float | str) -> None:
    with pytest.raises(RequestError, match="bucket must look like 8GiB"):
        plan(small_cnn(batch=8), machine(2), bucket=size)
