"""What a worker makes of raw records, without Spark: beside the fold of each partition."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.engine.test_bronze_rows import NOW, SOURCE, Sent, fold

from lakestreams import EventTime, Json, Text
from lakestreams.engine.ingest import row_counts
from lakestreams.engine.ingest.reading import OutOfOrder, Reading
from lakestreams.engine.ledger.plans import Position
from lakestreams.formats.base import Format
from lakestreams.operators.homes import homes
from lakestreams.topology.endpoints import Source

RAW = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("attempt", pa.int32())),
        *(("key", pa.binary()), ("value", pa.binary())),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        *(("timestamp_ms", pa.int64()), ("timestamp_type", pa.int32())),
    ]
)
FAULTS = ["", "", "", "key", "value", "null_key", "null_value"]


def batch(records: Sequence[Sent]) -> Any:
    rows = [
        (SOURCE.topic, one.partition, one.offset, 0, one.key, one.value, None, one.timestamp_ms, 0) for one in records
    ]
    return pa.RecordBatch.from_pylist([dict(zip(RAW.names, row, strict=True)) for row in rows], schema=RAW)


def judged(
    source: Source, batches: Sequence[Any], positions: dict[int, Position] | None = None
) -> list[dict[str, Any]]:
    clocks = {partition: at.stream_time_ms for partition, at in (positions or {}).items()}
    found = Reading.of(source).judged(clocks, 3, NOW, batches)
    return [row for one in found for row in one.to_pylist()]


def cut(rng: random.Random, rows: Sequence[Sent]) -> Iterator[Any]:
    places = sorted(rng.choices(range(len(rows) + 1), k=5))
    return (batch(rows[start:end]) for start, end in itertools.pairwise([0, *places, len(rows)]))


@pytest.mark.parametrize("seed", range(50))
def test_every_partition_is_folded_however_its_records_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    times = [*range(-2, 40), NOW + 999, NOW + 1_000, NOW + 1_001]
    records = [
        Sent(partition, offset * 3, rng.choice(times), rng.choice([None, *times]), rng.choice(FAULTS))
        for partition in range(4)
        for offset in range(rng.randint(0, 30))
    ]
    positions = {1: Position(0, 25), 2: Position(0, -1)}
    rows = judged(SOURCE, list(cut(rng, records)), positions)
    found = {
        (row["partition"], row["offset"]): (
            row["event_time_ms"], row["stream_time_ms"], row["error"] and row["error"]["code"]
        )
        for row in rows
    }  # fmt: skip
    assert found == fold(records, positions)
    assert {(row["seq"], row["ingest_time_ms"]) for row in rows} <= {(3, NOW)}


@pytest.mark.parametrize("most", [2, 4, 64])
@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_the_same_however_records_are_cut(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has as many records as there is room for, but for a partition's last one. They are no more than so many."""
    monkeypatch.setattr(row_counts, "PIECE", 7)
    monkeypatch.setattr(row_counts, "_MOST_PIECES", most)
    rng = random.Random(seed)
    records = [
        Sent(partition, offset * 3, rng.randint(0, 90_000), None, rng.choice(FAULTS))
        for partition in range(3)
        for offset in range(rng.choice([0, 7, 14, 30]))
    ]

    def text() -> str:
        found = [one.column(row_counts.COUNTS) for one in
                 Reading.of(SOURCE).judged({}, 3, NOW, cut(rng, records), counted=True)]  # fmt: skip
        assert sum(len(one) - one.null_count for one in found) == bool(records)
        return found[-1][-1].as_py() if found else "[]"

    first = text()
    assert text() == first
    pieces = row_counts.pieces([first, first])
    for partition in range(3):
        offsets = [one.offset for one in records if one.partition == partition]
        own = pieces.get(partition, [])
        size = next(7 * 2**times for times in range(9) if len(offsets) <= most * 7 * 2**times)
        assert [(one["first"], one["last"], one["records"]) for one in own] == [
            (part[0], part[-1], len(part)) for part in (offsets[at : at + size] for at in range(0, len(offsets), size))
        ]
        assert len(own) <= most
        if own:
            monkeypatch.setattr(row_counts, "PIECE", 1_000)
            assert row_counts.total(own) == row_counts.pieces([text()])[partition][0]
            monkeypatch.setattr(row_counts, "PIECE", 7)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("law", ["murmur2", "crc32"])
