"""The first rows of a merged table are appended; a repetition, and what comes later, is merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics

from lakestreams import StreamsBuilder, Text
from lakestreams.engine.publish import sinks
from lakestreams.engine.runtime import failpoints
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

ROWS = "silver.rows"


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def test_an_append_that_a_crash_repeats_is_merged_and_changes_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, _ = fresh_topics(broker, 1)
    builder = StreamsBuilder("first_load")
    builder.table(users, key=Text("user"), value=Text("region"), name="users").to_delta(ROWS, mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    monkeypatch.setattr(sinks, "MANY", 2)

    def rows() -> list[tuple[str, str, int]]:
        found = bench.silver(ROWS).select("user", "region", "_lineage.cycle").orderBy("user").collect()
        return [tuple(row) for row in found]

    def writes() -> list[str]:
        history = spark.sql(f"DESCRIBE HISTORY {bench.lake.output(ROWS).reference}").orderBy("version").collect()
        return [row["operation"] for row in history if row["operation"] in ("WRITE", "MERGE")]

    broker.produce(
        users, [("ann", "eu", ZERO), ("ben", "us", ZERO + 1), ("ann", "fr", ZERO + 2), ("gone", None, ZERO + 3)]
    )
    monkeypatch.setenv(failpoints.VARIABLE, f"publish.after/{ROWS}:1:raise")
    with pytest.raises(failpoints.FailpointReached):
        bench.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    first = [("ann", "fr", 1), ("ben", "us", 1)]
    assert (rows(), writes()) == (first, ["WRITE"])

    broker.produce(users, [("ann", "it", ZERO + 4), ("ben", None, ZERO + 5), ("cid", "us", ZERO + 6)])
    bench.run()  # the first cycle once more, whose merge changes nothing and so is no commit; then the second one
    assert (rows(), writes()) == ([("ann", "it", 2), ("cid", "us", 2)], ["WRITE", "MERGE"])
    assert not [one for one in verify(spark, bench.lake, bench.topology).findings if one.differs]
