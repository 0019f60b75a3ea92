"""Stream-table join, inner and left, lookup `latest`: each point with the version of its key that is valid there.

The law: a version is valid from its own order until the next version of its key; a point meets exactly the version
valid at its order, if there is one. Table records change what later points see and give no result of their own; a
tombstone ends a version and starts none. A result has the point's key, time and place. Point with a null key: no
result in an inner join, unmatched in a left one. Source: Kafka Streams' KStreamKTableJoinProcessor and KIP-962;
semantics section 4.

Plan: what is known of the table before the cycle has one row a key and needs no sort. Only when table records lie in
the tail or in the cycle itself, one exchange and one sort of the *table side* give each version its end; the points
are never sorted, and never exchanged unless the table side is too large to broadcast.
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
    RECORD_COLUMNS,
    RIGHT_KEY,
    RIGHT_VALUE,
    UNMATCHED,
    VALUE,
    equal_keys,
    key_columns,
    key_types_differ,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from lakestreams.topology.nodes import JoinKind, Overlap

    Step = Callable[[DataFrame], DataFrame]

_FROM, _TO, _REF = "r_from", "r_to", "r_ref"


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
    keys = points.where(F.col(KEY).isNotNull()).select(F.col(KEY).alias("wanted")).distinct()

    def wanted(versions: DataFrame) -> DataFrame:
        condition = equal_keys(key_columns(versions), key_columns(keys, "wanted"))
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
    right = _with_validity(table, since)
    same = equal_keys(key_columns(points), key_columns(right, RIGHT_KEY))
    condition = F.col(KEY).isNotNull() & same
    if table.changes is not None:
        at, start, end = F.col(ORDER), F.col(_FROM), F.col(_TO)
        begun = start <= at if overlap == "right_first" else start < at
        not_ended = at <= end if overlap == "left_first" else at < end
        condition = condition & (start.isNull() | begun) & (end.isNull() | not_ended)
    joined = points.join(right, condition, how)
    matched = F.col(_REF).isNotNull()
    columns = {
        KIND: F.when(matched, F.lit(MATCHED)).otherwise(F.lit(UNMATCHED)),
        CONTRIBUTORS: F.when(matched, F.concat(F.col(CONTRIBUTORS), F.col(_REF))).otherwise(F.col(CONTRIBUTORS)),
    }
    return joined.select(
        *(columns.get(name, F.col(name)).alias(name) for name in RECORD_COLUMNS), RIGHT_KEY, RIGHT_VALUE
    )


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"stream-table {how} join, lookup latest: hash join on the key; the table side is exchanged and sorted once "
        "only if table records are new since the snapshot; points are not sorted"
    )


def _with_validity(table: TableSide, since: int) -> DataFrame:
    """Live versions with the bounds of their validity: null where it begins before `since` or never ends."""
    if table.changes is None:
        bounded = table.all().select(*RECORD_COLUMNS, F.lit(None).alias(_FROM), F.lit(None).alias(_TO))
    else:
        following = F.lead(ORDER).over(Window.partitionBy(KEY).orderBy(ORDER, PLACE))
        bounded = (
            table.all()
            .withColumn(_TO, following)
            # superseded before: no new point can meet it
            .where(F.col(_TO).isNull() | (F.col(_TO)["cycle"] >= since))
            .withColumn(_FROM, F.when(F.col(ORDER)["cycle"] >= since, F.col(ORDER)))
        )
    return bounded.where(F.col(VALUE).isNotNull()).select(
        F.col(KEY).alias(RIGHT_KEY),
        F.col(VALUE).alias(RIGHT_VALUE),
        F.col(CONTRIBUTORS).alias(_REF),
        _FROM,
        _TO,
    )
