"""bronze_rows: what one batch becomes, checked against a fold over each partition's records."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from tests.operators.plans import SETTINGS, cost
from tests.operators.plans import settings as session

from lakestreams import EventTime, Json, Text
from lakestreams.engine.ingest.bronze_rows import as_read, bronze_rows, bronze_schema, in_any_order, placing
from lakestreams.engine.ingest.table_rows import event_time_of, judged_rows
from lakestreams.engine.ledger.plans import Position
from lakestreams.engine.runtime.tuning import SMALL_INPUT
from lakestreams.topology.endpoints import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW, MAX_FUTURE = 1_000_000, 1_000  # ms
KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
SOURCE = Source(
    name="views", topic="views", kind="stream", key=Text("user"), value=Json("ms bigint, page string"),
    event_time=EventTime("ms"), max_future_ms=MAX_FUTURE,
)  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A record in Kafka: its own timestamp, and a key and value that may be null or broken."""

    partition: int
    offset: int
    timestamp_ms: int
    ms: int | None  # the field in the value; None leaves it out
    fault: str = ""  # key, value; or null_key, null_value, which are none

    @property
    def key(self) -> bytes | None:
        return {"null_key": None, "key": b"\xff"}.get(self.fault, b"alice")

    @property
    def value(self) -> bytes | None:
        field = "" if self.ms is None else f'"ms": {self.ms}, '
        return {"null_value": None, "value": b"{"}.get(self.fault, f'{{{field}"page": "/"}}'.encode())


def fold(records: Sequence[Sent], positions: Mapping[int, Position]) -> dict[tuple[int, int], tuple[Any, ...]]:
    """The specification: event time, stream time and error of each record that is not below its partition's position."""
    clocks = {partition: position.stream_time_ms for partition, position in positions.items()}
    found = {}
    for record in sorted(records, key=lambda one: (one.partition, one.offset)):
        if record.partition in positions and record.offset < positions[record.partition].offset:
            continue
        field = record.ms if record.fault not in {"value", "null_value"} else None
        own = record.timestamp_ms if record.timestamp_ms >= 0 else None
        time = field if field is not None and field >= 0 else own
        error = {"key": "MALFORMED_KEY", "value": "MALFORMED_VALUE"}.get(record.fault)
        error = error or ("NO_TIMESTAMP" if time is None else "FUTURE_TIMESTAMP" if time > NOW + MAX_FUTURE else None)
        clock = clocks.get(record.partition, -1)
        if error is None and time is not None:
            clock = max(clock, time)
        clocks[record.partition] = clock
        found[record.partition, record.offset] = (time, clock, error)
    return found


def batch(spark: SparkSession, records: Sequence[Sent]) -> DataFrame:
    rows = [
        (
            None if one.key is None else bytearray(one.key),
            None if one.value is None else bytearray(one.value),
            *(SOURCE.topic, one.partition, one.offset),
            dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=one.timestamp_ms),  # noqa: UP017
            *(0, None),
        )
        for one in records
    ]
    return spark.createDataFrame(rows, KAFKA)


def produced(
    spark: SparkSession, records: Sequence[Sent], positions: Mapping[int, Position]
) -> dict[tuple[int, int], tuple[Any, ...]]:
    rows = bronze_rows(batch(spark, records), SOURCE, positions, seq=3, ingest_time_ms=NOW)
    found = rows.select("partition", "offset", "event_time_ms", "stream_time_ms", "error.code").collect()
    assert len({(row[0], row[1]) for row in found}) == len(found)
    return {(row[0], row[1]): tuple(row)[2:] for row in found}


def generated(rows: DataFrame) -> str:
    """The code that Spark generates for the plan as it is made."""
    text = io.StringIO()
    compiled = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.maxPlanStringLength": str(10**7),
    }
    with session(rows.sparkSession, SETTINGS | compiled), contextlib.redirect_stdout(text):
        rows.explain("codegen")
    return "\n".join(one.split("== Subtree")[0] for one in text.getvalue().split("Generated code:")[1:])


