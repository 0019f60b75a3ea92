"""`why` by a key: one that only results have, and keys that are no text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics

import lakestreams
from lakestreams import Long, StreamsBuilder, Text, agg
from lakestreams.cli.screen import Screen
from lakestreams.cli.why import show
from lakestreams.errors import NoSuchRecord
from lakestreams.testing.small import small
from lakestreams.verify import why as audit
from lakestreams.verify.trace import Trace
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

TOTALS, LOCATED = "silver.clicks_per_region", "silver.located_clicks"


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def test_where_a_key_comes_from_that_only_results_have(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in conf/clicks_per_region.yml; but that users are numbers."""
    clicks, regions = fresh_topics(broker, 1, ("UserClicks", "UserRegions"))
    builder = StreamsBuilder("clicks_per_region")
    clicked = builder.stream(clicks, key=Long("user"), value=Long("clicks"), name="clicks")
    table = builder.table(regions, key=Long("user"), value=Text("region"), name="regions")
    located = clicked.left_join(table, lambda click, user: {"region": user.region, "clicks": click.clicks})
    by_region = located.select_key(lambda row: {"region": row.region})
    by_region.group_by_key().aggregate(lambda row: {"clicks": agg.sum(row.clicks)}, name="totals").to_delta(TOTALS)
    by_region.to_delta(LOCATED)
    bench = Bench(spark, broker, tmp_path, builder.build())

    def number(value: int) -> bytes:
        return value.to_bytes(8, "big", signed=True)

    lived = [(number(1), "asia", ZERO), (number(2), "asia", ZERO), (number(42), "europe", ZERO)]
    broker.produce(regions, [*lived, (number(1), "europe", ZERO + 10)])
    made = [(1, 13, 1), (2, 4, 2), (42, 9, 3), (1, 5, 11)]
    broker.produce(clicks, [(number(user), number(given), ZERO + ms) for user, given, ms in made])
    bench.run()

    def of(key: str) -> list[Trace]:
        return why(spark, bench.lake, bench.topology, key=key)

    found = of("asia")
    assert [trace.place for trace in found] == [(clicks, 0, 1), (clicks, 0, 0), (regions, 0, 1), (regions, 0, 0)]
    newest, first, region, _ = found
    in_totals, in_located = (
        f"is one of {count} records that made the key 'asia' of {output}"
        for count, output in ((2, TOTALS), (4, LOCATED))
    )
    pair = f"{LOCATED}: matched of {clicks}-0@1 + {regions}-0@1, cycle 1"
    assert (newest.key, newest.value, newest.cycle) == ("2", "4", 1)
    assert newest.sentences == [in_totals, in_located, f"gave {TOTALS}: record of {clicks}-0@1, cycle 1; {pair}"]
    assert [(row["output"], row["region"], row["clicks"]) for row in newest.results] == [
        (TOTALS, "asia", 17),
        (LOCATED, "asia", 4),
    ]
    assert first.sentences[:2] == [in_totals, in_located]
    assert [row["output"] for row in first.results] == [LOCATED], "the total of then is no more"
    assert region.sentences == [in_located, f"gave {pair}"]
    show(Screen(), found)
    assert f"{TOTALS} region=asia, clicks=17" in " ".join(capsys.readouterr().out.split())
    with monkeypatch.context() as patch:
        patch.setattr(audit, "_MOST", 1)
        told = of('{"region": "asia"}')[0].sentences
    assert told[0] == in_totals.replace("'asia'", repr('{"region": "asia"}')) + "; 1 older one is left out"

    opened = lakestreams.open(bench.topology, root=str(tmp_path))
    rows = opened.why(key="42").collect()
    assert {(row["topic"], row["offset"], row["key"]) for row in rows} == {(clicks, 2, "42"), (regions, 2, "42")}
    (row,) = opened.why(at=f"{clicks}-0@1").collect()
    assert row["told"] == newest.sentences[2:], "of a record by its place it is only said what came of it"
    with pytest.raises(NoSuchRecord, match="'africa', and no output a row of it"):
        of("africa")


def test_deletions_and_null_values_are_named_as_what_they_are(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, users = fresh_topics(broker)
    builder = StreamsBuilder("nulls")
    viewed = builder.stream(views, key=Text("user"), value=Text("page"), name="views", null_values="ignore")
    table = builder.table(users, key=Text("user"), value=Text("region"), name="users")
    viewed.left_join(table, name="joined").to_delta("silver.views")
    viewed.to_delta("silver.raw")
    table.to_delta("silver.users", mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("u", "EU", ZERO + 10), ("u", None, ZERO + 11)])
    broker.produce(views, [("other", "/", ZERO + 20), ("u", "late", ZERO + 5), ("u", None, ZERO + 21)])
    bench.run()
    found = {(one.topic, one.offset): one.sentences for one in why(spark, bench.lake, bench.topology, key="u")}
    met_none = f"gave silver.views: unmatched of {views}-0@1, cycle 1; silver.raw: record of {views}-0@1, cycle 1"
    assert found[views, 1] == [met_none], "its row was there before it, though dated later, and was deleted"
    assert found[views, 2] == [
        "has a null value, of which joined makes nothing",
        "is not in silver.raw: its value is null there",
    ]
    assert found[users, 1] == [
        "deletes the row of its key in users; nothing of joined is made of that",
        "deleted the row of its key in silver.users",
    ]
