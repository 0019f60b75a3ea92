"""The reference itself, by hand: a specification that is wrong proves nothing."""

from __future__ import annotations

from tests.reference.stream_table import STREAM, TABLE, Record, in_order, join, split, state_after


def view(offset: int, ts: int, key: str | None, page: str | None = "/", partition: int = 0, topic: str = "v") -> Record:
    return Record(topic, partition, offset, ts, key, page, STREAM)


def user(offset: int, ts: int, key: str | None, region: str | None = "eu", partition: int = 0) -> Record:
    return Record("u", partition, offset, ts, key, region, TABLE)


def brief(records: list[Record], how: str = "left") -> list[tuple[object, ...]]:
    return [(row.key, row.left, row.right, row.ts) for row in join(records, how)]


def test_a_table_record_at_the_same_time_comes_first() -> None:
    assert brief([view(0, 5, "a"), user(0, 5, "a")]) == [("a", "/", "eu", 5)]
    assert brief([view(0, 4, "a"), user(0, 5, "a")]) == [("a", "/", None, 4)]
    assert brief([view(0, 4, "a"), user(0, 5, "a")], "inner") == []


def test_a_partition_is_never_reordered() -> None:
    late = [view(0, 10, "a"), view(1, 1, "a"), user(0, 5, "a")]
    assert [time for time, _ in in_order(late)] == [5, 10, 10]
    assert brief(late) == [("a", "/", "eu", 10), ("a", "/", "eu", 1)]


def test_an_out_of_order_table_record_overwrites_a_newer_row() -> None:
    assert brief([user(0, 5, "a", "new"), user(1, 1, "a", "old"), view(0, 9, "a")]) == [("a", "/", "old", 9)]


def test_updates_and_tombstones_between_views() -> None:
    records = [user(0, 0, "a", "eu"), view(0, 1, "a"), user(1, 2, "a", "us"), view(1, 3, "a"), user(2, 4, "a", None)]
    records.append(view(2, 5, "a"))
    assert [right for _, _, right, _ in brief(records)] == ["eu", "us", None]
    assert state_after(records) == {}


def test_null_keys_and_values() -> None:
    records = [user(0, 0, None), view(0, 1, None), view(1, 2, "a", None)]
    assert brief(records) == [(None, "/", None, 1)]
    assert brief(records, "inner") == []
    assert join(records, "left")[0].kind == "unmatched"


def test_ties_between_topics_and_partitions() -> None:
    tied = [view(0, 1, "a", topic="ä"), view(0, 1, "a", topic="z"), view(0, 1, "a", topic="z", partition=1)]
    tied.append(user(0, 1, "a", partition=2))
    assert [(one.source, one.partition) for _, one in in_order(tied)] == [("u", 2), ("z", 0), ("z", 1), ("ä", 0)]


def test_lineage_names_the_stream_record_first() -> None:
    (row,) = join([user(3, 0, "a"), view(7, 1, "a", partition=2)], "inner")
    assert row.trigger == (1, STREAM, "v", 2, 7, 0)
    assert row.contributors == (("v", 2, 7, 0), ("u", 0, 3, 0))
    assert row.kind == "matched"


def test_a_cut_divides_by_stream_time() -> None:
    records = [view(0, 10, "a"), view(1, 1, "a"), user(0, 5, "a")]
    below, others = split(records, 10)
    assert [one.source for one in below] == ["u"]
    assert [one.offset for one in others] == [0, 1]
    rest = join(others, "left", state_after(below))
    assert [(row.right, row.ts) for row in rest] == [("eu", 10), ("eu", 1)]
