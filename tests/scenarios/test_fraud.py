"""Section 6 of the acceptance scenarios: a login that succeeds within 30 s after failed ones, never before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.testing import TopologyTestDriver, assert_results
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED, SUCCESSFUL = "FailedLogins", "SuccessfulLogins"
# topic, user, login, ms
LOGINS = (
    (SUCCESSFUL, "eve", "in-1", 5_000),  # before any failure
    (FAILED, "eve", "failed-1", 10_000),
    (SUCCESSFUL, "eve", "in-2", 10_000),  # in the same millisecond: both ends count
    (FAILED, "eve", "failed-2", 20_000),
    (SUCCESSFUL, "bob", "in-3", 25_000),  # somebody else
    (SUCCESSFUL, "eve", "in-4", 40_000),  # 30 s after the first, 20 s after the second
    (SUCCESSFUL, "eve", "in-5", 50_001),  # too late for both
)
SUSPICIOUS = (
    ("eve", {"failure": "failed-1", "success": "in-2"}, 10_000),
    ("eve", {"failure": "failed-1", "success": "in-4"}, 40_000),
    ("eve", {"failure": "failed-2", "success": "in-4"}, 40_000),
)


def fraud() -> Topology:
    builder = StreamsBuilder("fraud")
    failed = builder.stream(FAILED, key=Text("user"), value=Text("failure"))
    successful = builder.stream(SUCCESSFUL, key=Text("user"), value=Text("success"))
    failed.join(successful, before="0 seconds", after="30 seconds", name="suspicious").to_delta("silver.fraud")
    return builder.build()


def test_a_success_counts_only_after_a_failure(spark: SparkSession) -> None:
    with small(spark):
        driver = TopologyTestDriver(fraud(), spark)
        for login in LOGINS:
            driver.pipe(*login)
        assert_results(driver.read(), list(SUSPICIOUS))
        assert driver.refused() == []
