"""Topologies of aggregations, windows and buffers, each with the page of `tests/reference` that says what it gives.

Values are `{"a": text, "to": key}` as in `tests.operators.wild`; the number of a value is what follows the first letter of
its text, or null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators.wild import OUTPUT, Setting
from tests.reference.aggregates import Row, Summary, SummedStream, SummedTable, SummedWindows
from tests.reference.records import Record, Result
from tests.reference.suppress import Suppress

from lakestreams import Json, StreamsBuilder, Text, agg

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams import Fields

VALUE = Json("a string, to string")
SIZE, ADVANCE, GRACE = 12, 5, 4
TASKS = 3


def settings() -> list[Setting]:
    """All of them; those whose name says `re-keyed` want histories of 3 partitions."""
    return [
        _of_stream("stream", lambda stream: stream.group_by_key()),
        _of_stream("re-keyed stream", lambda stream: stream.group_by(lambda one: {"k": one.to}), rekeyed=True),
        _of_table("table"),
        _of_table("table, empty deleted", delete=True),
        _sums_of_table(),
        _reduced_table(),
        _folded_table(),
        _in_windows("hopping", ADVANCE),
        _in_windows("tumbling, re-keyed", SIZE, rekeyed=True),
        _final("final, hopping", ADVANCE),
        _final("final, tumbling, re-keyed", SIZE, rekeyed=True),
        _held("held", {"until": "7 ms"}, lambda: Suppress(7)),
        _held("held, full", {"until": "20 ms", "max_records": 2}, lambda: Suppress(20, most=2)),
    ]


# --- what groups are summed up to ------------------------------------------------------------------------------------


def number_of(value: Any) -> int | None:
    return int(value["a"][1:]) if value["a"] and value["a"][1:].isdigit() else None


def summary(values: Sequence[Any]) -> tuple[str, str]:
    """Of a group's values, in their order: count and sum; extremes, last one, all of them, mean."""
    numbers = [number for one in values if (number := number_of(one)) is not None]
    ends = (min(numbers), max(numbers)) if numbers else ("-", "-")
    last = (number_of(values[-1]) if values else None, *values[-1:])[0]
    listed = ",".join("-" if (one := number_of(value)) is None else str(one) for value in values)
    mean = f"{sum(numbers) / len(numbers):.6f}" if numbers else "-"
    return f"{len(values)}/{sum(numbers)}", f"{ends[0]}|{ends[1]}|{'-' if last is None else last}|{listed}|{mean}"


def short_summary(values: Sequence[Any]) -> tuple[str, str]:
    """Count and sum alone."""
    return summary(values)[0], summary(values)[1].rsplit("|", 1)[1]


def number(one: Fields) -> Column:
    return F.substr(one.a, F.lit(2)).try_cast("int")


def aggregators(one: Fields) -> dict[str, Any]:
    of = number(one)
    return {
        "number": agg.count(), "total": agg.sum(of), "low": agg.min(of), "high": agg.max(of), "newest": agg.last(of),
        "listed": agg.collect(of), "mean": agg.avg(of),
    }  # fmt: skip


def told(one: Fields) -> dict[str, Column]:
    listed = F.array_join(F.transform(one.listed, _text), ",")
    parts = (_text(one.low), _text(one.high), _text(one.newest), listed, _mean(one.mean))
    return {"left": _both(one), "right": F.concat_ws("|", *parts)}


def told_short(one: Fields) -> dict[str, Column]:
    return {"left": _both(one), "right": _mean(one.mean)}


def _both(one: Fields) -> Column:
    return F.concat_ws("/", one.number.cast("string"), one.total.cast("string"))


def _text(of: Column) -> Column:
    return F.coalesce(of.cast("string"), F.lit("-"))


def _mean(of: Column) -> Column:
    return F.when(of.isNull(), F.lit("-")).otherwise(F.format_string("%.6f", of))


# --- topologies ------------------------------------------------------------------------------------------------------


def _stream(builder: StreamsBuilder) -> Any:
    return builder.stream("left", key=Text("k"), value=VALUE, null_values="ignore")


def _table(builder: StreamsBuilder) -> Any:
    return builder.table("left", key=Text("k"), value=VALUE)


def _built(builder: StreamsBuilder, made: Any, mode: str = "changes") -> Any:
    made.to_delta(OUTPUT, mode=mode)
    builder.table("right", key=Text("k"), value=VALUE).to_delta("unused")
    return builder.build()


def _of_stream(name: str, grouped: Callable[[Any], Any], *, rekeyed: bool = False) -> Setting:
    builder = StreamsBuilder("derived")
    table = grouped(_stream(builder)).aggregate(aggregators, name="made").map_values(told)
    page = lambda: LeftOnly(SummedStream(summary))  # noqa: E731 - as the other pages
    return Setting(name, _built(builder, table), page, ("right",), {"left": TASKS} if rekeyed else {})


