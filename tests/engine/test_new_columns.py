"""An output's select that names a column more: the table takes it, and what was written before has null there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, fresh_topics

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

APPENDED, MERGED = "silver.views", "silver.users"


def selecting(topics: tuple[str, str], *columns: str) -> Topology:
    """Views with these columns of their user's profile, appended; and the profiles with these columns, merged."""
    builder = StreamsBuilder("growing")
    views = builder.stream(topics[0], key=Text("user"), value=Text("page"))
    users = builder.table(topics[1], key=Text("user"), value=Json("region string, city string"))
    joined = views.left_join(users, lambda view, user: {name: user[name] for name in columns} | {"page": view.page})
    joined.to_delta(APPENDED)
    users.map_values(lambda user: {name: user[name] for name in columns}, name="chosen").to_delta(MERGED)
    return builder.build()


def test_a_column_more_is_null_in_the_rows_so_far(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topics = fresh_topics(broker, 1)
    before = Bench(spark, broker, tmp_path, selecting(topics, "region"))
    after = replace(before, topology=selecting(topics, "city", "region"))
    views, users = topics

    def profile(user: str, region: str, city: str, at: int) -> tuple[str, str, int]:
        return user, f'{{"region": "{region}", "city": "{city}"}}', ZERO + at

    broker.produce(users, [profile("alice", "us-east", "Boston", 0), profile("bob", "eu-west", "Dublin", 0)])
    broker.produce(views, [("alice", "/1", ZERO + 1), ("bob", "/2", ZERO + 2)])
    with small(spark):
        before.run(snapshot_every=1)
        broker.produce(users, [profile("bob", "eu-west", "Cork", 3)])
        broker.produce(views, [("alice", "/3", ZERO + 4), ("bob", "/4", ZERO + 5)])
        after.run(snapshot_every=1, accept_change=True)
        appended = after.silver(APPENDED).select("user", "page", "region", "city").orderBy("page").collect()
        merged = after.silver(MERGED).select("user", "region", "city").orderBy("user").collect()
    assert [tuple(row) for row in appended] == [
        ("alice", "/1", "us-east", None),
        ("bob", "/2", "eu-west", None),
        ("alice", "/3", "us-east", "Boston"),  # the profile is older than the column
        ("bob", "/4", "eu-west", "Cork"),
    ]
    assert [tuple(row) for row in merged] == [("alice", "us-east", None), ("bob", "eu-west", "Cork")]
    assert_ledger_sound(after)
