"""Section 6 of the acceptance scenarios: a login that succeeds within 30 s after failed ones, never before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams import StreamsBuilder, Text
from lakestreams.testing import TopologyTestDriver, assert_results
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_success_counts_only_after_a_failure(spark: SparkSession) -> None:
    builder = StreamsBuilder("fraud")
    failed = builder.stream("FailedLogins", key=Text("user"), value=Text("failure"))
    successful = builder.stream("SuccessfulLogins", key=Text("user"), value=Text("success"))
    failed.join(successful, before="0 seconds", after="30 seconds", name="suspicious").to_delta("silver.fraud")
    with small(spark):
        driver = TopologyTestDriver(builder.build(), spark)
        driver.pipe("SuccessfulLogins", "eve", "in-1", 5_000)  # before any failure
        driver.pipe("FailedLogins", "eve", "failed-1", 10_000)
        driver.pipe("SuccessfulLogins", "eve", "in-2", 10_000)  # in the same millisecond: both ends count
        driver.pipe("FailedLogins", "eve", "failed-2", 20_000)
        driver.pipe("SuccessfulLogins", "bob", "in-3", 25_000)  # somebody else
        driver.pipe("SuccessfulLogins", "eve", "in-4", 40_000)  # 30 s after the first, 20 s after the second
        driver.pipe("SuccessfulLogins", "eve", "in-5", 50_001)  # too late for both
        assert_results(
            driver.read(),
            [
                ("eve", {"failure": "failed-1", "success": "in-2"}, 10_000),
                ("eve", {"failure": "failed-1", "success": "in-4"}, 40_000),
                ("eve", {"failure": "failed-2", "success": "in-4"}, 40_000),
            ],
        )
        assert driver.refused() == []