def _of_table(name: str, *, delete: bool = False) -> Setting:
    builder = StreamsBuilder("derived")
    grouped = _table(builder).group_by(lambda one: {"k": one.to})
    table = grouped.aggregate(aggregators, name="made", empty="delete" if delete else "keep").map_values(told)
    page = lambda: LeftOnly(SummedTable(_group, summary, delete=delete))  # noqa: E731
    return Setting(name, _built(builder, table), page, ("left", "right"))


def _sums_of_table() -> Setting:
    """Without looking at members, grouped by a key and a value that the mapper makes."""
    builder = StreamsBuilder("derived")
    grouped = _table(builder).group_by(lambda one: ({"k": one.to}, {"of": number(one)}))
    parts = lambda one: {"number": agg.count(), "total": agg.sum(one.of), "mean": agg.avg(one.of)}  # noqa: E731
    table = grouped.aggregate(parts, name="made").map_values(told_short)
    page = lambda: LeftOnly(SummedTable(_group, short_summary))  # noqa: E731
    return Setting("sums of a table", _built(builder, table), page, ("left", "right"))


def _reduced_table() -> Setting:
    """Texts put together: what leaves is crossed out. A group whose text would be null is deleted."""
    builder = StreamsBuilder("derived")
    grouped = _table(builder).group_by(lambda one: ({"k": one.to}, {"text": one.a}))
    table = grouped.reduce(
        lambda made, one: {"text": F.concat(made.text, F.lit("+"), one.text)},
        lambda made, one: {"text": F.concat(made.text, F.lit("-"), one.text)},
        name="made",
    ).map_values(lambda one: {"left": one.text, "right": F.lit(None).cast("string")})
    return Setting("reduced table", _built(builder, table), lambda: LeftOnly(_Reduced()), ("left", "right"))


def _folded_table() -> Setting:
    """A fold of groups that are deleted when they are empty: what comes after begins anew."""
    builder = StreamsBuilder("derived")
    grouped = _table(builder).group_by(lambda one: ({"k": one.to}, {"text": F.coalesce(one.a, F.lit("-"))}))
    put = {
        name: lambda made, text, sign=sign: F.concat(made, F.lit(sign), text)
        for name, sign in (("add", "+"), ("subtract", "~"))
    }
    table = grouped.aggregate(
        lambda one: {"made": agg.fold(one.text, initial=F.lit("0"), **put), "number": agg.count()},  # type: ignore[arg-type]
        name="made",
        empty="delete",
    ).map_values(lambda one: {"left": one.made, "right": one.number.cast("string")})
    return Setting(
        "folded table, empty deleted", _built(builder, table), lambda: LeftOnly(_Folded()), ("left", "right")
    )


def _windowed(builder: StreamsBuilder, advance: int, *, rekeyed: bool) -> Any:
    stream = _stream(builder)
    grouped = stream.group_by(lambda one: {"k": one.to}) if rekeyed else stream.group_by_key()
    windows = grouped.windowed_by(f"{SIZE} ms", advance=f"{advance} ms", grace=f"{GRACE} ms")
    return windows.aggregate(aggregators, name="made")


def _shown(table: Any) -> Any:
    """A windowed table's changes, the window's start written into the key."""
    stream = table.map_values(told).to_stream()
    start = lambda one: F.concat_ws("@", one.k, one.window_start_ms.cast("string"))  # noqa: E731
    return stream.select_key(lambda one: {"k": start(one)})


def _in_windows(name: str, advance: int, *, rekeyed: bool = False) -> Setting:
    builder = StreamsBuilder("derived")
    topology = _built(builder, _shown(_windowed(builder, advance, rekeyed=rekeyed)), "append")
    page = lambda: LeftOnly(Named(SummedWindows(summary, SIZE, advance, GRACE)))  # noqa: E731
    return Setting(name, topology, page, ("right",), {"left": TASKS} if rekeyed else {})


def _final(name: str, advance: int, *, rekeyed: bool = False) -> Setting:
    builder = StreamsBuilder("derived")
    table = _windowed(builder, advance, rekeyed=rekeyed).suppress("window_closes", name="final")
    page = lambda: LeftOnly(Final(SummedWindows(summary, SIZE, advance, GRACE)))  # noqa: E731
    topology = _built(builder, _shown(table), "append")
    return Setting(name, topology, page, ("right",), {"left": TASKS} if rekeyed else {})


def _held(name: str, options: dict[str, Any], buffer: Callable[[], Suppress]) -> Setting:
    builder = StreamsBuilder("derived")
    table = _table(builder).suppress(**options).map_values(lambda one: {"left": one.a, "right": one.to})
    return Setting(name, _built(builder, table), lambda: LeftOnly(_Held(buffer)), ("left", "right"))