def test_it_is_noted_by_which_law_keys_lie_at_home(law: str, size: int) -> None:
    """However few are looked at together. Records without a key, or a readable one, lie anywhere."""
    place = {"crc32": lambda key: zlib.crc32(key) % 3, "murmur2": lambda key: homes(pa.array([key]), 3).item()}[law]
    keys: dict[int, list[bytes | None]] = {partition: [None, b"\xff"] for partition in range(3)}
    for number in range(330):
        key = b"k%d" % (number % 160)
        keys[place(key)].append(key)
    everywhere: dict[int, Any] = {partition: {law: []} for partition in range(3)}
    nowhere: dict[int, Any] = {partition: {} for partition in range(3)}
    nothing: dict[int, Any] = dict.fromkeys(range(3))
    assert noted(keys, size) == everywhere
    assert noted(keys, size, partitions=0) == nothing, "nobody asks"
    assert noted(keys, size, partitions=4) == nowhere
    assert noted(keys, size, key=Json("user string")) == everywhere, "as it is read"
    assert noted(keys, size, key=Json("user string, n int")) == nowhere
    for text in (b"beat 1", b"beat"):  # one of them at least lies elsewhere
        keys[1].append(text)
    beats = sorted(text for text in ("beat", "beat 1") if place(text.encode()) != 1)
    assert beats
    assert noted(keys, size) == everywhere | {1: {law: beats}}
    keys[1].append(next(b"x" * long for long in range(41, 99) if place(b"x" * long) != 1))
    assert noted(keys, size) == everywhere | {1: {}}, "too long to be noted"
    keys[2] += [b"beat%d" % number for number in range(60)]
    assert noted(keys, size) == everywhere | {1: {}, 2: {}}, "too many"


def noted(
    keys: dict[int, list[bytes | None]], size: int, key: Format = SOURCE.key, partitions: int = 3
) -> dict[int, dict[str, list[Any]] | None]:
    """Partition to what is noted of it, of records in batches of so many."""
    quoted = {one: b'{"user": "%s"}' % one for own in keys.values() for one in own if one} if key != SOURCE.key else {}
    rows = [
        {"topic": "t", "partition": partition, "offset": offset, "attempt": 0, "timestamp_ms": 5,
         "key": quoted.get(one or b"", one), "value": b'{"ms": 7}'}
        for partition, own in keys.items() for offset, one in enumerate(own)
    ]  # fmt: skip
    batches = [pa.RecordBatch.from_pylist(rows[at : at + size], RAW) for at in range(0, len(rows), size)]
    reading = Reading.of(replace(SOURCE, key=key))
    found = list(reading.judged({}, 3, NOW, batches, counted=True, partitions=partitions))
    counted = row_counts.pieces([found[-1].column(row_counts.COUNTS)[-1].as_py()])
    return {partition: row_counts.total(own).get("homes") for partition, own in counted.items()}


ODD = (b'{"page": "/\\u0031"}', b'{"page": "a", "page": "b"}', b'{"page": "/", "n": ' + b"9" * 400 + b"}", b"{")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        (Text("k"), Json("page string"), {0: 4, 1: 1}),
        (Json("user string"), Json("page string"), {0: 5, 1: 1}),
        (Json("user string"), Text("v"), {0: 1, 1: 0}),
        (Text("k"), Text("v"), {0: None, 1: None}),
    ],
)
def test_it_is_counted_which_records_are_read_by_themselves(
    key: Format, value: Format, wanted: dict[int, int | None]
) -> None:
    """By key or value, each once; a null is read in no way. Formats with one way count nothing."""
    values = {0: [b'{"page": "/"}'] * 100 + [*ODD, None, b'{"page": "/"}'], 1: [b'{"page": "/"}'] * 100 + [ODD[0]]}
    rows = [
        {"partition": partition, "offset": offset, "attempt": 0, "timestamp_ms": 5, "value": one,
         "key": None if one is None else b'{"user":"a"}' if (partition, offset) != (0, 105) else ODD[1]}
        for partition, own in values.items() for offset, one in enumerate(own)
    ]  # fmt: skip
    reading = Reading.of(replace(SOURCE, key=key, value=value, event_time=EventTime()))
    found = list(reading.judged({}, 3, NOW, [pa.RecordBatch.from_pylist(rows, RAW)], counted=True))
    assert "one_by_one" not in found[-1].schema.names
    counted = row_counts.pieces([found[-1].column(row_counts.COUNTS)[-1].as_py()])
    assert {partition: row_counts.total(own)["one_by_one"] for partition, own in counted.items()} == wanted


@pytest.mark.parametrize("offsets", [(1, 0), (0, 0), (0, 2, 1)])
def test_offsets_that_do_not_ascend_are_our_own_fault(offsets: tuple[int, ...]) -> None:
    records = [Sent(0, offset, 5, 5) for offset in offsets]
    with pytest.raises(OutOfOrder, match="partition 0"):
        judged(SOURCE, [batch(records)])
    with pytest.raises(OutOfOrder):
        judged(SOURCE, [batch([one]) for one in records])


