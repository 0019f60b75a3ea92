"""What the engine's tests share: topics with names of their own, the scenario's pipeline, tables as plain rows."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.ledger.fingerprint import Configuration
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import REPLAYED, History
from lakestreams.engine.protocol import decisions
from lakestreams.engine.protocol.commands import Turn
from lakestreams.engine.publish import event_log
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.progress import Event, Summary
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.engine.takeover.claiming import Claiming
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.local.broker import Broker

SILVER = "silver.enriched_page_views"
SOME = Configuration("f", "text", "f")
# librdkafka takes timestamp 0 for "now", so the scenario's clock begins a second after the epoch
ZERO = 1_000
_numbers = itertools.count(1)


def page_views(
    views: str = "PageViews", users: str = "UserProfiles", how: str = "left", pipeline: str = "page_views"
) -> Topology:
    """Scenario 1: views with their user's region."""
    builder = StreamsBuilder(pipeline)
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    if how == "inner":
        joined = stream.join(table)
    else:
        joined = stream.left_join(
            table, lambda view, user: {"page": view.page, "region": F.coalesce(user.region, F.lit("<unknown>"))}
        )
    joined.to_delta(SILVER)
    return builder.build()


def claimed(
    spark: SparkSession,
    ledger: Ledger,
    run_id: str,
    history: History | None = None,
    configuration: Configuration = SOME,
) -> Ledger:
    """The ledger of a run that has claimed the pipeline behind a history, by default as the first one, and sealed nothing."""
    own = Claiming(spark, replace(ledger, run_id=run_id), {}, configuration)
    return own.claim(Turn("epoch", decisions.next_epoch((history or History()).epoch)))


@dataclass
class Bench:
    """One pipeline on its own topics and in its own folder."""

    spark: SparkSession
    broker: Broker
    root: Path
    topology: Topology
    events: list[Event] = field(default_factory=list)

    @property
    def lake(self) -> Lake:
        return Lake(str(self.root))

    def settings(self, **more: Any) -> RunSettings:
        kafka = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
        }
        return RunSettings(kafka=kafka, **more)

    def driver(self, **more: Any) -> Driver:
        return Driver(self.spark, self.topology, self.lake, self.settings(**more), self.events.append)

    def run(self, **more: Any) -> Summary:
        return self.driver(**more).run()

    def bronze(self, topic: str) -> DataFrame:
        return self.lake.bronze(self.topology.name, topic).read(self.spark)

    def silver(self, name: str = SILVER) -> DataFrame:
        return self.lake.output(name).read(self.spark)

    def quarantine(self) -> DataFrame:
        return self.lake.control("quarantine").read(self.spark)

    def ledger(self) -> DataFrame:
        return self.lake.control("ledger").read(self.spark)

    def enriched(self) -> list[tuple[Any, ...]]:
        """Silver as (user, page, region), in the order of its results."""
        rows = self.silver().orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
        return [tuple(row) for row in rows.select("user", "page", "region").collect()]


def fresh_topics(
    broker: Broker,
    partitions: int | Sequence[int] = 1,
    topics: tuple[str, str] = ("PageViews", "UserProfiles"),
    config: Mapping[str, str] | None = None,
) -> tuple[str, str]:
    """A pair of topics that no other test uses, by default views and users."""
    number = next(_numbers)
    counts = [partitions, partitions] if isinstance(partitions, int) else list(partitions)
    names = f"{topics[0]}{number}", f"{topics[1]}{number}"
    for name, count in zip(names, counts, strict=True):
        broker.create_topic(name, count, config)
    return names


