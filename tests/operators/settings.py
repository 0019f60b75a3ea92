"""Every join shape with its settings: the topology as a user writes it, and the page of the reference.

Windows and retentions are drawn by seed: in one job they are constants, or its plan would grow with each history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators.wild import JOIN, OUTPUT, Setting, sides
from tests.reference.fk_stream_table import ForeignKeyStreamJoin
from tests.reference.fk_table_table import ForeignKeyJoin
from tests.reference.race import RaceJoin
from tests.reference.records import Join
from tests.reference.stream_global import StreamGlobalJoin
from tests.reference.stream_stream import StrictJoin
from tests.reference.stream_stream_kafka import KafkaJoin
from tests.reference.stream_table import StreamTableJoin
from tests.reference.table_table import TableTableJoin
from tests.reference.tables import LatestTable, VersionedTable
from tests.reference.windows import Windows

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.topology.joins import WindowedJoin

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams import Fields

Side = Callable[[StreamsBuilder, str], Any]
Times = tuple[int, int, int]  # before, after and grace, ms
Tasks = Mapping[str, int]
VALUE = Json("a string, to string")
TIMES: tuple[Times, ...] = (
    *((5, 5, 0), (0, 0, 0), (0, 5, 2), (5, 0, 0), (1, 1, 10), (2, 7, 100)),
    *((3, -1, 2), (-1, 4, 1), (-2, 5, 3)),
)
RETENTIONS = (3, 8, 1_000)  # not below any grace


def both(left: Any, right: Any) -> dict[str, Column]:
    """The joiner: the texts of both values, as `wild.sides` of the reference."""
    return {"left": left.a, "right": right.a}


def points_to(_: Any, value: Any) -> Any:
    """The key that a value points to, for the reference."""
    return None if value is None else value["to"]


class Settings:
    """Settings of each shape.

    Args:
        seed: of the windows and retentions.
        composite: whether a key has two columns, of which the second may be null; else it is one text.
    """

    def __init__(self, seed: object, *, composite: bool = False) -> None:
        self.composite = composite
        self._rng = random.Random(str(seed))
        self._times: list[Times] = []

    # --- what is drawn -----------------------------------------------------------------------------------------------

    def times(self) -> Times:
        """The next window: each once before any comes again."""
        if not self._times:
            self._times = self._rng.sample(TIMES, len(TIMES))
        return self._times.pop()

    def history(self) -> int:
        return self._rng.choice(RETENTIONS)

    # --- sides -------------------------------------------------------------------------------------------------------

    def stream(self, builder: StreamsBuilder, name: str) -> Any:
        return builder.stream(name, key=self._key, value=VALUE)

    def rekeyed(self, builder: StreamsBuilder, name: str) -> Any:
        """Its new key is what its value points to."""
        return self.stream(builder, name).select_key(self._to)

    def mapped(self, builder: StreamsBuilder, name: str) -> Any:
        return self.stream(builder, name).map(lambda one: (self._to(one), {"a": one.a, "to": one.to}))

    def repartitioned(self, count: int) -> Side:
        return lambda builder, name: self.stream(builder, name).repartition(count)

    def table(self, history: int | None = None) -> Side:
        """A table; versioned, if a history is given."""
        options = {} if history is None else {"as_of": True, "history": f"{history} ms"}
        return lambda builder, name: builder.table(name, key=self._key, value=VALUE, **options)

    def whole(self, builder: StreamsBuilder, name: str) -> Any:
        return builder.global_table(name, key=self._key, value=VALUE)

    @property
    def _key(self) -> Any:
        return Json("k string, m string") if self.composite else Text("k")

    def _to(self, one: Fields) -> dict[str, Column]:
        """The key that a record's value points to; of two columns the first letter, and what follows or null."""
        if not self.composite:
            return {"k": one.to}
        return {"k": F.substring(one.to, 1, 1), "m": F.nullif(F.substring(one.to, 2, 10), F.lit(""))}

    # --- shapes ------------------------------------------------------------------------------------------------------

    def windowed(
        self, how: Any, rules: Any, emit: Any = "on_window_close", *, left: Side | None = None,
        right: Side | None = None, in_memory: bool = False, options: Mapping[str, Any] | None = None, **tasks: Tasks,
    ) -> Setting:  # fmt: skip
        """A windowed join; its window is drawn."""
        times = self.times()
        given = dict(zip(("before", "after", "grace"), (f"{ms} ms" for ms in times), strict=True)) | {"rules": rules}
        given |= {} if how == "inner" else {"emit_unmatched": emit}
        topology = _topology(how, left or self.stream, right or self.stream, given | dict(options or {}))
        if in_memory:
            *others, node, sink = topology.nodes
            assert isinstance(node, WindowedJoin)
            node = replace(node, store="in_memory")
            topology = replace(topology, nodes=(*others, node, replace(sink, parent=node)))

        def page() -> Join:
            if rules == "strict":
                return StrictJoin(how, Windows(*times), sides, emit)
            return KafkaJoin(how, Windows(*times), sides, emit, in_memory=in_memory)

        words = [how, rules, *(["in memory"] if in_memory else []), *(["eager"] if emit == "eager" else []), str(times)]
        outcomes = rules == "strict" and emit == "on_window_close" and how != "inner"
        return self._setting(f"windowed {', '.join(words)}", topology, page, (), outcomes=outcomes, **tasks)

    def stream_table(self, how: str, *, left: Side | None = None, **tasks: Tasks) -> Setting:
        """A lookup of the latest row."""
        topology = _topology(how, left or self.stream, self.table())
        return self._lookup("stream-table", how, topology, lambda: StreamTableJoin(how, LatestTable(), sides), **tasks)

    def as_of(self, how: str, grace: int | None = None, *, left: Side | None = None, **tasks: Tasks) -> Setting:
        """A lookup of the row that was valid at the record's time, perhaps after a wait; the history is drawn."""
        history = self.history()
        topology = _topology(
            how, left or self.stream, self.table(history), {} if grace is None else {"grace": f"{grace} ms"}
        )
        return self._lookup(
            f"stream-table as of, history {history}, grace {grace},",
            how,
            topology,
            lambda: StreamTableJoin(how, VersionedTable(history), sides, grace_ms=grace),
            **tasks,
        )

    def race(
        self, how: str, *, left: Side | None = None, amends: bool = False, waits: bool = True, **tasks: Tasks
    ) -> Setting:
        """A lookup whose records wait for rows, or are put right by them; the bounds are drawn."""
        wait = self._rng.choice([1, 4, 20]) if waits else None
        amend = (wait or 0) + self._rng.choice([1, 6, 30]) if amends else None
        bounds = {"wait": wait, "amend": amend}
        options = {word: f"{ms} ms" for word, ms in bounds.items() if ms is not None}
        topology = _topology(how, left or self.stream, self.table(), options)
        page = lambda: RaceJoin(how, wait, amend, sides)  # noqa: E731
        told = ", ".join(f"{word} {ms}" for word, ms in bounds.items() if ms is not None)
        return self._setting(f"race {how}, {told}", topology, page, ("right",), **tasks)

    def stream_global(self, how: str, *, left: Side | None = None, **tasks: Tasks) -> Setting:
        """A lookup by the key that the record points to."""
        topology = _topology(how, left or self.stream, self.whole, {"left_on": self._to})

        def page() -> Join:
            return StreamGlobalJoin(how, points_to, lambda key, one, other, _: sides(key, one, other))

        return self._lookup("stream-global", how, topology, page, **tasks)

    def foreign_key_stream(self, how: str, *, left: Side | None = None, **tasks: Tasks) -> Setting:
        """A lookup of all rows that point to the record's key (KIP-955)."""
        topology = _topology(how, left or self.stream, self.table(), {"right_on": self._to})
        page = lambda: ForeignKeyStreamJoin(how, points_to, sides)  # noqa: E731
        return self._lookup("foreign-key stream-table", how, topology, page, **tasks)

    def table_table(self, how: str, left: int | None = None, right: int | None = None) -> Setting:
        """Of the latest rows; a number is the history of a side that is versioned."""
        return self._setting(
            f"table-table {how}, histories {left} and {right}",
            _topology(how, self.table(left), self.table(right)),
            lambda: TableTableJoin((how,), _held(left), _held(right), sides),
            ("left", "right"),
        )

    def foreign_key(self, how: str, left: int | None = None, right: int | None = None) -> Setting:
        return self._setting(
            f"foreign-key table-table {how}, histories {left} and {right}",
            _topology(how, self.table(left), self.table(right), {"left_on": self._to}),
            lambda: ForeignKeyJoin(how, _held(left), _held(right), points_to, sides),
            ("left", "right"),
        )

    def _lookup(self, name: str, how: str, topology: Topology, page: Callable[[], Join], **tasks: Tasks) -> Setting:
        return self._setting(f"{name} {how}", topology, page, ("right",), outcomes=how == "left", **tasks)

    def _setting(
        self, name: str, topology: Topology, page: Callable[[], Join], tables: tuple[str, ...], *, outcomes: bool = False,
        **tasks: Tasks,
    ) -> Setting:  # fmt: skip
        told = [f"{side} {word} over {count}" for word, of in tasks.items() for side, count in of.items()]
        whole = ", ".join([name, *told])
        return Setting(whole, topology, page, tables, outcomes=outcomes, composite=self.composite, **tasks)

    # --- all of them -------------------------------------------------------------------------------------------------

    def of_windows(self) -> list[Setting]:
        hows, rules = ("inner", "left", "outer"), ("strict", "kafka")
        return [
            *(self.windowed(how, rule) for rule in rules for how in hows),
            *(self.windowed(how, rule, "eager") for rule in rules for how in hows[1:]),
            self.windowed("outer", "kafka", in_memory=True),
        ]

    def of_lookups(self) -> list[Setting]:
        hows = ("inner", "left")
        return [
            *(self.stream_table(how) for how in hows),
            *(self.as_of(how, grace) for grace in (None, 0, 3) for how in hows),
            *(self.stream_global(how) for how in hows),
            *(self.foreign_key_stream(how) for how in hows),
        ]

    def of_races(self) -> list[Setting]:
        return [
            *(self.race(how) for how in ("inner", "left")),
            self.race("left", amends=True),
            self.race("left", amends=True, waits=False),
        ]

    def of_tables(self) -> list[Setting]:
        return [
            *(self.table_table(how) for how in ("inner", "left", "outer")),
            self.table_table("left", left=self.history()),
            self.table_table("inner", right=self.history()),
            self.table_table("outer", self.history(), self.history()),
            *(self.foreign_key(how) for how in ("inner", "left")),
            self.foreign_key("left", self.history(), self.history()),
            self.foreign_key("inner", left=self.history()),
        ]

    def moved(self, tasks: int) -> list[Setting]:
        """With other keys, or spread over other tasks; a side that keeps its partitions has as many as there are tasks."""
        left, right, each = {"left": tasks}, {"right": tasks}, {"left": tasks, "right": tasks}
        spread = self.repartitioned(tasks)
        return [
            self.windowed("left", "strict", left=self.rekeyed, rekeyed=left),
            self.windowed("outer", "kafka", left=self.mapped, rekeyed=left),
            self.windowed("outer", "strict", left=self.rekeyed, right=self.mapped, rekeyed=each),
            self.windowed("outer", "strict", left=spread, moved=left),
            self.windowed("left", "strict", left=self.rekeyed, right=spread, rekeyed=left, moved=right),
            self.stream_table("left", left=self.rekeyed, rekeyed=left),
            self.race("left", amends=True, left=self.rekeyed, rekeyed=left),
            self.as_of("inner", left=self.mapped, rekeyed=left),
            self.as_of("left", 3, left=self.rekeyed, rekeyed=left),
            self.stream_global("left", left=self.rekeyed, rekeyed=left),
            self.foreign_key_stream("left", left=self.rekeyed, rekeyed=left),
        ]


def _topology(how: str, left: Side, right: Side, options: Mapping[str, Any] | None = None) -> Topology:
    builder = StreamsBuilder("wild")
    one, other = left(builder, "left"), right(builder, "right")
    verb = one.join if how == "inner" else getattr(one, f"{how}_join")
    verb(other, both, name=JOIN, **(options or {})).to_delta(OUTPUT)
    return builder.build()


def _held(history: int | None) -> LatestTable | VersionedTable:
    return LatestTable() if history is None else VersionedTable(history)
