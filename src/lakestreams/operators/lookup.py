"""Lookup of the latest row: each point with the version of a key that is valid there.

Shared by `stream_table`, which states the law, and `stream_global_table`, whose points bring a mapped key.

Two ways, same rows. In general the table's versions get their ends, and points join those of their key that are valid
at their order: a point is compared with every version of its key in the call, so that points times versions of one key
is what it costs. Where many table records are new (`many_changes`), keys with more than `LINEAR_VERSIONS` changes in the
call go another way: their points and versions are sorted together, and a point takes the last version before it. When there is no such
key, adaptive execution finds that way empty before it begins and leaves it out.
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

LINEAR_VERSIONS = 16
_REF, _COUNT, _ROW, _SEEN = "r_ref", "r_count", "r_row", "r_seen"
_HASH, _TABLE_HASH, _BY, _RANK = "h", "r_h", "by", "rank"


def latest(
    points: DataFrame, by: str, table: TableSide, how: JoinKind, since: int, overlap: Overlap, *, many_changes: bool
) -> DataFrame:
    """Joins new points with the table.

    Args:
        points: records, new rows only.
        by: their column that holds the table's key; null: none.
        table: versions, new ones and older ones; a version is seen only by later points.
        how: `inner` or `left`.
        since: the first new cycle.
        overlap: whether both sides hold rows of one trigger, and whose come first.
        many_changes: whether the table's changes are so many that some keys may have many versions: these then go another way.

    Returns:
        Records of the points with `rk` and `rv` (the row's key and value, null where unmatched), `kind` matched or
        unmatched, the row's contributors appended; and `by`, if it is no column of records.
    """
    if not many_changes or table.changes is None:
        return _by_hash(points, by, table, how, since, overlap)
    hot = _with_many_versions(table.changes)
    rest = table.each(lambda rows: validity.outside(rows, KEY, hot))
    often = table.each(lambda rows: validity.among(rows, KEY, hot))
    return _by_hash(validity.outside(points, by, hot), by, rest, how, since, overlap).unionByName(
        _by_sort(validity.among(points, by, hot), by, often, how, overlap)
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