TIMES = st.one_of(st.integers(-2, 40), st.integers(NOW + MAX_FUTURE - 1, NOW + MAX_FUTURE + 2))
RECORD = st.builds(
    Sent, partition=st.just(0), offset=st.just(0), timestamp_ms=TIMES, ms=st.one_of(st.none(), TIMES),
    fault=st.sampled_from(["", "", "", "", "key", "value", "null_key", "null_value"]),
)  # fmt: skip
PARTITION = st.tuples(
    st.lists(RECORD, max_size=12),
    st.one_of(st.none(), st.builds(Position, offset=st.integers(0, 9), stream_time_ms=st.integers(-1, 30))),
    st.integers(1, 3),  # gaps between offsets: transaction markers, compaction
)


@pytest.mark.slow
@settings(max_examples=4, derandomize=True, suppress_health_check=list(HealthCheck))
@given(histories=st.lists(PARTITION, min_size=40, max_size=60), seed=st.integers(0, 2**16))
def test_stream_time_is_the_fold_of_each_partition(spark: SparkSession, histories, seed: int) -> None:
    records, positions = [], {}
    for partition, (sent, position, gap) in enumerate(histories):
        records += [replace(one, partition=partition, offset=index * gap) for index, one in enumerate(sent)]
        if position is not None:
            positions[partition] = position
    random.Random(seed).shuffle(records)  # a batch has no order of its own
    assert produced(spark, records, positions) == fold(records, positions)


def test_two_batches_give_what_one_gives(spark: SparkSession) -> None:
    rng = random.Random(5)
    faults = ["", "", "", "key", "value", "null_key", "null_value"]
    records = [
        Sent(partition, offset, rng.randint(-1, 50), rng.choice([None, rng.randint(-1, 50)]), rng.choice(faults))
        for partition in range(20)
        for offset in range(10)
    ]
    whole = produced(spark, records, {})
    cut = {partition: rng.randint(0, 10) for partition in range(20)}
    first = produced(spark, [one for one in records if one.offset < cut[one.partition]], {})
    positions = {
        partition: Position(end, max((clock for at, (_, clock, _) in first.items() if at[0] == partition), default=-1))
        for partition, end in cut.items()
    }
    # the second batch comes with all that was there before: a checkpoint that lies behind bronze
    second = produced(spark, records, positions)
    assert first.keys().isdisjoint(second)
    assert first | second == whole == fold(records, {})


def test_what_moves_stream_time_and_what_does_not(spark: SparkSession) -> None:
    far = NOW + MAX_FUTURE
    records = [
        Sent(0, 0, 5, None),
        Sent(0, 1, 50, None, "key"),
        Sent(0, 2, 50, 50, "value"),
        Sent(0, 3, -1, None),
        Sent(0, 4, 5, far + 1),
        Sent(0, 5, 7, None, "null_key"),
        Sent(0, 6, 9, None, "null_value"),
        Sent(0, 7, 3, None),
        Sent(0, 8, 5, far),
        Sent(1, 0, 5, None, "value"),
        Sent(1, 1, 0, None),
    ]
    assert produced(spark, records, {}) == {
        (0, 0): (5, 5, None),
        (0, 1): (50, 5, "MALFORMED_KEY"),
        (0, 2): (50, 5, "MALFORMED_VALUE"),
        (0, 3): (None, 5, "NO_TIMESTAMP"),
        (0, 4): (far + 1, 5, "FUTURE_TIMESTAMP"),
        (0, 5): (7, 7, None),
        (0, 6): (9, 9, None),
        (0, 7): (3, 9, None),
        (0, 8): (far, far, None),
        (1, 0): (5, -1, "MALFORMED_VALUE"),
        (1, 1): (0, 0, None),
    }


