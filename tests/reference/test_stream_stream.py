"""The windowed join by hand: where the two rule sets agree, and every place where they do not."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.reference.making import Event, play, record, rows, slash, values
from tests.reference.order import timed
from tests.reference.records import Record
from tests.reference.stream_stream import StrictJoin
from tests.reference.stream_stream_kafka import KafkaJoin
from tests.reference.windows import How, Windows

RuleSet = type[StrictJoin] | type[KafkaJoin]
BOTH = pytest.mark.parametrize("make", [StrictJoin, KafkaJoin])
TEN = Windows(10, 10)


@BOTH
def test_both_ends_of_the_window_belong_to_it(make: RuleSet) -> None:
    events: list[Event] = [("left", "k", "l", 20), ("right", "k", "early", 10), ("right", "k", "late", 30)]
    assert rows(play(make("inner", Windows(10, 10, 100), slash), events)) == [
        ("k", "l/early", 20, 2),
        ("k", "l/late", 30, 3),
    ]
    outside: list[Event] = [("left", "k", "l", 20), ("right", "k", "early", 9), ("right", "k", "late", 31)]
    assert values(make("inner", Windows(10, 10, 100), slash), *outside) == []


@BOTH
def test_an_unmatched_row_comes_out_once_the_clock_is_past_its_close(make: RuleSet) -> None:
    join = make("left", Windows(10, 10, 5), slash)
    events: list[Event] = [("left", "k", "l", 0), ("right", "x", "r", 15), ("right", "x", "r", 16)]
    assert rows(play(join, events)) == [("k", "l/.", 0, 3)]


@BOTH
def test_closed_rows_come_before_the_matches_by_time_side_and_key(make: RuleSet) -> None:
    events: list[Event] = [
        ("left", "b", "b", 1),
        ("left", "a", "a", 1),
        ("right", "c", "c", 1),
        ("left", "k", "old", 0),
        ("right", "m", "m", 95),
        ("left", "m", "m", 100),
    ]
    results = values(make("outer", Windows(90, 90), slash), *events)
    assert results == ["old/.", "./c", "a/.", "b/.", "m/m"]


@BOTH
def test_partners_come_by_time_then_arrival(make: RuleSet) -> None:
    events: list[Event] = [("left", "k", name, ts) for name, ts in (("b", 5), ("a", 3), ("c", 5))]
    assert values(make("inner", TEN, slash), *events, ("right", "k", "r", 6)) == ["a/r", "b/r", "c/r"]


@BOTH
def test_null_keys_and_values(make: RuleSet) -> None:
    events: list[Event] = [
        ("left", None, "l", 1),
        ("right", None, "r", 2),
        ("left", "k", None, 3),
        ("left", None, None, 4),
    ]
    assert values(make("inner", TEN, slash), *events) == []
    assert values(make("left", TEN, slash), *events) == ["l/."]
    assert values(make("outer", TEN, slash), *events) == ["l/.", "./r"]


@BOTH
def test_a_self_join_meets_the_older_ones_first_then_itself(make: RuleSet) -> None:
    join, results = make("inner", TEN, slash), []
    for offset, ts in ((1, 1), (2, 3)):
        one = record("left", "k", offset, ts, offset=offset)
        results += join.left(one) + join.right(one)
    assert [result.value for result in results] == ["1/1", "2/1", "1/2", "2/2"]


def test_out_of_order_and_unmatched() -> None:
    """Kafka says so at once, although it may still match within grace; strict waits and has one answer."""
    events: list[Event] = [("left", "x", "x", 100), ("left", "k", "l", 50), ("right", "k", "r", 55)]
    windows = Windows(10, 10, 100)
    assert values(KafkaJoin("left", windows, slash), *events) == ["l/.", "l/r"]
    assert values(StrictJoin("left", windows, slash), *events) == ["l/r"]


def test_lateness() -> None:
    """Strict judges a record by the task's clock, Kafka by what the other side's store still has."""
    events: list[Event] = [("left", "k", "l", 0), ("right", "x", "x", 100), ("right", "k", "r", 5)]
    strict = StrictJoin("inner", TEN, slash)
    assert values(strict, *events) == []
    assert [one.offset for one in strict.late] == [3]
    assert values(KafkaJoin("inner", TEN, slash), *events) == ["l/r"]


def test_what_a_store_still_has() -> None:
    events: list[Event] = [("left", "k", "gone", 0), ("left", "k", "there", 1), ("left", "x", "x", 20)]
    assert values(KafkaJoin("inner", TEN, slash), *events, ("right", "k", "r", 5)) == ["there/r"]
    null_moves: list[Event] = [("left", "k", "l", 0), ("left", "k", None, 20), ("right", "k", "r", 5)]
    assert values(KafkaJoin("inner", TEN, slash), *null_moves) == ["l/r"]
    assert values(KafkaJoin("inner", TEN, slash, in_memory=True), *null_moves) == []


def test_a_record_without_key_or_value_moves_the_clock_but_flushes_only_under_strict() -> None:
    events: list[Event] = [
        ("left", "k", "l", 0),
        ("right", None, "r", 50),
        ("left", "x", None, 60),
        ("right", "x", "r", 60),
    ]
    assert rows(play(StrictJoin("left", TEN, slash), events)) == [("k", "l/.", 0, 2)]
    assert rows(play(KafkaJoin("left", TEN, slash), events)) == [("k", "l/.", 0, 4)]


def test_kafka_clips_windows_at_the_epoch() -> None:
    events: list[Event] = [("left", "k", "l", 0), ("right", "k", "r", 2)]
    after_only = Windows(-3, 10)
    assert values(KafkaJoin("inner", after_only, slash), *events) == ["l/r"]
    assert values(StrictJoin("inner", after_only, slash), *events) == []


def test_windows_that_cannot_be() -> None:
    for before, after, grace in ((-5, 4, 0), (1, 1, -1)):
        with pytest.raises(ValueError, match="negative"):
            Windows(before, after, grace)


def test_every_task_has_its_own_clock() -> None:
    """A record is judged, kept and closed by its own task; a key in two tasks still meets."""
    join = StrictJoin("left", TEN, slash)
    assert join.left(record("left", "k", "l", 0, task=0)) == []
    assert join.right(record("right", "x", "x", 100, task=1)) == []
    assert join.right(record("right", "k", "far", 100, task=1)) == []
    assert values(join, ("right", "k", "near", 5)) == ["l/near"]
    assert join.late == []


def history(rng: random.Random) -> list[Record]:
    """Up to four tasks, idle ones and skewed clocks among them."""
    records = []
    for source in ("left", "right"):
        for partition in range(rng.randint(1, 4)):
            start = rng.choice([0, 0, 40])
            for offset in range(rng.choice([0, 5, 12])):
                start += rng.randint(0, 6)
                ts = max(0, start - rng.choice([0, 0, 0, 5, 30]))
                key, value = rng.choice(["a", "b", "c", None]), rng.choice([f"{partition}.{offset}"] * 9 + [None])
                moved = rng.choice([None, None, rng.randint(0, 3)])
                records.append(Record(source, partition, offset, ts, key, value, moved_to=moved))
    end = [Record("left", task, 99, 10_000, f"end{task}", "end") for task in range(4)]
    return timed(records) + end


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_under_strict_every_record_has_one_fate(how: How) -> None:
    rng = random.Random(20261121)
    seen: Counter[str] = Counter()
    for _ in range(300):
        join = StrictJoin(how, Windows(rng.randint(0, 20), rng.randint(0, 20), rng.randint(0, 10)), slash)
        records = history(rng)
        results = [row for one in records for row in (join.left(one) if one.source == "left" else join.right(one))]
        matched = {one.at for row in results if row.kind == "matched" for one in row.contributors if one}
        alone = [one.at for row in results if row.kind == "unmatched" for one in row.contributors if one]
        late = [one.at for one in join.late]
        assert len(set(alone)) == len(alone)
        assert not matched & set(alone)
        assert not matched & set(late)
        assert not set(alone) & set(late)
        for one in records:
            outer = how == "outer" or (how == "left" and one.source == "left")
            if outer and one.value is not None and one.ts < 10_000:
                assert (one.at in matched) + (one.at in alone) + (one.at in late) == 1
        seen.update(matched=len(matched), alone=len(alone), late=len(late))
    assert min(seen["matched"], seen["late"]) > 100, seen
