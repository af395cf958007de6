"""Settings of every test run."""

import os

from hypothesis import HealthCheck, settings

# Compiling a kernel for the first time is slow and says nothing about a test. Seeds are printed
# with a failure; on a CI machine the examples are always the same.
settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")
