"""Settings that every test shares."""

import os
import tempfile

from hypothesis import HealthCheck, settings

from tests.campaigns import some

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
