"""`verify` and `why` on the three jobs: equal where nothing was touched, and every tampering is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, fresh_topics
from tests.engine.jobs import JOBS

import lakestreams
from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.publish import sinks
from lakestreams.engine.state import inputs, store
from lakestreams.errors import NoSuchRecord, NothingToVerify
from lakestreams.testing.small import small
from lakestreams.verify import outputs
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.trace import Trace
from lakestreams.verify.verify import verify
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

BATCH = 80


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def ran(spark: SparkSession, broker: Broker, root: Path, name: str) -> Bench:
    """A job that has run over its old data in several cycles, its past stored between them."""
    job = JOBS[name]
    topics = fresh_topics(broker, 2, job.topics)
    for topic, given in zip(topics, job.topics, strict=True):
        broker.produce(topic, job.old()[given])
    bench = Bench(spark, broker, root, job.build(*topics))
    bench.run(max_offsets_per_trigger=BATCH, snapshot_every=1)
    return bench


@pytest.fixture(
    scope="module",
    params=[job if job == "enrichment" else pytest.param(job, marks=pytest.mark.soak) for job in JOBS],
)
def bench(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Bench:
    return ran(spark, broker, tmp_path_factory.mktemp("verify"), request.param)


def differing(bench: Bench) -> dict[str, int]:
    found = verify(bench.spark, bench.lake, bench.topology)
    return {one.what: one.differs for one in found.findings if one.differs}


def test_what_ran_undisturbed_is_equal_and_every_tampering_is_found(bench: Bench) -> None:
    found = verify(bench.spark, bench.lake, bench.topology)
    assert {one.what: one.examples for one in found.findings if one.differs} == {}
    assert found.to_cycle > 1, "one cycle alone shows nothing about its cuts"
    assert all(one.compared for one in found.findings)
    sink = bench.topology.sinks[0]
    table = bench.lake.output(sink.name)
    value = next(name for name, kind in bench.silver(sink.name).dtypes[1:] if kind == "string")
    rows = bench.silver(sink.name).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n").take(2)
    changed, removed = (_where(row["_lineage"]["trigger"], row["_lineage"]["n"]) for row in rows)
    added = bench.silver(sink.name).where(f"not ({changed}) and not ({removed})").limit(1)
    added = added.withColumns({value: F.lit("added"), added.columns[0]: F.lit("nobody")}).localCheckpoint()
    spark = bench.spark
    spark.sql(f"update {table.reference} set `{value}` = 'changed' where {changed}")
    spark.sql(f"delete from {table.reference} where {removed}")
    added.write.format("delta").mode("append").save(str(table.path))
    assert differing(bench) == {sink.name: 3}, "one changed, one removed, one added"


def test_a_microsecond_and_rows_of_no_cycle_are_found(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    (views, _) = fresh_topics(broker)
    builder = StreamsBuilder("exact")
    builder.stream(views, key=Text("user"), value=Json("at timestamp, page string")).to_delta("silver.seen")
    bench = Bench(spark, broker, tmp_path, builder.build())
    seen = '{{"at": "2026-01-01T00:00:00.123456Z", "page": "{}"}}'
    broker.produce(views, [("a", seen.format(page), ZERO + place) for place, page in enumerate("xyz")])
    bench.run()
    assert differing(bench) == {}
    table = bench.lake.output("silver.seen")
    spark.sql(f"update {table.reference} set at = at + interval '1' microsecond where page = 'x'")
    assert differing(bench) == {"silver.seen": 1}
    spark.sql(f"insert into {table.reference} (user, page) values ('nobody', 'by hand')")
    assert differing(bench) == {"silver.seen": 2}, "a row without a lineage"
    later = bench.silver("silver.seen").where("page = 'z'")
    later = later.withColumn("_lineage", F.col("_lineage").withField("cycle", F.lit(99).cast("bigint")))
    later.localCheckpoint().write.format("delta").mode("append").save(str(table.path))
    assert differing(bench) == {"silver.seen": 3}, "a row of a cycle that was never planned"


def test_columns_may_be_called_as_what_stands_next_to_them(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """An output's columns have any names, also those that a comparison, a merge or a trace gives to columns of its own."""
    views, users = fresh_topics(broker)
    builder = StreamsBuilder("names")
    own = ("_n", "_cycle", "_trigger", "_side", "_record", "row", "place", "output")
    made = ", ".join(f"{name} string" for name in own)
    builder.stream(views, key=Text("user"), value=Json(made), name="views").to_delta("silver.seen")
    table = builder.table(users, key=Json("latest string, row string, place string"), value=Json("_latest string"))
    table.to_delta("silver.kept", mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    value = json.dumps(dict.fromkeys(own, "mine"))
    broker.produce(views, [("a", value, ZERO), ("b", value, ZERO + 1)])
    broker.produce(users, [('{"latest": "1", "row": "2", "place": "3"}', '{"_latest": "0"}', ZERO)])
    bench.run()
    assert differing(bench) == {}
    (trace, *_) = why(spark, bench.lake, bench.topology, key="a")
    assert (trace.results[0]["output"], trace.results[0]["column output"]) == ("silver.seen", "mine")
    assert trace.sentences == [f"gave silver.seen: record of {views}-0@0, cycle 1"]
    for name in ("_n", "row"):
        spark.sql(f"update {bench.lake.output('silver.seen').reference} set `{name}` = 'changed' where user = 'a'")
        assert differing(bench) == {"silver.seen": 1}, name
        spark.sql(f"update {bench.lake.output('silver.seen').reference} set `{name}` = 'mine' where user = 'a'")
    spark.sql(f"update {bench.lake.output('silver.kept').reference} set _latest = 'changed'")
    assert differing(bench) == {"silver.kept": 1}


@pytest.mark.slow
def test_a_merged_table_that_a_run_changes_meanwhile_is_not_compared(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs run while the nightly verification does."""
    users = fresh_topics(broker)[1]
    builder = StreamsBuilder("merged")
    builder.table(users, key=Text("user"), value=Text("region")).to_delta("silver.users", mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("a", "EU", ZERO), ("b", "EU", ZERO)])
    bench.run()
    real, more = outputs.merged, [[("a", "US", ZERO + 1)]]

    def merged(*given: Any) -> Comparison:
        if more:
            broker.produce(users, more.pop())
            bench.run()
        return real(*given)

    monkeypatch.setattr(outputs, "merged", merged)
    found = verify(spark, bench.lake, bench.topology)
    assert any("a run published while it was compared" in note for note in found.notes)
    assert not any(one.differs for one in found.findings)
    assert verify(spark, bench.lake, bench.topology).equal


def _where(trigger: Any, n: int) -> str:
    place = {name: f"'{trigger[name]}'" if name == "source" else trigger[name] for name in trigger.asDict()}
    same = " and ".join(f"_lineage.trigger.{name} = {value}" for name, value in place.items())
    return f"{same} and _lineage.n = {n}"


@pytest.mark.soak
def test_bronze_is_judged_by_its_raw_columns(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = ran(spark, broker, tmp_path, "enrichment")
    views = bench.topology.sources[0].topic
    table = bench.lake.bronze(bench.topology.name, views).reference
    spark.sql(f"update {table} set stream_time_ms = stream_time_ms + 1 where offset = 7 and partition = 0")
    assert differing(bench)[f"bronze of {views}, stream time"] == 1
    spark.sql(f"delete from {table} where offset = 7 and partition = 0")
    assert differing(bench)[f"bronze of {views}, rows"] == 1


def test_nothing_is_verified_before_a_cycle_is_finished(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    job = JOBS["enrichment"]
    bench = Bench(spark, broker, tmp_path, job.build(*fresh_topics(broker, 1)))
    bench.run()
    with pytest.raises(NothingToVerify, match="finished cycles 1 to 0"):
        verify(spark, bench.lake, bench.topology)


# --- mutants: an engine with a fault runs, the sound one verifies ------------------------------------------------------


def _first_instead_of_last(rows: Any, key: Any, *, repeated: bool = True) -> Any:
    del repeated
    order = F.struct(*(F.col("_lineage")[name] for name in ("cycle", "trigger", "n")))
    first = rows.groupBy(*key).agg(F.min_by(F.struct(*rows.columns), order).alias("first"))
    return first.select(*(F.col("first")[name].alias(name) for name in rows.columns))


def _forgets(patch: pytest.MonkeyPatch) -> None:
    """What was stored is not read."""
    patch.setattr(store, "load", lambda *_: {})


def _publishes_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sinks, "latest", _first_instead_of_last)


def _loses_deletions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sinks, "GONE", "false")


def _reads_only_one_partition(patch: pytest.MonkeyPatch) -> None:
    real = inputs.planned_rows
    patch.setattr(inputs, "planned_rows", lambda *args, **more: real(*args, **more).where("partition = 0"))


@pytest.mark.parametrize(
    ("name", "mutate"),
    [
        pytest.param("correlation", _forgets, marks=pytest.mark.soak),
        pytest.param("fk_join", _forgets, marks=pytest.mark.soak),
        pytest.param("fk_join", _publishes_first, marks=pytest.mark.soak),
        pytest.param("fk_join", _loses_deletions, marks=pytest.mark.soak),
        pytest.param("enrichment", _reads_only_one_partition, marks=pytest.mark.soak),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_fault_of_the_engine_is_found(
    spark: SparkSession, broker: Broker, tmp_path: Path, name: str, mutate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        bench = ran(spark, broker, tmp_path, name)
    assert set(differing(bench)) & {sink.name for sink in bench.topology.sinks}


# --- why -------------------------------------------------------------------------------------------------------------


def told(traces: list[Trace]) -> str:
    return "\n".join(sentence for trace in traces for sentence in trace.sentences)


@pytest.mark.soak
def test_why_tells_the_fate_of_each_record(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = ran(spark, broker, tmp_path, "correlation")
    orders, payments = (source.topic for source in bench.topology.sources)

    def of(key: str) -> list[Trace]:
        return why(spark, bench.lake, bench.topology, key=key)

    silver = bench.silver("silver.order_payments")
    paid = silver.where("_lineage.kind = 'matched'").first()
    assert paid is not None
    found = of(paid["order_id"])
    assert {trace.topic for trace in found} == {orders, payments}
    assert all(trace.results for trace in found)
    assert f"silver.order_payments: matched of {orders}-" in told(found)
    late = bench.quarantine().where("code = 'LATE'").selectExpr("cast(key as string) as key").first()
    assert late is not None
    assert "is in quarantine by both: LATE, late by " in told(of(late["key"]))
    assert "is in quarantine by orders: MALFORMED_VALUE" in told(of("o30"))
    broker.produce(orders, [("o99", "99", ZERO + 3_000)])
    bench.run()
    assert f"waits in both until the clock, now at {ZERO + 3_000}, passes {ZERO + 3_120}" in told(of("o99"))
    with pytest.raises(NoSuchRecord, match="'zoe'"):
        of("zoe")


def test_why_tells_of_each_output_that_lacks_a_record(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker)
    builder = StreamsBuilder("two_outputs")
    viewed = builder.stream(views, key=Text("user"), value=Text("page"), name="views")
    joined = viewed.left_join(builder.table(users, key=Text("user"), value=Text("region"), name="users"), name="both")
    joined.to_delta("silver.every")
    joined.filter(lambda row: row.page != "/b", name="wanted").to_delta("silver.some")
    broker.produce(users, [("u", "r", ZERO)])
    broker.produce(views, [("u", "/a", ZERO + 1), ("u", "/b", ZERO + 2)])
    bench = Bench(spark, broker, tmp_path, builder.build())
    bench.run()
    told_of = {
        trace.value: trace.sentences
        for trace in why(spark, bench.lake, bench.topology, key="u")
        if trace.topic == views
    }
    assert len(told_of["/a"]) == 1
    assert told_of["/b"][0] == "not in silver.some: was filtered out by wanted"
    assert told_of["/b"][1].startswith("gave silver.every: matched of ")
    assert len(told_of["/b"]) == 2


@pytest.mark.soak
def test_why_says_of_an_open_window_that_a_partner_may_still_come(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    orders, payments = fresh_topics(broker, 1, ("Orders", "Payments"))
    builder = StreamsBuilder("open_windows")
    ordered = builder.stream(orders, key=Text("order_id"), value=Text("amount"), name="orders")
    paid = builder.stream(payments, key=Text("order_id"), value=Text("reference"), name="payments")
    window = {"before": "20 ms", "after": "100 ms", "grace": "5 ms"}
    ordered.join(paid, name="paired", **window).to_delta("silver.paired")
    ordered.left_join(paid, name="settled", **window).to_delta("silver.settled")
    bench = Bench(spark, broker, tmp_path, builder.build())

    def of(key: str) -> list[str]:
        (trace,) = why(spark, bench.lake, bench.topology, key=key)
        return trace.sentences

    broker.produce(orders, [("o1", "1", ZERO)])
    broker.produce(payments, [("o2", "2", ZERO + 10)])
    bench.run()
    now = f"the clock, now at {ZERO + 10}, passes"
    assert of("o1") == [
        f"has no partner in paired yet: one may come until {now} {ZERO + 105}",
        f"waits in settled until {now} {ZERO + 105}",
    ]
    assert of("o2") == [
        f"has no partner in {join} yet: one may come until {now} {ZERO + 35}" for join in ("paired", "settled")
    ]
    broker.produce(orders, [("o3", "3", ZERO + 200)])
    bench.run()
    closed = "none of its key lies within its window"
    assert of("o1")[0] == f"not in silver.paired: has no partner in paired: {closed}"
    assert of("o2") == [f"has no partner in {join}: {closed}" for join in ("paired", "settled")]


@pytest.mark.soak
def test_a_pipeline_is_opened_for_notebooks(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = ran(spark, broker, tmp_path, "enrichment")
    opened = lakestreams.open(bench.topology, root=str(tmp_path))
    views, users = (source.name for source in bench.topology.sources)
    assert opened.bronze(views).count() == bench.bronze(views).count()
    assert opened.silver().count() == bench.silver().count()
    assert opened.quarantine().count() == bench.quarantine().count()
    lag = opened.lag().collect()
    assert {(row["topic"], row["partition"]) for row in lag} == {(t, p) for t in (views, users) for p in (0, 1)}
    assert all(row["planned_to"] == row["end_offset"] for row in lag)
    (row,) = opened.why(at=f"{views}-0@0").collect()
    assert row["told"][0].startswith(f"gave silver.enriched_page_views: matched of {views}-0@0") or row["told"][
        0
    ].startswith(f"gave silver.enriched_page_views: unmatched of {views}-0@0")
    assert opened.verify().equal
    with pytest.raises(lakestreams.LakestreamsError, match="there are several sources"):
        opened.bronze()
