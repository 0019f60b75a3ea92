"""Stream-table join, inner and left, lookup `latest`: each point with the version of its key that is valid there.

The law: a version is valid from its own order until the next version of its key; a point meets exactly the version
valid at its order, if there is one. Table records change what later points see and give no result of their own; a
tombstone ends a version and starts none. A result has the point's key, time and place. Point with a null key: no
result in an inner join, unmatched in a left one. Source: Kafka Streams' KStreamKTableJoinProcessor and KIP-962;
semantics section 4.

Plan: a join on the key, and a range over the order where the table has changes. Only the changes are exchanged and
sorted, to give each version its end; the state learns from one row a changed key when it ends, and is not sorted. The
points are never sorted but by Spark's own join, and never exchanged unless the table side is too large to broadcast.
They are read once, so that a chain of joins stays a chain. No key is dear: one with many changes has them cut into
blocks, a point finds its block by halving among the block starts, which are broadcast, and meets only the versions
there. Decision: docs/decisions/0008-many-versions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.joins.order import (
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    ORDER,
    PLACE,
    RIGHT_KEY,
    RIGHT_VALUE,
    UNMATCHED,
    VALUE,
    equal_keys,
    is_new,
    key_columns,
    key_types_differ,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from lakestreams.topology.nodes import JoinKind, Overlap

    Step = Callable[[DataFrame], DataFrame]

_FROM, _TO, _REF, _BLOCK = "r_from", "r_to", "r_ref", "r_block"
_POINT_BLOCK, _STARTS, _STEPS, _CHANGED, _WANTED = "p_block", "starts", "steps", "changed", "wanted"
_IN_BLOCK, _COUNT = "in_block", "count"
# Changes of one key that a point may meet. A key with no more has one block, and nothing is looked up.
_BLOCK_SIZE = 32


@dataclass(frozen=True)
class TableSide:
    """What a table side brings into a join: records frames.

    Attributes:
        state: versions from before, at most one a key; or None.
        changes: versions after the state, any number a key, tombstones among them, new ones and older ones; or None.
    """

    state: DataFrame | None
    changes: DataFrame | None

    def each(self, step: Step) -> TableSide:
        """The same step applied to both parts."""
        return TableSide(
            state=None if self.state is None else step(self.state),
            changes=None if self.changes is None else step(self.changes),
        )

    def all(self) -> DataFrame:
        """Both parts as one frame."""
        parts = [part for part in (self.state, self.changes) if part is not None]
        if not parts:
            msg = "a table side has state, changes or both"
            raise ValueError(msg)
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1], allowMissingColumns=True)


def validate(left_key: Sequence[str], right_key: Sequence[str]) -> str | None:
    """Whether keys of these types can be equal.

    Args:
        left_key, right_key: the SQL types of the key's columns, in order.

    Returns:
        What is wrong, or None.
    """
    return key_types_differ(left_key, right_key)


def retain(table: TableSide, points: DataFrame) -> TableSide:
    """The part of the table that the points can meet: those of their keys.

    Worth it when the points are few beside the table: the keys are broadcast, the table is filtered where it is read,
    and nothing of it is exchanged.
    """
    keys = points.where(F.col(KEY).isNotNull()).select(F.col(KEY).alias(_WANTED)).distinct()

    def wanted(versions: DataFrame) -> DataFrame:
        condition = equal_keys(key_columns(versions), key_columns(keys, _WANTED))
        return versions.join(F.broadcast(keys), condition, "left_semi")

    return table.each(wanted)


def execute(points: DataFrame, table: TableSide, how: JoinKind, since: int, overlap: Overlap = "none") -> DataFrame:
    """Joins new points with the table.

    Args:
        points: a records frame of the stream (see `joins.order`), new rows only.
        table: versions, new ones and older ones; a version is seen only by later points.
        how: `inner` or `left`.
        since: the first new cycle.
        overlap: whether both sides hold rows of one trigger, and whose come first.

    Returns:
        The points' columns with `rk` and `rv` (the row's key and value, null where unmatched), `kind` set to
        `matched` or `unmatched`, and the row's contributors appended to `contributors`.
    """
    right = _versions(table, since)
    condition = F.col(KEY).isNotNull() & equal_keys(key_columns(points), key_columns(right, RIGHT_KEY))
    columns = list(points.columns)
    if table.changes is not None:
        points = _with_block(points, table.changes, overlap)
        condition = condition & (F.col(_POINT_BLOCK) == F.col(_BLOCK)) & _holds(F.col(_FROM), F.col(_TO), overlap)
    joined = points.join(right, condition, how)
    matched = F.col(_REF).isNotNull()
    changed = {
        KIND: F.when(matched, F.lit(MATCHED)).otherwise(F.lit(UNMATCHED)),
        CONTRIBUTORS: F.when(matched, F.concat(F.col(CONTRIBUTORS), F.col(_REF))).otherwise(F.col(CONTRIBUTORS)),
    }
    return joined.select(*(changed.get(name, F.col(name)).alias(name) for name in columns), RIGHT_KEY, RIGHT_VALUE)


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"stream-table {how} join, lookup latest: join on the key; only table records that are new since the snapshot "
        "are exchanged and sorted, and keys with many of them are looked up by blocks; points are read once"
    )


def _versions(table: TableSide, since: int) -> DataFrame:
    """Live versions that new points can meet: `rk`, `rv`, contributors, the block, and from which order to which.

    Null is from before `since`, or without an end.
    """
    rows = table.all()
    if table.changes is not None:
        rows = _changes(table.changes, since)
        if table.state is not None:
            rows = _with_end(table.state, table.changes).unionByName(rows, allowMissingColumns=True)
        # superseded before: no new point can meet it
        rows = rows.where(F.col(_TO).isNull() | (F.col(_TO)["cycle"] >= since))
    bounds = () if table.changes is None else (_FROM, _TO, F.coalesce(_BLOCK, F.lit(0)).alias(_BLOCK))
    return rows.where(F.col(VALUE).isNotNull()).select(
        F.col(KEY).alias(RIGHT_KEY), F.col(VALUE).alias(RIGHT_VALUE), F.col(CONTRIBUTORS).alias(_REF), *bounds
    )


def _changes(changes: DataFrame, since: int) -> DataFrame:
    """Changes with their block and their validity: one exchange, one sort."""
    return _in_blocks(changes).withColumns(
        {_FROM: F.when(is_new(since), F.col(ORDER)), _TO: F.lead(ORDER).over(_in_order())}
    )


def _with_end(state: DataFrame, changes: DataFrame) -> DataFrame:
    """The state's versions, and where the first change of their key ends them."""
    first = changes.groupBy(F.col(KEY).alias(_CHANGED)).agg(F.min(ORDER).alias(_TO))
    same = equal_keys(key_columns(state), key_columns(first, _CHANGED))
    return state.join(first, same, "left").drop(_CHANGED)