def _group(_: Any, value: Any) -> Any:
    return value["to"]


# --- pages that the reference has in pieces --------------------------------------------------------------------------


class LeftOnly:
    """A page that hears of the left topic alone."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.late = getattr(page, "late", [])

    def left(self, record: Record) -> list[Result]:
        found: list[Result] = self._page.left(record)
        return found

    def right(self, record: Record) -> list[Result]:
        del record
        return []


class Named:
    """A windowed page with the window's start written into the key."""

    def __init__(self, page: SummedWindows) -> None:
        self._page, self.late = page, page.late

    def left(self, record: Record) -> list[Result]:
        return [replace(one, key=f"{one.key[0]}@{one.key[1]}") for one in self._page.left(record)]


class Final:
    """A windowed page, and each task's buffer until windows close."""

    def __init__(self, page: SummedWindows) -> None:
        self._page, self.late = Named(page), page.late
        self._buffers: dict[int, Suppress] = {}

    def left(self, record: Record) -> list[Result]:
        buffer = self._buffers.setdefault(record.task, Suppress(GRACE, time_of=lambda one: _start(one) + SIZE))
        found: list[Result] = []
        for row in self._page.left(record):
            update = replace(record, ts=row.ts, key=row.key, value=row.value)
            found += [Row(one.key, one.value, one.ts, record, (one,)) for one in buffer.put(update)]
        return found


def _start(update: Record) -> int:
    return int(update.key.rsplit("@", 1)[1])


class _Held:
    def __init__(self, buffer: Callable[[], Suppress]) -> None:
        self._make = buffer
        self._buffers: dict[int, Suppress] = {}

    def left(self, record: Record) -> list[Result]:
        update = replace(record, value=record.value and (record.value["a"], record.value["to"]))
        buffer = self._buffers.setdefault(record.task, self._make())
        return [Row(one.key, one.value, one.ts, record, (one,)) for one in buffer.put(update)]


class _Folded:
    """`TableAggregate` with texts that are written down; a group is deleted with its last row."""

    def __init__(self) -> None:
        self._rows: dict[Any, Any] = {}  # key -> group, text
        self._made: dict[Any, tuple[str, int]] = {}

    def left(self, record: Record) -> list[Result]:
        old = self._rows.pop(record.key, None)
        new = None
        if record.value is not None and record.value["to"] is not None:
            new = self._rows[record.key] = (record.value["to"], record.value["a"] or "-")
        if old and new and old[0] == new[0]:
            return [self._changed(record, old[0], f"~{old[1]}+{new[1]}")]
        adds_and_subtracts = [self._changed(record, old[0], f"~{old[1]}")] if old else []
        return adds_and_subtracts + ([self._changed(record, new[0], f"+{new[1]}")] if new else [])

    def _changed(self, record: Record, group: Any, item: str) -> Result:
        text, ts = self._made.pop(group, ("0", record.ts))
        number, ts = sum(own == group for own, _ in self._rows.values()), max(ts, record.ts)
        if not number:
            return Row(group, None, ts, record, (record,))
        self._made[group] = (text + item, ts)
        return Row(group, (text + item, str(number)), ts, record, (record,))


class _Reduced:
    """`TableAggregate` with texts. A null in a text put together makes it null, which deletes the group's row.

    The first value is the row as it is, with a null in it too.
    """

    def __init__(self) -> None:
        self._rows: dict[Any, Any] = {}  # key -> group, text
        self._made: dict[Any, tuple[str | None, int]] = {}

    def left(self, record: Record) -> list[Result]:
        old = self._rows.pop(record.key, None)
        new = None
        if record.value is not None and record.value["to"] is not None:
            new = self._rows[record.key] = (record.value["to"], record.value["a"])
        if old and new and old[0] == new[0]:
            return [self._changed(record, old[0], [("-", old[1]), ("+", new[1])])]
        adds_and_subtracts = [self._changed(record, old[0], [("-", old[1])])] if old else []
        return adds_and_subtracts + ([self._changed(record, new[0], [("+", new[1])])] if new else [])

    def _changed(self, record: Record, group: Any, signed: Sequence[tuple[str, str | None]]) -> Result:
        there = group in self._made
        text, ts = self._made.pop(group, (None, record.ts))
        ts = max(ts, record.ts)
        for sign, item in signed:
            if there:
                there = text is not None and item is not None
                text = f"{text}{sign}{item}" if there else None
            elif sign == "+":
                there, text = True, item
        if there:
            self._made[group] = (text, ts)
        return Row(group, (text, None) if there else None, ts, record, (record,))


__all__ = ["GRACE", "SIZE", "Summary", "settings"]
