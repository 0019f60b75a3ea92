"""pytest plugin: a session, the test driver as a fixture, and failures that show results side by side.

pytest loads it wherever lakestreams is installed, so nothing heavy is imported before a test asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.testing.driver import TopologyTestDriver
    from lakestreams.topology.topology import Topology


class MakeDriver(Protocol):
    """The fixture `topology_test_driver`: makes a driver; its arguments are those of TopologyTestDriver."""

    def __call__(self, topology: Topology, *, partitions: Mapping[str, int] | None = None) -> TopologyTestDriver:
        """A driver with the session of `lakestreams_spark`."""
        ...


@pytest.fixture(scope="session")
def lakestreams_spark() -> SparkSession:
    """The session of the drivers: the active one, else a local one for tiny inputs, which ends with the process.

    A project with a session of its own gives it to the drivers by a fixture of this name that returns it.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above

    from lakestreams.engine.runtime.tuning import SETTINGS  # noqa: PLC0415
    from lakestreams.local.session import spark_session  # noqa: PLC0415

    return SparkSession.getActiveSession() or spark_session("lakestreams-tests", quick=True, extra_conf=SETTINGS)


@pytest.fixture
def topology_test_driver(lakestreams_spark: SparkSession) -> MakeDriver:
    """A function that makes drivers, such as one with four partitions of a topic: `partitions={"PageViews": 4}`."""
    from lakestreams.testing.driver import TopologyTestDriver  # noqa: PLC0415 - see above

    def make(topology: Topology, *, partitions: Mapping[str, int] | None = None) -> TopologyTestDriver:
        return TopologyTestDriver(topology, lakestreams_spark, partitions=partitions)

    return make


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Shows two lists of results that differ side by side."""
    results = sys.modules.get("lakestreams.testing.results")  # not imported: then there is no Result
    if op != "==" or results is None or not isinstance(left, list) or not isinstance(right, list):
        return None
    if not (left or right) or not all(isinstance(one, results.Result) for one in (*left, *right)):
        return None
    from lakestreams.testing.difference import WHOLE, difference, rows_of  # noqa: PLC0415 - see above

    found = difference(WHOLE, rows_of(left, WHOLE), rows_of(right, WHOLE), ("left", "right"))
    return None if found is None else ["results differ", *found.splitlines()]
