"""Settings that every test shares."""

import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from tests.campaigns import LONG, some

os.environ.pop("COLUMNS", None)  # workers of pytest-xdist have it; tests that are about widths set their own
os.environ["SLICEWISE_CACHE"] = tempfile.mkdtemp(prefix="slicewise-tests-")  # this machine's calibration plays no part

settings.register_profile(
    "slicewise",
    deadline=None,
    derandomize=True,
    max_examples=some(80),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("slicewise")

# by file, in `make test`
LONGEST = (
    "distributed/test_every_slicing", "distributed/test_run", "distributed/test_third_party",
    "distributed/test_training_scripts", "distributed/test_local_norms", "distributed/test_pipeline",
    "distributed/test_random_networks", "distributed/test_checkpoints", "distributed/test_bytes",
    "distributed/test_whole_zoo", "distributed/test_accuracy", "distributed/test_modes", "distributed/test_windows",
    "distributed/test_training", "distributed/test_networks", "distributed/test_watchdog",
    "validation/test_commands", "validation/test_run_command", "validation/test_third_party",
    "browser/test_journeys", "browser/test_access", "browser/test_report", "unit/cost/test_recost",
    "unit/benchmarks/test_optcnn", "unit/benchmarks/test_runs", "unit/graph/test_capture", "unit/graph/test_zoo",
    "fuzz/test_graphs", "fuzz/test_measurements", "fuzz/test_options", "unit/plans/test_pipeline_plans",
    "validation/test_faults", "validation/test_trust", "validation/test_doctor_command",
    "validation/test_pipeline_command", "validation/test_site", "validation/test_widths",
    "validation/test_without_torch",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first: workers that take file by file then end together. Campaigns only where they are asked
    for (`make test-long`)."""
    campaigns = [] if LONG else [item for item in items if item.get_closest_marker("long")]
    if campaigns:
        config.hook.pytest_deselected(items=campaigns)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    order = {f"tests/{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))
