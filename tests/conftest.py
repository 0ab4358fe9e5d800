"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "slicewise",
    deadline=None,
    derandomize=True,
    max_examples=80,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("slicewise")
