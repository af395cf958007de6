"""Settings of every test run."""

import os

import pytest
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with Spark, most of whose tests stay in one process; the rest fill the second core."""
    items.sort(key=lambda item: "tests/spark/" not in str(item.path))
