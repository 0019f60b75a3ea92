"""Replay from quarantine on a real broker: a record comes once more, once; wherever a run fails; and verifies afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, facts, fresh_topics, page_views
from tests.engine.jobs import order_payments

from lakestreams import EventTime, Json, RegistryJson, StreamsBuilder, Text
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.replay import deciding, quarantined
from lakestreams.engine.replay import ingest as attempts
from lakestreams.engine.replay.deciding import Selection
from lakestreams.engine.replay.edits import Repair
from lakestreams.engine.replay.quarantined import Filters
from lakestreams.engine.runtime import failpoints
from lakestreams.errors import NotInQuarantine
from lakestreams.maintenance.maintain import Options, maintain
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

BAD = b"\xff\xfe"


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def ledger(bench: Bench) -> Ledger:
    return Ledger(bench.lake, bench.topology.name)


def ask(bench: Bench, mended: dict[tuple[str, int, int], str | None] | None = None, **more: Any) -> int:
    """Requests a replay of what is open, or of these records with new values: how many records."""
    named = None
    if mended is not None:
        named = tuple(
            Repair(*place, None, {} if value is None else {"value": value.encode()}) for place, value in mended.items()
        )
    found = deciding.request(bench.spark, ledger(bench), Selection(repairs=named, **more))
    return sum(one.records for one in found)


def bad_records(bench: Bench) -> dict[str, tuple[str, int, int]]:
    """Key as text to the place of each record in quarantine, whatever attempt it is."""
    rows = bench.quarantine().select(F.col("key").cast("string").alias("key"), "topic", "partition", "offset").collect()
    return {row["key"]: (row["topic"], row["partition"], row["offset"]) for row in rows}


def with_decisions(bench: Bench) -> dict[tuple[str, int], str]:
    """Key and attempt of each record in quarantine, with its state."""
    rows = (
        quarantined.with_decisions(bench.spark, ledger(bench))
        .select(F.col("key").cast("string"), "attempt", "state")
        .collect()
    )
    return {(row[0], row[1]): row[2] for row in rows}


def assert_equal(bench: Bench) -> None:
    found = verify(bench.spark, bench.lake, bench.topology)
    assert {one.what: one.examples for one in found.findings if one.differs} == {}
    assert all(one.compared for one in found.findings)
    assert_ledger_sound(bench)


def results(bench: Bench) -> set[tuple[Any, ...]]:
    """User, page, region and attempt of the view that caused the row."""
    rows = bench.silver().select("user", "page", "region", "_lineage.trigger.attempt").collect()
    assert len(rows) == len(set(rows)), "a row twice"
    return {tuple(row) for row in rows}


@pytest.mark.soak  # tests/cli/test_quarantine mends and replays one
def test_a_mended_record_gives_its_row_once_and_a_table_keeps_what_is_newer(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, users = fresh_topics(broker, 2)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    broker.produce(users, [("ann", BAD, ZERO), ("bob", BAD, ZERO + 1), ("bob", "EU", ZERO + 2), ("cid", "US", ZERO)])
    broker.produce(views, [("cid", "/1", ZERO + 10), ("cid", BAD, ZERO + 20), ("dora", BAD, ZERO + 30)])
    bench.run(snapshot_every=1)
    assert results(bench) == {("cid", "/1", "US", 0)}
    bad = bad_records(bench)
    assert ask(bench, {bad["cid"]: "/mended", bad["ann"]: "AS", bad["bob"]: "XX", bad["dora"]: None}) == 4
    with pytest.raises(NotInQuarantine, match="4 requested"):
        ask(bench, again=True)
    broker.produce(views, [("ann", "/a", ZERO + 1_000), ("bob", "/b", ZERO + 1_001)])
    bench.run(snapshot_every=1)
    wanted = {("cid", "/1", "US", 0), ("cid", "/mended", "US", 1), ("ann", "/a", "AS", 0), ("bob", "/b", "EU", 0)}
    assert results(bench) == wanted
    assert with_decisions(bench) == {
        ("cid", 0): "replayed", ("ann", 0): "replayed", ("bob", 0): "superseded", ("dora", 0): "replayed",
        ("dora", 1): "open",
    }  # fmt: skip
    (reason,) = quarantined.with_decisions(spark, ledger(bench)).where("state = 'superseded'").select("reason").first()
    assert reason == attempts.LATER_EXISTS
    assert bench.bronze(users).where("attempt > 0").count() == 1
    assert_equal(bench)
    before = facts(bench)
    bench.run()
    assert facts(bench) == before, "a request is taken once"
    told = {trace.attempt: trace.sentences for trace in why(spark, bench.lake, bench.topology, place=bad["cid"])}
    assert told[0][1].startswith("was replayed, as asked by request ")
    assert "matched of" in told[1][0]
    assert "#1" in told[1][0]
    # and once more, because somebody says so
    assert ask(bench, {bad["cid"]: "/again"}, again=True) == 1
    bench.run(snapshot_every=1)
    assert results(bench) == wanted | {("cid", "/again", "US", 2)}
    assert_equal(bench)


@pytest.mark.soak
def test_an_attempt_meets_the_windows_that_are_open_at_the_clock_it_finds(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    orders, payments = fresh_topics(broker, 1, ("Orders", "Payments"))
    bench = Bench(spark, broker, tmp_path, order_payments(orders, payments))
    broker.produce(orders, [("old", "1", ZERO + 100), ("near", "2", ZERO + 1_000)])
    broker.produce(payments, [("old", BAD, ZERO + 110), ("near", BAD, ZERO + 1_010), ("next", BAD, ZERO + 1_500)])
    bench.run(snapshot_every=1, max_bad_share=1.0)  # all payments are bad
    output = "silver.order_payments"
    places = {key: place for key, place in bad_records(bench).items() if key != "next"}
    assert ask(bench, {place: f"p-{key}" for key, place in places.items()}) == 2
    bench.run(snapshot_every=1)

    def told() -> set[tuple[Any, ...]]:
        made_of = F.transform("_lineage.contributors", lambda one: one["attempt"])
        rows = bench.silver(output).select("amount", "reference", "_lineage.kind", made_of).collect()
        return {(*row[:3], *row[3]) for row in rows}

    before = {("1", None, "unmatched", 0), ("2", "p-near", "matched", 0, 1)}
    assert told() == before
    late = bench.quarantine().where("code = 'LATE'").select(F.col("key").cast("string"), "attempt", "node").collect()
    assert [tuple(row) for row in late] == [("old", 1, "both")]
    assert_equal(bench)
    # an attempt that is ahead moves the clock as its record would have: what waits behind it is let go by drained clocks
    assert ask(bench, {bad_records(bench)["next"]: "p-next"}) == 1
    bench.run(drain=True)
    assert told() - before == {(None, "p-next", "unmatched", 1)}
    plan = ledger(bench).history(spark).plan
    assert plan is not None
    assert set(plan.clocks) == {0}
    assert_equal(bench)


# What a run passes that takes requests of both topics: which passage, and of what.
STEPS = (
    "bronze.before/first:1", "bronze.after/first:1", "bronze.before/second:1", "bronze.after/second:1",
    "ingest.before:1", "ingest.before:3", "ingest.after:2", "plan.before:1", "plan.after:1", "publish.before:1",
    "publish.after:1", "quarantine.before:1", "quarantine.after:1", "finish.before:1", "finish.after:1",
)  # fmt: skip


@pytest.mark.parametrize(
    "steps",
    [
        (STEPS[3],),
        pytest.param((STEPS[1], STEPS[3], STEPS[5], STEPS[9]), marks=pytest.mark.soak),
        pytest.param(STEPS, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
    ],
    ids=["one", "some", "all"],
)
def test_wherever_a_run_fails_what_is_replayed_is_there_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]
) -> None:
    """Each run goes on where the one before failed, and has a view, a profile and a view that fails again to replay."""
    views, users = fresh_topics(broker, 2)
    failing, plain = (Bench(spark, broker, tmp_path / name, page_views(views, users)) for name in ("failing", "plain"))
    count = range(len(steps))
    broker.produce(users, [("known", "EU", ZERO)])
    broker.produce(users, [(f"u{number}", BAD, ZERO + number) for number in count])
    broker.produce(users, [(f"u{number}", "newer", ZERO + 100) for number in count if number % 2])
    # each partition has a record that is dated later, so that it does not matter which attempt comes in which batch
    broker.produce(views, [("known", f"/in-{partition}", ZERO + 200, partition) for partition in (0, 1)])
    broker.produce(views, [(f"v{number}", BAD, ZERO + 100 + number) for number in count])
    broker.produce(views, [(f"w{number}", BAD, ZERO + 100 + number) for number in count])
    failing.run(snapshot_every=1, max_bad_share=1.0)
    shutil.copytree(failing.root, plain.root)
    bad = bad_records(plain)
    mended = [
        {bad[f"u{number}"]: f"r{number}", bad[f"v{number}"]: f"/{number}", bad[f"w{number}"]: None} for number in count
    ]
    for step, asked in zip(steps, mended, strict=True):
        ask(failing, asked)
        name = step.replace("/first", f"/{views}").replace("/second", f"/{users}")
        monkeypatch.setenv(failpoints.VARIABLE, f"{name}:raise")
        with pytest.raises(Exception, match=r"failpoint|LS505"):
            failing.run(snapshot_every=1)
    monkeypatch.delenv(failpoints.VARIABLE)
    failing.run(snapshot_every=1)
    ask(plain, {place: value for asked in mended for place, value in asked.items()})
    broker.produce(views, [(f"u{number}", "/last", ZERO + 2_000) for number in count])
    plain.run(snapshot_every=1)  # what is replayed and what looks it up, in one run
    failing.run(snapshot_every=1)
    assert facts(failing) == facts(plain)
    rows = {(page, region) for user, page, region, _ in results(failing) if user.startswith("u")}
    assert rows == {("/last", "newer" if number % 2 else f"r{number}") for number in count}
    decided = with_decisions(failing)
    assert {state for (key, _), state in decided.items() if key.startswith("v")} == {"replayed"}
    assert decided == with_decisions(plain)
    assert_equal(failing)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_attempts_are_trimmed_as_others_and_a_table_s_behind_a_trim_are_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, users = fresh_topics(broker, 2)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    broker.produce(users, [("ann", BAD, ZERO), ("bob", BAD, ZERO), ("cid", "US", ZERO)])
    broker.produce(views, [("cid", BAD, ZERO + 20), ("dora", BAD, ZERO + 30)])
    bench.run()
    bad = bad_records(bench)
    ask(bench, {bad["ann"]: "AS", bad["cid"]: "/1"})
    bench.run()
    trimmed = maintain(spark, bench.lake, bench.topology, Options(retention_ms=0))
    assert trimmed.trimmed_to_cycle == 2
    rows = bench.bronze(users).select(F.col("key").cast("string"), "attempt").collect()
    assert {tuple(row) for row in rows} == {("ann", 1), ("cid", 0)}, "the row of each key, whichever attempt it is"
    assert bench.bronze(views).count() == 0
    ask(bench, {bad["bob"]: "EU", bad["dora"]: "/2"})
    broker.produce(views, [("ann", "/a", ZERO + 1_000), ("bob", "/b", ZERO + 1_000)])
    bench.run()
    assert results(bench) == {
        ("cid", "/1", "US", 1), ("dora", "/2", "<unknown>", 1), ("ann", "/a", "AS", 0), ("bob", "/b", "<unknown>", 0)
    }  # fmt: skip
    reasons = quarantined.with_decisions(spark, ledger(bench)).where("state = 'superseded'").select("reason").collect()
    assert [row[0] for row in reasons] == [attempts.TRIMMED]
    found = verify(spark, bench.lake, bench.topology)
    assert found.from_cycle == 3
    assert {one.what: one.examples for one in found.findings if one.differs} == {}


@pytest.mark.soak
def test_by_event_time_attempts_wait_as_their_partition_does(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    orders, payments = fresh_topics(broker, 1, ("Orders", "Payments"))
    bench = Bench(spark, broker, tmp_path, order_payments(orders, payments))
    broker.produce(orders, [("o0", BAD, ZERO), *((f"o{n}", str(n), ZERO + 100 * n) for n in range(1, 10))])
    broker.produce(payments, [("o1", "p1", ZERO + 150), ("o4", "p4", ZERO + 450)])
    bench.run(settling="event_time")
    assert ask(bench, {bad_records(bench)["o0"]: "mended"}) == 1
    bench.run(settling="event_time")
    assert bench.bronze(orders).where("attempt = 1").count() == 1
    assert bench.quarantine().where("code = 'LATE'").count() == 0, "orders are ahead of the frontier"
    broker.produce(payments, [("x", "px", ZERO + 2_000)])
    broker.produce(orders, [("x", "1", ZERO + 2_000)])
    bench.run(settling="event_time")
    late = bench.quarantine().where("code = 'LATE'").select("attempt").collect()
    assert [row[0] for row in late] == [1]
    found = verify(spark, bench.lake, bench.topology)  # the newest records are in no plan yet, as they should
    assert {one.what: one.examples for one in found.findings if one.differs} == {}


@pytest.mark.soak
def test_a_repaired_row_of_a_compared_delta_table_is_not_undone_by_the_next_comparison(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    folder = str(tmp_path / "customers")
    columns = "id string, region string, ms bigint"
    spark.createDataFrame([("ann", "US", 5), ("bob", "EU", -5)], columns).write.format("delta").save(folder)
    (views, _) = fresh_topics(broker, 1)
    builder = StreamsBuilder("customers")
    stream = builder.stream(views, key=Text("id"), value=Text("page"))
    table = builder.table(
        "customers", delta=folder, changes="snapshot", key="id string", value="region string, ms bigint",
        event_time=EventTime("ms", fallback=False),
    )  # fmt: skip
    stream.left_join(table, lambda view, one: {"page": view.page, "region": one.region}).to_delta("silver.seen")
    bench = Bench(spark, broker, tmp_path / "lake", builder.build())
    broker.produce(views, [("bob", "/1", ZERO + 10)])
    bench.run()
    (code,) = bench.quarantine().select("code").first()
    assert code == "NO_TIMESTAMP"
    (place,) = bad_records(bench).values()
    assert ask(bench, {place: '{"region": "EU", "ms": 7}'}) == 1
    bench.run()
    more = spark.createDataFrame([("cid", "AS", 9)], columns)
    more.write.format("delta").mode("append").save(folder)
    broker.produce(views, [("bob", "/2", ZERO + 20)])
    bench.run()
    rows = bench.silver("silver.seen").select("page", "region").collect()
    assert {tuple(row) for row in rows} == {("/1", None), ("/2", "EU")}
    assert bench.quarantine().count() == 1
    assert_equal(bench)


@pytest.mark.soak
def test_a_mended_reader_reads_records_as_they_are_and_discarded_ones_stay_where_they_are(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    (topic, _) = fresh_topics(broker, 1)

    def reading(value: Json | RegistryJson) -> Bench:
        builder = StreamsBuilder("clicks")
        builder.stream(topic, key=Text("user"), value=value).to_delta("silver.clicks")
        return Bench(spark, broker, tmp_path, builder.build())

    bench = reading(Json("page string"))
    framed = b"\0\0\0\0\1" + b'{"page": "/framed"}'
    broker.produce(topic, [("ann", framed, ZERO + 10), ("bob", None, ZERO + 20), ("cid", BAD, ZERO + 30)])
    bench.run()
    made = deciding.discard(spark, ledger(bench), Selection(Filters(codes=("NULL_VALUE",))), "as it should be")
    assert [one.records for one in made] == [1]
    malformed = Selection(Filters(codes=("MALFORMED_VALUE",)))
    mended = reading(RegistryJson("page string"))
    chosen = deciding.chosen(spark, ledger(mended), malformed)
    told = [attempts.outlook(spark, ledger(one), one.topology, chosen) for one in (bench, mended)]
    assert [one.refused for (one,) in told] == [{"MALFORMED_VALUE": 2}, {"MALFORMED_VALUE": 1}]
    assert ask(mended, filters=malformed.filters) == 2
    mended.run(accept_change=True)
    rows = mended.silver("silver.clicks").select("page", "_lineage.trigger.attempt").collect()
    assert [tuple(row) for row in rows] == [("/framed", 1)]
    assert with_decisions(mended) == {
        ("ann", 0): "replayed", ("bob", 0): "discarded", ("cid", 0): "replayed", ("cid", 1): "open",
    }  # fmt: skip
