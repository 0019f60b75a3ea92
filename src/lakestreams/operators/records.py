"""Records and the total order: the columns that every kernel works on.

order = (cycle, stream_time_ms, side, source, partition, offset, attempt). `side` is 0 for a table and 1 for a stream
(tables first on ties), `source` compares as UTF-8 bytes. Source of the rule: DESIGN section 2.

A *records* frame has one row a stream record (a point) or a table record (a version), with the columns
    k struct|null          the key
    v struct|null          the value; of a table null is a tombstone
    ts bigint              event time, ms
    o struct<cycle, stream_time_ms, side, source, partition, offset, attempt>
                           the order of the record that caused the row: its own, or its trigger's after a join
    n int                  the row's place among all rows of that trigger; (o, n) is unique and total in a frame
    kind string            record, matched, unmatched, amended, tombstone; or tick, of a row that only moves clocks
    contributors array<struct<source, partition, offset, attempt>>

A frame holds what is new and as much of the past as may still matter: a kernel gets the first cycle that is new
(`since`) and gives only results whose trigger is new. So one batch over a whole history and a cycle at a time over its
pieces give the same rows. Some frames carry more columns: `task` (where clocks matter: a number), `old`
(tables that a join or an aggregation made: the value before), and the clocks that a windowed join keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Literal, TypeAlias

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Side = Literal[0, 1]
TABLE_SIDE: Side = 0
STREAM_SIDE: Side = 1

KEY, VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS = "k", "v", "ts", "o", "n", "kind", "contributors"
RECORD_COLUMNS = (KEY, VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS)
TASK, OLD = "task", "old"
# A number for the key, and what rows are exchanged and sorted by where those of a key belong together (see `hashed`).
KEY_HASH = "k_hash"
BY_KEY = (KEY_HASH, KEY)
_ORDER_HASH = "o_hash"
# What a join puts next to the left side's key and value: the right side's, null where it is missing.
RIGHT_KEY, RIGHT_VALUE = "rk", "rv"
RECORD, MATCHED, UNMATCHED, TOMBSTONE = "record", "matched", "unmatched", "tombstone"
# A result without a row, put right by one that came (see `stream_table_wait`).
AMENDED = "amended"
# Of a row that only moves its task's clock: time goes on although no record comes (see `ticks`).
TICK = "tick"

COORDINATES = ("source", "partition", "offset", "attempt")
# The place of a tick, behind all rows that it causes.
_AFTER_ALL = 1 << 30
_TRIGGER_FIELDS = ("stream_time_ms", "side", *COORDINATES)

TRIGGER_TYPE = "struct<stream_time_ms: bigint, side: int, source: string, partition: int, offset: bigint, attempt: int>"
ORDER_TYPE = TRIGGER_TYPE.replace("struct<", "struct<cycle: bigint, ")
CONTRIBUTOR_TYPE = "struct<source: string, partition: int, offset: bigint, attempt: int>"
LINEAGE_TYPE = (
    f"struct<cycle: bigint, trigger: {TRIGGER_TYPE}, n: int, kind: string, contributors: array<{CONTRIBUTOR_TYPE}>>"
)


Extract: TypeAlias = "Callable[..., list[tuple[DataFrame, int | None]]]"
"""Computes frames of few rows out of many, as suits many: each, and how many rows it has (None: not known)."""


def unextracted(*frames: DataFrame) -> list[tuple[DataFrame, int | None]]:
    """Leaves frames as they are, for whoever computes all at once."""
    return [(rows, None) for rows in frames]


def known_sum(counts: Sequence[int | None]) -> int | None:
    """How many rows extracted frames have; None: of one it is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def records(rows: DataFrame, source: str, side: Side, cycle: Column) -> DataFrame:
    """A records frame of a source's rows.

    Args:
        rows: columns `k, v, event_time_ms, stream_time_ms, partition, offset, attempt`.
        source: the topic's name.
        side: 0 for a table, 1 for a stream.
        cycle: the cycle in which each record was planned.
    """
    order = F.struct(
        cycle.cast("bigint").alias("cycle"),
        F.col("stream_time_ms").cast("bigint").alias("stream_time_ms"),
        F.lit(side).cast("int").alias("side"),
        F.lit(source).alias("source"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.col("attempt").cast("int").alias("attempt"),
    )
    contributor = F.struct(F.lit(source).alias("source"), F.col("partition"), F.col("offset"), F.col("attempt"))
    return rows.select(
        F.col("k").alias(KEY),
        F.col("v").alias(VALUE),
        F.col("event_time_ms").alias(TIME),
        order.alias(ORDER),
        F.lit(0).alias(PLACE),
        F.lit(RECORD).alias(KIND),
        F.array(contributor).alias(CONTRIBUTORS),
    )


def hashed(rows: DataFrame) -> DataFrame:
    """Rows with `k_hash`. Spark sorts a number by its digits, but compares structs field by field (decision 0010)."""
    return rows.withColumn(KEY_HASH, F.xxhash64(KEY))


def number_of(key: Column, otherwise: Column) -> Column:
    """A key's number, as `k_hash`; without a key another one: such rows meet nothing and must not all come to one place."""
    return F.when(key.isNull(), F.xxhash64(otherwise)).otherwise(F.xxhash64(key))


def ticks(moves: DataFrame, like: DataFrame) -> DataFrame:
    """Rows that move clocks and are nothing else: without key and value, of the kind `tick`.

    Args:
        moves: columns `ts` and `o`, one row a topic-partition whose clock goes on; and perhaps more of a frame's columns.
        like: a records frame, perhaps with more columns; these are null unless `moves` has them.
    """
    given = {
        **{name: F.col(name) for name in moves.columns},
        PLACE: F.lit(_AFTER_ALL),
        KIND: F.lit(TICK),
        CONTRIBUTORS: F.array().cast(like.schema[CONTRIBUTORS].dataType),
    }
    return moves.select(
        *(given.get(one.name, F.lit(None).cast(one.dataType)).alias(one.name) for one in like.schema.fields)
    )


def is_tick() -> Column:
    """Whether a row only moves its task's clock."""
    return F.col(KIND) == TICK


def is_new(since: int) -> Column:
    """Whether a row belongs to the cycles that are being computed."""
    return F.col(ORDER)["cycle"] >= F.lit(since)


def coordinates() -> Column:
    """Those of the record that caused the row."""
    return F.struct(*(F.col(ORDER)[name].alias(name) for name in COORDINATES))


def lean_contributors() -> Column:
    """The contributors, null where a record is its only one: as workers get them."""
    own = F.array(coordinates())
    return F.when(F.col(CONTRIBUTORS) != own, F.col(CONTRIBUTORS)).alias(CONTRIBUTORS)


def lineage() -> Column:
    """The trailing column `_lineage` of a result row, from a records frame."""
    return F.struct(
        F.col(ORDER)["cycle"].alias("cycle"),
        F.struct(*(F.col(ORDER)[name].alias(name) for name in _TRIGGER_FIELDS)).alias("trigger"),  # all but the cycle
        F.col(PLACE).alias("n"),
        F.col(KIND).alias("kind"),
        F.col(CONTRIBUTORS).alias("contributors"),
    )


def renumber(rows: DataFrame, *by: Column) -> DataFrame:
    """Gives each row its place among the rows of its trigger, 0 first: one exchange and one sort.

    Args:
        rows: columns `o` and what `by` needs.
        by: what orders the rows of one trigger.
    """
    of_trigger = Window.partitionBy(_ORDER_HASH, ORDER).orderBy(*by)  # a number first, as in `hashed`
    placed = rows.withColumn(_ORDER_HASH, F.xxhash64(ORDER)).withColumn(PLACE, F.row_number().over(of_trigger) - 1)
    return placed.drop(_ORDER_HASH)


def equal_keys(left: Sequence[Column], right: Sequence[Column]) -> Column:
    """Equality of two keys that are there, column by column: a null inside a key equals a null.

    The key structs of two sides may differ in column names, hence one by one. A null key equals nothing; callers
    leave it out, since its columns are null as well.
    """
    return reduce(and_, (mine.eqNullSafe(other) for mine, other in zip(left, right, strict=True)))


def key_columns(frame: DataFrame, name: str = KEY) -> list[Column]:
    """The columns of a key struct."""
    fields = frame.schema[name].dataType.fields  # type: ignore[attr-defined]
    return [F.col(name)[field.name] for field in fields]
