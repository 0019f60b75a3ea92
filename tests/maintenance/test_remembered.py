"""What a step refuses later than its cycle goes to quarantine with its bytes, also where bronze was trimmed in between."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import SILVER
from tests.engine.test_cuts import STREAM, TABLE, USERS, VIEWS, Log, Record, Rig
from tests.maintenance.test_maintain import ANY_TIME, PRICES, laid, trimming
from tests.sampling import sampled

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger.plans import History
from lakestreams.maintenance.trimming import Trimming, up_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_input")]


def unmatched() -> Topology:
    """What nobody has met comes out when its window has closed: too late for one count, and without a key for the other."""
    builder = StreamsBuilder("unmatched")
    left, right = (
        builder.stream(topic, key=Text("user"), value=Text(name))
        for topic, name in ((VIEWS, "page"), (USERS, "region"))
    )
    joined = left.left_join(right, within="10 ms", grace="50 ms")
    joined.group_by_key().windowed_by("5 ms").count(name="late").to_delta("silver.late", mode="merge")
    keyed = joined.select_key(lambda row: {"region": row.region})
    keyed.group_by_key().count(name="keyless").to_delta("silver.keyless", mode="merge")
    return builder.build()


def deleted() -> Topology:
    """A deletion waits in a buffer, and has no value for the join behind it."""
    builder = StreamsBuilder("deleted")
    table = builder.table(VIEWS, key=Text("user"), value=Text("page"))
    users = builder.table(USERS, key=Text("user"), value=Text("region"))
    table.suppress("20 ms").to_stream().join(users, name="valueless").to_delta(SILVER)
    return builder.build()


def ruled() -> Topology:
    """Nothing waits, but a rule drops a row that an old record is made into once more."""
    builder = StreamsBuilder("ruled")
    left = builder.stream(VIEWS, key=Text("user"), value=Text("page")).to_table()
    named = left.join(builder.table(USERS, key=Text("user"), value=Text("region")), name="named")
    named.to_delta(SILVER, mode="changes").expect_or_drop("good", "region != 'bad'")
    return builder.build()


HISTORIES = {
    "unmatched": (
        unmatched,
        [
            Record(VIEWS, 0, 0, 5, "a", "/1", STREAM),
            Record(VIEWS, 0, 1, 30, "b", "/2", STREAM),
            Record(USERS, 0, 0, 30, "b", "EU", STREAM),
        ],
        [Record(VIEWS, 0, 2, 100, "b", "/3", STREAM), Record(USERS, 0, 1, 100, "b", "US", STREAM)],
        {("LATE", "late", VIEWS, 0, "/1"), ("NULL_KEY", "keyless", VIEWS, 0, "/1")},
    ),
    "deleted": (
        deleted,
        [
            Record(VIEWS, 0, 0, 5, "a", "/1", TABLE),
            Record(VIEWS, 0, 1, 6, "a", None, TABLE),
            Record(USERS, 0, 0, 6, "a", "EU", TABLE),
        ],
        [Record(VIEWS, 0, 2, 100, "b", "/2", TABLE), Record(USERS, 0, 1, 100, "b", "US", TABLE)],
        {("NULL_VALUE", "valueless", VIEWS, 1, None)},
    ),
    "ruled": (
        ruled,
        [Record(VIEWS, 0, 0, 5, "a", "/1", STREAM), Record(USERS, 0, 0, 6, "a", "EU", TABLE)],
        [Record(USERS, 0, 1, 100, "a", "bad", TABLE)],
        {("EXPECTATION", SILVER, VIEWS, 0, "/1")},
    ),
}


@pytest.mark.parametrize("history", sampled(HISTORIES, 1, others=pytest.mark.soak))
def test_what_is_refused_later_is_quarantined_behind_a_trim(spark: SparkSession, tmp_path: Path, history: str) -> None:
    make, before, after, refused = HISTORIES[history]
    ends = [
        {(topic, 0): sum(one.source == topic for one in records) for topic in (VIEWS, USERS)}
        for records in (before, [*before, *after])
    ]
    rig = Rig(spark, tmp_path, make(), Log((*before, *after), ends[1]), snapshot_every=1)
    rig.feed(before, ends[0])
    rig.finish()
    assert trimming(rig.bench).run(ANY_TIME).cycle
    rig.feed(after, ends[1])
    rig.finish()
    rig.driver.end()
    found = rig.bench.quarantine().select("code", "node", "topic", "offset", F.col("value").cast("string"))
    assert {tuple(row) for row in found.collect()} == refused


def test_a_trim_is_finished_only_as_it_was_begun(spark: SparkSession, tmp_path: Path) -> None:
    """Files that have not run do not say what may go; and what was a table when it began is none of its streams."""
    builder = StreamsBuilder("prices")
    builder.stream("Prices", key=Text("item"), value=Text("price")).to_delta("silver.prices")
    topology = builder.build()
    ledger, plans = laid(spark, tmp_path, topology, [(0, *one) for one in PRICES])
    bronze = ledger.lake.bronze(topology.name, "Prices")
    own, target = Trimming(spark, ledger, topology, ""), up_to(plans[0])
    ledger.record_trim(spark, target, done=False)  # as another configuration has it, to which the topic is a table
    done = own.run(0)
    assert done.notes == ["nothing is deleted yet: the last run had another configuration"]
    assert own.planned(0).rows == {}
    assert own.delete(History(trim=target), target, done)
    assert bronze.read(spark).count() == len(PRICES)
    assert own.delete(History(trim=target, trimmed_streams=frozenset({"Prices"})), target, done)
    assert done.rows == {"Prices": sum(one[3] == 1 for one in PRICES)}