def _with_block(points: DataFrame, changes: DataFrame, overlap: Overlap) -> DataFrame:
    """Points with the block of their key's changes that they fall into: 0 but for keys with many.

    The key's block starts come as an array; the number of those before the point is found by halving.
    """
    many = (
        changes.groupBy(F.col(KEY).alias(_CHANGED)).agg(F.count("*").alias(_COUNT)).where(F.col(_COUNT) > _BLOCK_SIZE)
    )
    hot = changes.join(F.broadcast(many), equal_keys(key_columns(changes), key_columns(many, _CHANGED)), "left_semi")
    starts = (
        _in_blocks(hot)
        .where((F.col(_IN_BLOCK) == 0) & (F.col(_BLOCK) > 0))
        .groupBy(F.col(KEY).alias(_CHANGED))
        .agg(F.sort_array(F.collect_list(ORDER)).alias(_STARTS))
        .withColumn(_STEPS, F.sequence(F.floor(F.log2(F.size(_STARTS))).cast("int"), F.lit(0), F.lit(-1)))
        .withColumn(_STEPS, F.transform(_STEPS, lambda power: F.pow(F.lit(2), power).cast("int")))
    )

    def further(before: Column, step: Column) -> Column:
        return F.when(_begun(F.get(_STARTS, before + step - 1), overlap), before + step).otherwise(before)

    same = F.col(KEY).isNotNull() & equal_keys(key_columns(points), key_columns(starts, _CHANGED))
    block = F.coalesce(F.aggregate(_STEPS, F.lit(0), further), F.lit(0))
    return (
        points.join(F.broadcast(starts), same, "left").withColumn(_POINT_BLOCK, block).drop(_CHANGED, _STARTS, _STEPS)
    )


def _in_blocks(changes: DataFrame) -> DataFrame:
    """Changes with the block of their key's changes that they lie in, and their place there."""
    place = F.row_number().over(_in_order()) - 1
    return changes.withColumn(_IN_BLOCK, place).withColumns(
        {_BLOCK: F.floor(F.col(_IN_BLOCK) / _BLOCK_SIZE).cast("int"), _IN_BLOCK: F.col(_IN_BLOCK) % _BLOCK_SIZE}
    )


def _in_order() -> WindowSpec:
    return Window.partitionBy(KEY).orderBy(ORDER, PLACE)


def _begun(start: Column, overlap: Overlap) -> Column:
    return start <= F.col(ORDER) if overlap == "right_first" else start < F.col(ORDER)


def _holds(start: Column, end: Column, overlap: Overlap) -> Column:
    """Whether a point lies in a stretch of the order; null: no bound."""
    not_ended = F.col(ORDER) <= end if overlap == "left_first" else F.col(ORDER) < end
    return (start.isNull() | _begun(start, overlap)) & (end.isNull() | not_ended)
