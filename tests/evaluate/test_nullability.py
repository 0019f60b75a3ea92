"""Whether an expression can be null decides nothing: each shape gives the same rows whatever makes keys and values.

Keys and values are made twice, by expressions that Spark knows to hold no null at any depth, and by the same ones behind
a condition, of which it does not know. All four pairings of a join's sides must be accepted and give equal rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from tests.topology.checked import outputs_of

from lakestreams import KStream, KTable, StreamsBuilder, Text, agg
from lakestreams.evaluate.outputs import RESERVED
from lakestreams.testing import TopologyTestDriver
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


# What Spark knows to hold no null: by name, what is made of a text that is there.
KINDS: dict[str, Callable[[Any], Column]] = {
    "lit": lambda _: F.lit("a"),
    "number": lambda _: F.lit(1),
    "coalesce": lambda one: F.coalesce(one, F.lit("none")),
    "concat": lambda one: F.concat(F.lit("x"), F.coalesce(one, F.lit("none"))),
    "struct": lambda one: F.struct(F.lit("a").alias("a"), F.coalesce(one, F.lit("none")).alias("b")),
    "array": lambda _: F.array(F.lit(1), F.lit(2)),
    "map": lambda _: F.create_map(F.lit("a"), F.lit(1)),
    "arrays": lambda _: F.array(F.struct(F.lit(1).alias("a"), F.array(F.lit("b")).alias("c"))),
}
NO_KEYS = ("map",)  # what Spark cannot compare


def made(kinds: Iterable[str], sure: bool, one: Column) -> dict[str, Column]:
    """Each kind of expression as a column; not `sure`: behind a condition."""
    return {name: KINDS[name](one) if sure else F.when(one.isNotNull(), KINDS[name](one)) for name in kinds}


def both(left: Any, right: Any) -> dict[str, Column]:
    """All columns of both values, and the keys."""
    sides = {"left": left, "right": right}
    return {f"{side}_{name}": fields[name] for side, fields in sides.items() for name in fields}


class Shape:
    """One input on each side, made of expressions that can be null or cannot."""

    def __init__(self, left: bool, right: bool, key: Iterable[str]) -> None:
        self.sure = {"L": left, "R": right}
        self.key = tuple(key)
        self.builder = StreamsBuilder("nullability")

    def stream(self, name: str) -> KStream:
        source = self.builder.stream(name, key=Text("k"), value=Text("v"))
        sure = self.sure[name]
        return source.map(lambda one: (made(self.key, sure, F.lower(one.v)), made(KINDS, sure, one.v)))

    def table(self, name: str) -> KTable:
        return self.stream(name).to_table()

    def source_table(self, name: str, **options: Any) -> KTable:
        sure = self.sure[name]
        table = self.builder.table(name, key=Text("k"), value=Text("v"), **options)
        return table.map_values(lambda one: {"own": F.lower(one.v), **made(KINDS, sure, one.v)})

    def key_of(self, name: str, one: Column) -> dict[str, Column]:
        return made(self.key, self.sure[name], one)


def _windowed(verb: str, **options: Any) -> Callable[[Shape], Any]:
    return lambda shape: getattr(shape.stream("L"), verb)(shape.stream("R"), both, within="5 ms", **options)


def _with_table(verb: str, **options: Any) -> Callable[[Shape], Any]:
    return lambda shape: getattr(shape.stream("L"), verb)(shape.table("R"), both, **options)


def _as_of(shape: Shape) -> Any:
    left = shape.stream("L").select_key(lambda one: {"k": made(["lit"], shape.sure["L"], one.concat)["lit"]})
    return left.left_join(shape.source_table("R", as_of=True, history="1 s"), both, grace="2 ms")


def _with_global(verb: str) -> Callable[[Shape], Any]:
    def shaped(shape: Shape) -> Any:
        table = shape.builder.global_table("R", key=Text("k"), value=Text("v"))
        table = table.map_values(lambda one: made(KINDS, shape.sure["R"], one.v))
        return getattr(shape.stream("L"), verb)(table, both, left_on=lambda one: {"k": one.lit})

    return shaped


def _tables(verb: str) -> Callable[[Shape], Any]:
    return lambda shape: getattr(shape.table("L"), verb)(shape.table("R"), both)


def _foreign(verb: str) -> Callable[[Shape], Any]:
    def shaped(shape: Shape) -> Any:
        left = shape.source_table("L")
        return getattr(left, verb)(shape.table("R"), both, left_on=lambda one: shape.key_of("L", one.own))

    return shaped


def _foreign_stream(verb: str) -> Callable[[Shape], Any]:
    def shaped(shape: Shape) -> Any:
        table = shape.source_table("R")
        return getattr(shape.stream("L"), verb)(table, both, right_on=lambda one: shape.key_of("R", one.own))

    return shaped


def _of_counts(shape: Shape) -> Any:
    """A count, which is never null, against a column that can be."""
    counted = shape.stream("L").group_by_key().count()
    return counted.left_join(shape.table("R"), both)


def _aggregated(shape: Shape) -> Any:
    merged = shape.stream("L").merge(shape.stream("R"))
    return merged.group_by_key().aggregate(
        lambda one: {
            "count": agg.count(), "least": agg.min(one.concat), "last": agg.last(one.struct), "all": agg.collect(one.number),
            "fold": agg.fold(one.array, initial=F.array(F.lit(0)), add=F.concat),
        }
    )  # fmt: skip


def _of_table(shape: Shape) -> Any:
    """The rows of two tables by a key that cannot be null, with a number that cannot be either."""
    joined = shape.table("L").outer_join(shape.table("R"), both)
    grouped = joined.group_by(lambda one: ({"k": F.coalesce(one.left_lit, F.lit("none"))}, {"n": F.lit(1)}))
    return grouped.aggregate(lambda one: {"sum": agg.sum(one.n), "most": agg.max(one.n), "last": agg.last(one.n)})


SHAPES: dict[str, Callable[[Shape], Any]] = {
    **{
        f"windowed {verb} {rules} {emit}": _windowed(
            verb, rules=rules, **({} if verb == "join" else {"emit_unmatched": emit})
        )
        for verb in ("join", "left_join", "outer_join")
        for rules in ("strict", "kafka")
        for emit in (("on_window_close",) if verb == "join" else ("on_window_close", "eager"))
    },
    "stream-table join": _with_table("join"),
    "stream-table left_join": _with_table("left_join"),
    "stream-table join that waits": _with_table("join", wait="3 ms"),
    "stream-table left_join that amends": _with_table("left_join", amend="3 ms"),
    "stream-table as of": _as_of,
    "stream-global join": _with_global("join"),
    "stream-global left_join": _with_global("left_join"),
    "table-table join": _tables("join"),
    "table-table left_join": _tables("left_join"),
    "table-table outer_join": _tables("outer_join"),
    "foreign-key join": _foreign("join"),
    "foreign-key left_join": _foreign("left_join"),
    "foreign-key stream join": _foreign_stream("join"),
    "foreign-key stream left_join": _foreign_stream("left_join"),
    "merge": lambda shape: shape.stream("L").merge(shape.stream("R")),
    "count joined with a column": _of_counts,
    "aggregates of a merged stream": _aggregated,
    "aggregates of a joined table": _of_table,
    "suppress": lambda shape: shape.table("L").outer_join(shape.table("R"), both).suppress("3 ms"),
}
RECORDS = [("R", "a", 1), ("L", "A", 2), ("L", "b", 3), ("R", "b", 4), ("L", "c", 9), ("R", "A", 20), ("L", "d", 40)]


# What every lane runs, and of what it checks the types; the others are for `soak`.
RUN = ("windowed join strict on_window_close",)
CHECKED = (
    "windowed left_join strict on_window_close", "aggregates of a joined table", "windowed join kafka on_window_close", "windowed outer_join strict eager", "stream-table join that waits",
    "stream-table as of", "stream-global left_join", "table-table outer_join", "foreign-key join",
    "foreign-key stream join", "merge", "count joined with a column", "suppress",
)  # fmt: skip


def _shapes(often: Collection[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in often else (pytest.mark.soak,)) for name in SHAPES]


@pytest.mark.parametrize("name", _shapes(RUN))
def test_rows_do_not_depend_on_what_can_be_null(spark: SparkSession, name: str) -> None:
    key, got = ("lit", "coalesce", "concat", "number")[len(name) % 4], {}
    for sides in ((False, False), (False, True)):
        shape = Shape(*sides, [key])
        SHAPES[name](shape).to_delta("out")
        driver = TopologyTestDriver(shape.builder.build(), spark)
        for source, value, time in RECORDS:
            driver.pipe(source, value.lower(), value, time)
        got[sides] = driver.read()
    assert got[False, False]
    assert got[False, True] == got[False, False]


@pytest.mark.parametrize("name", _shapes(CHECKED))
def test_all_pairings_are_accepted_and_no_output_forbids_nulls(spark: SparkSession, name: str) -> None:
    """Keys of every kind at once. A Delta table made of the rows takes nulls that another expression brings later."""
    for sides in ((True, False), (False, True)):
        shape = Shape(*sides, [kind for kind in KINDS if kind not in NO_KEYS])
        SHAPES[name](shape).to_delta("out")
        (output,) = outputs_of(shape.builder.build(), spark).values()
        own = [field for field in output.schema.fields if field.name not in RESERVED]
        assert own
        assert [field.name for field in own if not (field.nullable and allows_nulls(field.dataType))] == []


def allows_nulls(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(field.nullable and allows_nulls(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return kind.containsNull and allows_nulls(kind.elementType)
    if isinstance(kind, MapType):
        return kind.valueContainsNull and allows_nulls(kind.valueType)
    return True
