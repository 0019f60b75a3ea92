"""A merged stream: an amended result takes the place of the one without a row, once, whatever fails and is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics

from lakestreams import StreamsBuilder, Text
from lakestreams.engine.runtime import failpoints
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

OUTPUT = "silver.views"


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def test_an_amended_result_replaces_the_one_without_a_row(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("amended")
    stream = builder.stream(views, key=Text("user"), value=Text("page"), name="views")
    table = builder.table(users, key=Text("user"), value=Text("region"), name="users")
    joined = stream.left_join(table, amend="100 ms", name="joined")
    joined.to_delta("silver.every_result")
    joined.to_delta(OUTPUT, mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())

    def rows() -> list[tuple[str, str | None, str, int]]:
        found = bench.silver(OUTPUT).select("page", "region", "_lineage.kind", "_lineage.cycle").orderBy("page")
        return [tuple(row) for row in found.collect()]

    def differing() -> dict[str, int]:
        found = verify(spark, bench.lake, bench.topology)
        assert {OUTPUT, "second opinion on joined"} <= {one.what for one in found.findings if one.compared}
        return {one.what: one.differs for one in found.findings if one.differs}

    # two views of one key and one time are two records; one is amended in its own cycle
    broker.produce(users, [("known", "EU", ZERO), ("soon", "FR", ZERO + 40)])
    broker.produce(
        views,
        [("known", "/1", ZERO + 10), ("new", "/2", ZERO + 20), ("new", "/2b", ZERO + 20), ("never", "/3", ZERO + 30),
         ("soon", "/4", ZERO + 35), ("never", "/5", ZERO + 45)],
    )  # fmt: skip
    bench.run(snapshot_every=1)
    first = rows()
    assert [row[:3] for row in first] == [
        ("/1", "EU", "matched"),
        ("/2", None, "unmatched"),
        ("/2b", None, "unmatched"),
        ("/3", None, "unmatched"),
        ("/4", "FR", "amended"),
        ("/5", None, "unmatched"),
    ]

    broker.produce(users, [("new", "US", ZERO + 90)])
    monkeypatch.setenv(failpoints.VARIABLE, f"publish.after/{OUTPUT}:1:raise")
    with pytest.raises(failpoints.FailpointReached):
        bench.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    written = rows()
    bench.run()  # the cycle is executed again: it changes nothing
    assert rows() == written
    assert [row[:3] for row in written] == [
        ("/1", "EU", "matched"),
        ("/2", "US", "amended"),
        ("/2b", "US", "amended"),
        ("/3", None, "unmatched"),
        ("/4", "FR", "amended"),
        ("/5", None, "unmatched"),
    ]
    assert [new == old for new, old in zip(written, first, strict=True)] == [True, False, False, True, True, True]
    assert bench.silver("silver.every_result").count() == 9, "each result, amended or not, where it is appended"

    # of all that is compared these two differ, and nothing else: one verification shows both
    spark.sql(f"update {bench.lake.output(OUTPUT).reference} set region = 'XX' where page = '/2b'")
    spark.sql(f"delete from {bench.lake.output(OUTPUT).reference} where page = '/3'")
    assert differing() == {OUTPUT: 2}
