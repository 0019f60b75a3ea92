"""Stream-table join, inner and left, lookup `latest`: each point with the version of its key that is valid there.

The law: a version is valid from its own order until the next version of its key, and a point meets the version that is
valid at its order. A tombstone ends a version and starts none, and table records change what later points see without
a result of their own. A result has the point's key, time and place; a point that meets no version or has a null key is
unmatched in a left join, and gives no result in an inner one.

A global table is looked up by a key that is made from the point (`mapped`): then that key is the one that may be null, and
the result keeps the point's own. Such a table is there in full on every task, so partitions do not matter, and it is never
versioned.

Source: Kafka Streams' KStreamKTableJoinProcessor and KIP-962, for a global table KAFKA-10277 and KAFKA-19208; semantics
sections 4 and 5.

Plan: a table without changes has one row a key and needs no sort: one broadcast, or one exchange and one sort of each
side by a hash of the key where it is too large for that. With changes, in the tail or in the cycle itself, one exchange
and one sort of the *table side* give each version its end, and the join asks for no more of it; points are exchanged
and sorted once, or not at all if the table is broadcast. There a point is compared with every version of its key in the
call, so that points times versions of one key is what it costs.

`many_changes`: keys with more than `LINEAR_VERSIONS` changes in the call go another way, with the same rows. Their points and
versions are sorted together, and a point takes the last version before it. One more exchange counts the keys, one more with
one sort is for those with many (decision 0010). When there is no such key, adaptive execution finds that way empty before it
begins and leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions as validity
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    RIGHT_KEY,
    RIGHT_VALUE,
    UNMATCHED,
    VALUE,
    equal_keys,
    key_columns,
    number_of,
)
from lakestreams.operators.versions import FROM, TO, TableSide

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap

MAPPED = "mapped"
LINEAR_VERSIONS = 16
_REF, _COUNT, _ROW, _SEEN = "r_ref", "r_count", "r_row", "r_seen"
_HASH, _TABLE_HASH, _BY, _RANK = "h", "r_h", "by", "rank"


def execute(
    points: DataFrame,
    table: TableSide,
    how: JoinKind,
    since: int,
    overlap: Overlap = "none",
    *,
    by: str = KEY,
    many_changes: bool = False,
) -> DataFrame:
    """Joins new points with the table.

    Args:
        points: records, new rows only.
        table: versions, new ones and older ones; a version is seen only by later points.
        overlap: whether both sides hold rows of one trigger, and whose come first.
        by: the points' column that holds the table's key; null: none.
        many_changes: whether the table's changes are so many that some keys may have many versions: these then go another way.

    Returns:
        Records of the points with `rk` and `rv`: the row's key and value, null where unmatched. `kind` is matched or
        unmatched, and the row's contributors are appended. `by` comes along if it is no column of records: a joiner may ask
        for it, also where nothing was found (KIP-1340).
    """
    if not many_changes or table.changes is None:
        return _by_hash(points, by, table, how, since, overlap)
    hot = _with_many_versions(table.changes)
    rest = table.each(lambda rows: validity.outside(rows, KEY, hot))
    often = table.each(lambda rows: validity.among(rows, KEY, hot))
    return _by_hash(validity.outside(points, by, hot), by, rest, how, since, overlap).unionByName(
        _by_sort(validity.among(points, by, hot), by, often, how, overlap)
    )


def explain(how: JoinKind, by: str = KEY) -> str:
    """The plan in words, for `check --explain`."""
    join = f"stream-table {how} join, lookup latest: hash join on the key"
    if by == MAPPED:
        join = f"stream-global {how} join: hash join on the mapped key"
    return (
        f"{join}; the table side is exchanged and sorted once only if table records are new since the snapshot; points are "
        "exchanged and sorted only if the table is too large to broadcast, or their key has many changes"
    )


def _with_many_versions(changes: DataFrame) -> DataFrame:
    """The keys with more than `LINEAR_VERSIONS` changes; the state has one row more of each at most."""
    keys = changes.where(F.col(KEY).isNotNull()).select(validity.plain(changes).alias(_BY))
    return keys.groupBy(_BY).agg(F.count("*").alias(_COUNT)).where(F.col(_COUNT) > LINEAR_VERSIONS).select(_BY)


def _by_hash(points: DataFrame, by: str, table: TableSide, how: JoinKind, since: int, overlap: Overlap) -> DataFrame:
    """One number, a hash of the key, is what both sides are exchanged by and sorted by: Spark sorts it by its digits.

    Sorted by it first, the versions get their ends and need no further exchange or sort for the join.
    """
    rows = table.all().withColumn(_TABLE_HASH, F.xxhash64(validity.plain(table.all())))
    versions = validity.unbounded(rows)
    if table.changes is not None:
        versions = validity.bounded(rows.repartition(_TABLE_HASH), since, _TABLE_HASH, KEY)
    right = versions.select(
        _TABLE_HASH,
        F.col(KEY).alias(RIGHT_KEY),
        F.col(VALUE).alias(RIGHT_VALUE),
        F.col(CONTRIBUTORS).alias(_REF),
        FROM,
        TO,
    )
    key = F.col(by)
    spread = number_of(validity.plain(points, by), F.col(ORDER))
    there = key.isNotNull() & equal_keys(key_columns(points, by), key_columns(right, RIGHT_KEY))
    if table.changes is not None:
        at, start, end = F.col(ORDER), F.col(FROM), F.col(TO)
        begun = start <= at if overlap == "right_first" else start < at
        not_ended = at <= end if overlap == "left_first" else at < end
        there &= (start.isNull() | begun) & (end.isNull() | not_ended)
    # inside `when`, so that Spark does not take the key for more columns to sort by
    met = (F.col(_HASH) == F.col(_TABLE_HASH)) & F.when(there, F.lit(True))
    return _results(points.withColumn(_HASH, spread).join(right, met, how), by)


def _by_sort(points: DataFrame, by: str, table: TableSide, how: JoinKind, overlap: Overlap) -> DataFrame:
    """One exchange and one sort of both, by a hash of the key first, since Spark compares one number fastest."""
    row = F.struct(F.col(KEY).alias(RIGHT_KEY), F.col(VALUE).alias(RIGHT_VALUE), F.col(CONTRIBUTORS).alias(_REF))
    versions = table.all().select(
        validity.plain(table.all()).alias(_BY), ORDER, F.lit(0).alias(_RANK), PLACE, row.alias(_ROW)
    )
    own = [F.col(name) for name in _names(by)]
    rank = F.lit(-1 if overlap == "left_first" else 1)  # a version of the same trigger has 0
    events = points.select(validity.plain(points, by).alias(_BY), rank.alias(_RANK), *own)
    in_order = Window.partitionBy(_HASH, _BY).orderBy(ORDER, _RANK, PLACE)
    seen = F.last(_ROW, ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    found = (
        events.unionByName(versions, allowMissingColumns=True)
        .withColumn(_HASH, F.xxhash64(_BY))
        .withColumn(_SEEN, seen)
        .where(F.col(_ROW).isNull())
    )
    there = F.col(_SEEN)[RIGHT_VALUE].isNotNull()  # neither a tombstone nor nothing
    if how == "inner":
        found = found.where(there)
    met = {name: F.when(there, F.col(_SEEN)[name]) for name in (RIGHT_KEY, RIGHT_VALUE, _REF)}
    return _results(found.withColumns(met), by)


def _results(joined: DataFrame, by: str) -> DataFrame:
    matched = F.col(_REF).isNotNull()
    columns: dict[str, Column] = {
        KIND: F.when(matched, F.lit(MATCHED)).otherwise(F.lit(UNMATCHED)),
        CONTRIBUTORS: F.when(matched, F.concat(F.col(CONTRIBUTORS), F.col(_REF))).otherwise(F.col(CONTRIBUTORS)),
    }
    return joined.select(*(columns.get(name, F.col(name)).alias(name) for name in _names(by)), RIGHT_KEY, RIGHT_VALUE)


def _names(by: str) -> tuple[str, ...]:
    return RECORD_COLUMNS if by in RECORD_COLUMNS else (*RECORD_COLUMNS, by)