@pytest.mark.slow
def test_partitions_are_read_where_they_lie_or_in_fewer_tasks_with_the_same_rows(spark: SparkSession) -> None:
    records = [Sent(partition, offset, 5, 40 - offset, "") for partition in range(4) for offset in range(6)]
    news = batch(spark, records).localCheckpoint()
    spread = placing(dict.fromkeys(range(4), 3 * SMALL_INPUT // 4), "4")
    ways = in_any_order, spread, as_read
    rows = [bronze_rows(news, SOURCE, {1: Position(2, 99)}, 3, NOW, one) for one in ways]
    for one, costs in zip(rows, ({"Exchange": 1, "Sort": 1}, {"Exchange": 1, "Sort": 1}, {}), strict=True):
        assert one.columns == rows[0].columns
        assert_df_equality(one, rows[0], ignore_row_order=True)
        assert cost(one, python=True) == costs
    tasks = rows[1].groupBy(F.spark_partition_id().alias("task")).count().collect()
    assert sorted(row["count"] for row in tasks) == [4, 6, 12], "by their own numbers 3 of 4 share one"


def test_offsets_that_do_not_ascend_end_the_statement(spark: SparkSession) -> None:
    """It would be a fault of ours: a clock that goes on from such rows is wrong."""
    news = batch(spark, [Sent(0, offset, 5, 4) for offset in (1, 0)]).coalesce(1)
    with pytest.raises(Exception, match="offsets of partition 0 do not ascend"):
        bronze_rows(news, SOURCE, {}, 3, NOW, as_read).collect()


def test_code_is_the_same_whatever_the_numbers_of_a_batch(spark: SparkSession) -> None:
    """Else the JVM compiles what Spark generates for each batch anew."""
    news = batch(spark, [Sent(0, 0, 5, 4, "")]).localCheckpoint()
    numbers = [(3, NOW), (4, NOW + 77)]
    codes = []
    for seq, now in numbers:
        rows = bronze_rows(news, SOURCE, {0: Position(0, seq)}, seq, now)
        codes.append(generated(rows))
        assert [(row["seq"], row["ingest_time_ms"]) for row in rows.collect()] == [(seq, now)]
    assert codes[0] == codes[1]
    assert codes[0].count("class GeneratedIteratorForCodegenStage") >= 1


@pytest.mark.parametrize(
    ("news", "shuffles"),
    [
        ({0: SMALL_INPUT, 1: SMALL_INPUT}, None),
        ({0: SMALL_INPUT, 1: SMALL_INPUT}, "auto"),
        ({}, "4"),  # the offsets of a batch could not be read
        ({3: 5 * SMALL_INPUT}, "4"),
        ({0: SMALL_INPUT, 1: SMALL_INPUT, 7: SMALL_INPUT}, "200"),
    ],
)
def test_partitions_with_many_records_are_read_where_they_lie(news: dict[int, int], shuffles: str | None) -> None:
    assert placing(news, shuffles) is as_read


@pytest.mark.parametrize(
    ("news", "shuffles", "count"),
    [
        (dict.fromkeys(range(3), SMALL_INPUT), "2", 2),
        (dict.fromkeys(range(10), SMALL_INPUT // 4), "200", 3),  # two and a half
        ({0: SMALL_INPUT // 2, 1: SMALL_INPUT // 2}, "4", 1),
        ({0: SMALL_INPUT, 1: SMALL_INPUT}, "1", 1),
    ],
)
def test_others_are_brought_to_fewer_tasks(news: dict[int, int], shuffles: str, count: int) -> None:
    """Each task writes a file."""
    numbers, tasks = placing(news, shuffles).args  # type: ignore[attr-defined]
    assert tasks == count == len(set(numbers.values()))


@pytest.mark.parametrize("kind", ["stream", "table"])
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(EventTime(), marks=pytest.mark.slow),
        pytest.param(EventTime("ms"), marks=pytest.mark.slow),
        EventTime("ms", fallback=False),
        EventTime("at"),
    ],
)
def test_workers_and_sql_judge_alike(spark: SparkSession, kind: Any, rule: EventTime) -> None:
    """Records of topics are judged by workers, rows of Delta tables by SQL."""
    source = replace(SOURCE, kind=kind, value=Json("ms bigint, at timestamp_us"), event_time=rule)
    fields = [None, -1, 0, 7, NOW + MAX_FUTURE, NOW + MAX_FUTURE + 1]
    values = [None, *(json.dumps({"ms": one, "at": one and one * 1_000 - 1}).encode() for one in fields)]
    cells = [(value, own) for value in values for own in (-1, 0, 5)]
    moment = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the session's zone is UTC
    rows = [
        (b"k", value, source.topic, 0, at, moment + dt.timedelta(milliseconds=own), 0, None)
        for at, (value, own) in enumerate(cells)
    ]
    by_workers = bronze_rows(spark.createDataFrame(rows, KAFKA), source, {0: Position(0, 3)}, 9, NOW).localCheckpoint()
    timed = by_workers.withColumn("event_time_ms", event_time_of(source))
    by_sql = judged_rows(timed, source, 3, 9, NOW)
    assert_df_equality(by_sql, by_workers, ignore_row_order=True, ignore_nullable=True)
    assert by_workers.where("error is null").count() > 3


def test_a_row_has_the_columns_of_its_table(spark: SparkSession) -> None:
    headers = [("trace", bytearray(b"\x01")), ("none", None)]
    moment = dt.datetime(1970, 1, 1, 0, 0, 0, 5_000)  # noqa: DTZ001 - the session's zone is UTC
    row = (bytearray(b"alice"), bytearray(b'{"page": "/"}'), "views", 2, 7, moment, 1, headers)
    rows = bronze_rows(spark.createDataFrame([row], KAFKA), SOURCE, {2: Position(7, 4)}, 3, NOW)
    wanted = bronze_schema(spark, SOURCE)
    assert [(f.name, f.dataType.simpleString()) for f in rows.schema] == [
        (f.name, f.dataType.simpleString()) for f in wanted
    ]
    found = rows.first().asDict(recursive=True)
    assert found == {
        "topic": "views", "partition": 2, "offset": 7, "attempt": 0, "key": b"alice", "value": b'{"page": "/"}',
        "headers": [{"key": "trace", "value": b"\x01"}, {"key": "none", "value": None}], "timestamp_ms": 5,
        "timestamp_type": 1, "event_time_ms": 5, "ingest_time_ms": NOW, "stream_time_ms": 5, "seq": 3, "error": None,
        "k": {"user": "alice"}, "v": {"ms": None, "page": "/"},
    }  # fmt: skip


def test_a_broken_record_keeps_its_bytes_and_says_why(spark: SparkSession) -> None:
    records = [Sent(0, 0, 5, None, "key"), Sent(0, 1, 5, None, "value"), Sent(0, 2, -1, None), Sent(0, 3, 5, NOW * 9)]
    rows = bronze_rows(batch(spark, records), SOURCE, {}, 1, NOW).orderBy("offset")
    found = rows.select("key", "value", "k", "v", "error.message", F.col("v").isNull().alias("no_value")).collect()
    assert [(row["key"], row["value"]) for row in found] == [(one.key, one.value) for one in records]
    assert [row["message"] for row in found] == [
        "not valid UTF-8",
        "does not fit ms bigint, page string",
        "field 'ms' is missing or negative",
        f"event time {NOW * 9} is more than {MAX_FUTURE} ms after ingest",
    ]
    assert found[0]["k"] is None
    assert found[0]["v"]["page"] == "/", "what could be read is there"
    assert found[1]["no_value"]


def test_a_tombstone_is_no_error_where_event_time_is_a_field(spark: SparkSession) -> None:
    table = replace(SOURCE, kind="table", event_time=EventTime("ms", fallback=False))
    rows = bronze_rows(batch(spark, [Sent(0, 0, 5, None, "null_value")]), table, {}, 1, NOW)
    assert [row["error"] for row in rows.collect()] == [None]
