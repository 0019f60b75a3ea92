"""Random histories: cut anywhere, trimmed, robbed of caches and restarted in between, they give what one batch gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import assert_ledger_sound, facts
from tests.engine.test_cuts import STREAM, TABLE, Log, Record, Rig
from tests.maintenance.test_maintain import ANY_TIME, lose_caches, trimming

from lakestreams import StreamsBuilder, Text, Topology, agg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.kafka.noted import TopicPartition

pytestmark = [
    pytest.mark.soak,
    pytest.mark.usefixtures("small_input"),
]  # `test_maintain` has one of each trim in `make test`

SIZE = 120
CUTS = 5


def lookups() -> tuple[Topology, dict[str, int]]:
    """Versioned, waiting, amending, global: what looks rows up by time, and refuses late."""
    builder = StreamsBuilder("lookups")
    clicks = builder.stream("Clicks", key=Text("user"), value=Text("page"))
    versions = builder.table("Versions", key=Text("user"), value=Text("region"), as_of=True, history="60 ms")
    users = builder.table("Users", key=Text("user"), value=Text("name"))
    prices = builder.global_table("Prices", key=Text("page"), value=Text("price"))
    clicks.left_join(versions, grace="20 ms").to_delta("silver.as_of")
    clicks.join(users, wait="30 ms", name="waited").to_delta("silver.waited")
    clicks.left_join(users, amend="30 ms", name="amended").to_delta("silver.amended", mode="merge")
    clicks.join(prices, left_on=lambda click: click.page).to_delta("silver.priced")
    return builder.build(), {"Clicks": 2, "Versions": 2, "Users": 2, "Prices": 1}


def tables() -> tuple[Topology, dict[str, int]]:
    """By foreign key, by key, filtered, summed, suppressed by time."""
    builder = StreamsBuilder("tables")
    users = builder.table("Users", key=Text("user"), value=Text("page"))
    pages = builder.table("Pages", key=Text("page"), value=Text("title"))
    names = builder.table("Names", key=Text("user"), value=Text("name"))
    titled = users.left_join(pages, left_on=lambda user: user.page, name="titled")
    titled.to_delta("silver.titled", mode="merge")
    titled.suppress("15 ms").to_delta("silver.held", mode="changes")
    users.join(pages, left_on=lambda user: user.page, name="inner").filter(lambda row: row.title != "p0").to_delta(
        "silver.inner", mode="merge"
    )
    named = users.outer_join(names, name="named")
    named.to_delta("silver.named", mode="merge")
    named.group_by(lambda row: {"page": row.page}).count(name="readers").to_delta("silver.readers", mode="merge")
    return builder.build(), {"Users": 2, "Pages": 1, "Names": 2}


def windows() -> tuple[Topology, dict[str, int]]:
    """Streams in windows, what is counted of them, and what waits for their end."""
    builder = StreamsBuilder("windows")
    clicks, views = (builder.stream(one, key=Text("user"), value=Text(one.lower())) for one in ("Clicks", "Views"))
    met = clicks.outer_join(views, within="20 ms", grace="30 ms", name="met")
    met.to_delta("silver.met")
    by_page = met.select_key(lambda row: {"page": row.views}).group_by_key()
    by_page.windowed_by("10 ms", grace="40 ms").count(name="late").to_delta("silver.late", mode="merge")
    closed = clicks.group_by_key().windowed_by("20 ms", advance="10 ms", grace="15 ms").aggregate(
        lambda click: {"least": agg.min(click.clicks), "newest": agg.last(click.clicks)}, name="closing"
    )  # fmt: skip
    closed.suppress("window_closes").to_delta("silver.closed", mode="changes")
    views.to_table().to_delta("silver.newest", mode="merge")
    return builder.build(), {"Clicks": 2, "Views": 2}


SHAPES: dict[str, Callable[[], tuple[Topology, dict[str, int]]]] = {
    "lookups": lookups, "tables": tables, "windows": windows,
}  # fmt: skip


def history(rng: random.Random, topology: Topology, partitions: Mapping[str, int]) -> Log:
    """Records by arrival: of each partition one early on, so that cuts settle; times out of order, deletions, late ones."""
    kinds = {source.topic: STREAM if source.kind == "stream" else TABLE for source in topology.sources}
    places = [(topic, number) for topic, count in partitions.items() for number in range(count)]
    offsets, clocks, records = dict.fromkeys(places, 0), dict.fromkeys(places, 0), list[Record]()
    for number in range(SIZE):
        now = max(0, 4 * (number - len(places)))
        topic, partition = at = places[number] if number < len(places) else rng.choice(places)
        key = rng.choice([one for one in range(6) if one % partitions[topic] == partition])
        clocks[at] = max(clocks[at], now - rng.choice([0, 0, 5, 15]))
        ts = max(0, clocks[at] - rng.choice([0, 0, 0, 4, 30, 80]))
        value = None if rng.random() < (0.3 if kinds[topic] == TABLE else 0.04) else f"p{rng.randrange(3)}"
        name = f"p{key}" if topic in ("Pages", "Prices") else f"u{key}"
        records.append(Record(*at, offsets[at], ts, name, value, kinds[topic]))
        offsets[at] += 1
    # nothing is settled before a global table is read to its end
    whole = {source.topic for source in topology.sources if source.kind == "global_table"}
    return Log(tuple(sorted(records, key=lambda one: one.source not in whole)), offsets)


def ends_at(log: Log, count: int) -> dict[TopicPartition, int]:
    """Where each partition is read to with so many records."""
    ends = dict.fromkeys(log.ends, 0)
    for one in log.records[:count]:
        ends[one.source, one.partition] = one.offset + 1
    return ends


def tended(spark: SparkSession, root: Path, topology: Topology, log: Log, rng: random.Random) -> tuple[Rig, list[Any]]:
    """A run in pieces, and what was done between them."""
    rig = Rig(spark, root, topology, log, snapshot_every=rng.choice([1, 1, 2]))
    done: list[Any] = []
    first = 0
    for last in [*sorted(rng.sample(range(len(log.ends), SIZE), CUTS)), SIZE]:
        rig.feed(log.records[first:last], ends_at(log, last))
        first = last
        if rng.random() < 0.2:
            done.append(f"{last}: the cycle is left open")
        else:
            rig.driver._round.cycles.finish()
        trimmed = trimming(rig.bench).run(ANY_TIME) if rng.random() < 0.7 else None
        if trimmed is not None:
            done.append(f"{last}: trimmed to {trimmed.cycle}, {trimmed.rows}")
        if rng.random() < 0.6:
            ends = rng.random() < 0.5
            if ends:
                rig.driver.end()
            if trimmed is not None and trimmed.cycle and rng.random() < 0.5:
                done.append(f"{lose_caches(rig.bench)} caches lost")
            done.append(f"restarted, {'ended' if ends else 'not ended'}")
            rig.take_over()
    rig.finish()
    rig.driver.end()
    return rig, done


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_tended_history_gives_what_one_batch_gives(
    spark: SparkSession, tmp_path: Path, shape: str, seed: int
) -> None:
    rng = random.Random(f"{shape} {seed}")
    topology, partitions = SHAPES[shape]()
    log = history(rng, topology, partitions)
    whole = Rig(spark, tmp_path / "whole", topology, log)
    whole.run([log.records])
    whole.driver.end()
    cut, done = tended(spark, tmp_path / "cut", topology, log, rng)
    expected, found = facts(whole.bench), facts(cut.bench)
    bronze = {source.topic for source in topology.sources}
    wrong = {
        what: {"missing": [*{*map(repr, rows)} - {*map(repr, found[what])}], "more": [*{*map(repr, found[what])} - {*map(repr, rows)}]}
        for what, rows in expected.items()
        if what not in bronze and found[what] != rows
    }  # fmt: skip
    assert wrong == {}, done
    assert_ledger_sound(cut.bench)
    assert max(row["cycle"] for row in cut.bench.ledger().where("kind = 'plan'").collect()) > 1, done
