"""The plugin's fixtures on the session of all tests, set up for tiny inputs."""

from __future__ import annotations

import pytest

from lakestreams.testing.plugin import topology_test_driver
from lakestreams.testing.small import small

__all__ = ["topology_test_driver"]


@pytest.fixture(scope="module")
def lakestreams_spark(spark):
    with small(spark):
        yield spark