def facts(bench: Bench) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that must be equal however often a run was interrupted: bronze without ingest time and sequence,
    outputs and quarantine without cycle numbers."""
    bronze_columns = ("topic", "partition", "offset", "attempt", "key", "value", "timestamp_ms", "timestamp_type",
                      "event_time_ms", "stream_time_ms", "error", "k", "v")  # fmt: skip
    found = {
        source.topic: _rows(bench.bronze(source.topic).select(*bronze_columns)) for source in bench.topology.sources
    }
    for sink in bench.topology.sinks:
        silver = bench.silver(sink.name)
        plain = [name for name in silver.columns if name != "_lineage"]
        lineage = [f"_lineage.{name}" for name in ("trigger", "n", "kind", "contributors")]
        found[sink.name] = _rows(silver.select(*plain, *lineage))
    found["quarantine"] = _rows(bench.quarantine().drop("cycle", "ingest_time_ms"))
    found["counts"] = _counts(bench)
    if bench.lake.control("orphans").exists(bench.spark):
        orphans = bench.lake.control("orphans").read(bench.spark)
        found["orphans"] = _rows(orphans.drop("_lineage"))
    return found


def _counts(bench: Bench) -> list[tuple[Any, ...]]:
    """What the event log counted in all, as far as it does not depend on how cycles cut the input: rows of appended
    outputs and sources, quarantine by reason, rules."""
    merged = {sink.name for sink in bench.topology.sinks if sink.mode == "merge"}
    rules = {(rule.dataset, rule.name) for rule in bench.topology.expectations.rules}
    told = event_log.totals(bench.spark, Ledger(bench.lake, bench.topology.name))
    found: list[tuple[Any, ...]] = []
    for one in told:
        if one.kind in ("stream", "table", "to_delta") and one.node not in merged:
            found.append((one.node, one.rows_in, one.rows, sorted(one.kinds.items())))
        found.append((one.node, sorted(one.quarantined.items())))
        found += [(one.node, name, *counts) for name, counts in one.expected.items() if (one.node, name) in rules]
    return sorted(found, key=repr)


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def assert_ledger_sound(bench: Bench) -> None:
    """Cycles ascend by one, and every bronze row lies in exactly one finished plan."""
    own = bench.ledger().where(F.col("pipeline") == bench.topology.name)
    rows = own.where("kind in ('plan', 'done')").select("kind", "cycle", "ranges").collect()
    plans = sorted(row["cycle"] for row in rows if row["kind"] == "plan")
    assert plans == list(range(1, len(plans) + 1)), plans
    assert plans, "nothing was planned"
    done = [row["cycle"] for row in rows if row["kind"] == "done"]
    assert done, "no cycle is finished"
    assert max(done) == plans[-1], "the last cycle is not finished"
    planned = defaultdict[tuple[str, int], list[range]](list)
    for one in (one for row in rows if row["kind"] == "plan" for one in row["ranges"]):
        planned[one["topic"], one["partition"]].append(range(one["from_offset"], one["to_offset"]))
    for source in bench.topology.sources:
        bronze = bench.bronze(source.topic).select("partition", "offset", "attempt", "seq").collect()
        again = [tuple(row) for row in bronze if row["attempt"] > 0]
        assert len(again) == len({row[:3] for row in again}), "an attempt twice"
        places = [(row["partition"], row["offset"]) for row in bronze if row["attempt"] == 0]
        assert len(places) == len(set(places)), f"{source.topic} holds an offset twice"
        # of replayed records the plans name batches, in the place of a partition that there is not
        places += sorted({(REPLAYED, row[3]) for row in again})
        for partition, offset in places:
            of_it = [one for one in planned[source.topic, partition] if offset in one]
            assert len(of_it) == 1, f"offset {offset} of {source.topic}-{partition} is in {len(of_it)} plans"


def assert_sound(bench: Bench, *, may_be_empty: bool = False) -> None:
    """Behind a crash, or beside another driver: the ledger is sound, and `verify` finds nothing that bronze does not give.

    Args:
        may_be_empty: whether no output may have any row.
    """
    assert_ledger_sound(bench)
    found = verify(bench.spark, bench.lake, bench.topology, ask_second=False)  # not the joins, which other tests judge
    assert {one.what: one.examples for one in found.findings if one.differs} == {}
    assert found.left_out == 0
    assert [one.what for one in found.findings if one.left_out] == []
    outputs = {sink.name: sink for sink in bench.topology.sinks}
    assert may_be_empty or not outputs or any(one.compared for one in found.findings if one.what in outputs)
    assert outputs.keys() <= {one.what for one in found.findings}


def at(*records: tuple[str, str | None, int]) -> Iterable[tuple[str, str | None, int]]:
    """Records with the scenario's small timestamps moved to where a producer can write them."""
    return [(key, value, ZERO + ms) for key, value, ms in records]