def test_partitions_may_follow_each_other_in_any_way() -> None:
    records = [Sent(0, 0, 9, 9), Sent(1, 0, 5, 5), Sent(0, 1, 3, 3), Sent(1, 1, 7, 7)]
    assert [row["stream_time_ms"] for row in judged(SOURCE, [batch(records)])] == [9, 5, 9, 7]


TIMES = Json("at timestamp, ms timestamp_ms, n int, p string")


@pytest.mark.parametrize(
    ("rule", "kind", "value", "wanted"),
    [
        (EventTime(), "stream", b'{"n": 9}', 5),
        (EventTime("n"), "stream", b'{"n": 9}', 9),
        (EventTime("n"), "stream", b'{"n": -9}', 5),
        (EventTime("n"), "stream", b"{}", 5),
        (EventTime("n"), "stream", None, 5),
        (EventTime("n", fallback=False), "stream", b"{}", None),
        (EventTime("n", fallback=False), "stream", None, None),
        (EventTime("n", fallback=False), "table", None, 5),
        (EventTime("n", fallback=False), "table", b"{}", None),
        (EventTime("n"), "table", b'{"n": 9}', 9),
        (EventTime("ms"), "stream", b'{"ms": 1700000000123}', 1_700_000_000_123),
        (EventTime("at"), "stream", b'{"at": "1970-01-01T00:00:00.001999Z"}', 1),
        (EventTime("at"), "stream", b'{"at": "1969-12-31T23:59:59.999999Z"}', 5),  # a microsecond before: negative
    ],
)
def test_where_a_records_time_comes_from(rule: EventTime, kind: Any, value: bytes | None, wanted: int | None) -> None:
    source = Source("s", "s", kind, key=Text("k"), value=TIMES, event_time=rule, max_future_ms=1 << 50)
    (row,) = judged(
        source, [pa.RecordBatch.from_pylist([{"value": value, "offset": 0, "partition": 0, "timestamp_ms": 5}], RAW)]
    )
    assert row["event_time_ms"] == wanted
    assert (row["error"] is None) == (wanted is not None)


def test_the_first_thing_that_is_wrong_is_told() -> None:
    records = [Sent(0, 0, -1, None, "key"), Sent(0, 1, -1, None, "value"), Sent(0, 2, -1, None), Sent(0, 3, 5, NOW * 9)]
    assert [row["error"] for row in judged(SOURCE, [batch(records)])] == [
        {"code": "MALFORMED_KEY", "message": "not valid UTF-8"},
        {"code": "MALFORMED_VALUE", "message": "does not fit ms bigint, page string"},
        {"code": "NO_TIMESTAMP", "message": "field 'ms' is missing or negative"},
        {"code": "FUTURE_TIMESTAMP", "message": f"event time {NOW * 9} is more than 1000 ms after ingest"},
    ]
    (own,) = judged(replace(SOURCE, event_time=EventTime()), [batch(records[2:3])])
    assert own["error"]["message"] == "the record's timestamp is missing or negative"


def test_what_is_read_stands_beside_what_was_sent() -> None:
    (row,) = judged(SOURCE, [batch([Sent(2, 7, 5, 6)])])
    assert row == {
        "topic": "views", "partition": 2, "offset": 7, "attempt": 0, "key": b"alice", "value": b'{"ms": 6, "page": "/"}',
        "headers": None, "timestamp_ms": 5, "timestamp_type": 0, "event_time_ms": 6, "ingest_time_ms": NOW,
        "stream_time_ms": 6, "seq": 3, "error": None, "k": {"user": "alice"}, "v": {"ms": 6, "page": "/"},
    }  # fmt: skip


def test_a_key_struct_is_null_where_none_of_its_columns_is_there() -> None:
    source = Source("s", "s", "stream", key=Json("a int, n struct<x: int>"), value=Text("v"))
    keys = [b'{"a": 1}', b"{}", None, b'{"n": {}}', b"{"]
    rows = judged(
        source,
        [
            pa.RecordBatch.from_pylist(
                [
                    {"key": key, "value": b"v", "partition": 0, "offset": at, "timestamp_ms": 1}
                    for at, key in enumerate(keys)
                ],
                RAW,
            )
        ],
    )
    assert [row["k"] for row in rows] == [{"a": 1, "n": None}, None, None, {"a": None, "n": {"x": None}}, None]
    assert [row["error"] is None for row in rows] == [True, True, True, True, False]
