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
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.joins.order import (
    CONTRIBUTORS,
    KEY,
    KIND,
    ORDER,
    POINT_COLUMNS,
    TRIGGER,
    VALUE,
    VERSION_COLUMNS,
    contributor_of,
    trigger_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.nodes import JoinKind

RIGHT_KEY, RIGHT_VALUE = "rk", "rv"
_FROM, _TO, _REF = "r_from", "r_to", "r_ref"


@dataclass(frozen=True)
class TableSide:
    """What a table side brings into a cycle.

    Attributes:
        state: versions from before the cycle, at most one a key; or None.
        changes: versions of the tail and of the cycle itself, any number a key, tombstones among them; or None.
    """

    state: DataFrame | None
    changes: DataFrame | None

    def each(self, step: Step) -> TableSide:
        """The same step applied to both parts."""
        return TableSide(
            state=None if self.state is None else step(self.state),
            changes=None if self.changes is None else step(self.changes),
        )


if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[DataFrame], DataFrame]


def validate(left_key: Sequence[str], right_key: Sequence[str]) -> str | None:
    """Whether keys of these types can be equal.

    Args:
        left_key, right_key: the SQL types of the key's columns, in order.

    Returns:
        What is wrong, or None.
    """
    if list(left_key) == list(right_key):
        return None
    return f"left key ({', '.join(left_key)}) against right key ({', '.join(right_key)})"


def retain(table: TableSide, points: DataFrame) -> TableSide:
    """The part of the table that the points can meet: those of their keys.

    Worth it when the points are few beside the table: the keys are broadcast, the table is filtered where it is read,
    and nothing of it is exchanged.
    """
    keys = points.where(F.col(KEY).isNotNull()).select(F.col(KEY).alias("wanted")).distinct()

    def wanted(versions: DataFrame) -> DataFrame:
        # the key structs may differ in column names, so the columns are compared one by one
        condition = equal_keys(_key_columns(versions, KEY), _key_columns(keys, "wanted"))
        return versions.join(F.broadcast(keys), condition, "left_semi")

    return table.each(wanted)


def execute(points: DataFrame, table: TableSide, how: JoinKind, cycle: int) -> DataFrame:
    """Joins the cycle's points with the table.

    Args:
        points: a points frame (see `joins.order`).
        table: versions before and in the cycle.
        how: `inner` or `left`.
        cycle: the cycle's number; versions of it are seen only by later points.

    Returns:
        The points' columns with `rk` and `rv` (the row's key and value, null where unmatched), `kind` set to
        `matched` or `unmatched`, and the row's coordinates appended to `contributors`.
    """
    right = _with_validity(table, cycle)
    same = equal_keys(_key_columns(points, KEY), _key_columns(right, RIGHT_KEY))
    condition = F.col(KEY).isNotNull() & same
    if table.changes is not None:
        at = F.col(TRIGGER)
        condition = (
            condition & (F.col(_FROM).isNull() | (F.col(_FROM) < at)) & (F.col(_TO).isNull() | (at < F.col(_TO)))
        )
    joined = points.join(right, condition, how)
    matched = F.col(_REF).isNotNull()
    columns = {
        KIND: F.when(matched, F.lit("matched")).otherwise(F.lit("unmatched")),
        CONTRIBUTORS: F.when(matched, F.concat(F.col(CONTRIBUTORS), F.array(F.col(_REF)))).otherwise(
            F.col(CONTRIBUTORS)
        ),
    }
    return joined.select(
        *(columns.get(name, F.col(name)).alias(name) for name in POINT_COLUMNS), RIGHT_KEY, RIGHT_VALUE
    )


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"stream-table {how} join, lookup latest: hash join on the key; the table side is exchanged and sorted once "
        "only if table records are new since the snapshot; points are not sorted"
    )


def equal_keys(left: Sequence[Column], right: Sequence[Column]) -> Column:
    """Equality of two keys that are there, column by column: a null inside a key equals a null.

    A null key equals nothing; callers leave it out, since its columns are null as well.
    """
    return reduce(and_, (mine.eqNullSafe(other) for mine, other in zip(left, right, strict=True)))


def _key_columns(frame: DataFrame, name: str) -> list[Column]:
    fields = frame.schema[name].dataType.fields  # type: ignore[attr-defined]
    return [F.col(name)[field.name] for field in fields]


def _with_validity(table: TableSide, cycle: int) -> DataFrame:
    """Live versions with `r_from` and `r_to`: the in-cycle bounds of their validity, null where unbounded."""
    if table.changes is None:
        if table.state is None:
            msg = "a table side has state, changes or both"
            raise ValueError(msg)
        bounded = table.state.select(*VERSION_COLUMNS, F.lit(None).alias(_FROM), F.lit(None).alias(_TO))
    else:
        known = table.changes if table.state is None else table.state.unionByName(table.changes)
        following = F.lead(ORDER).over(Window.partitionBy(KEY).orderBy(ORDER))
        new = F.col(ORDER)["cycle"] >= cycle
        bounded = (
            known.withColumn("following", following)
            # superseded before the cycle began: no point of this cycle can meet it
            .where(F.col("following").isNull() | (F.col("following")["cycle"] >= cycle))
            .select(
                *VERSION_COLUMNS,
                F.when(new, trigger_of(F.col(ORDER))).alias(_FROM),
                F.when(F.col("following").isNotNull(), trigger_of(F.col("following"))).alias(_TO),
            )
        )
    return bounded.where(F.col(VALUE).isNotNull()).select(
        F.col(KEY).alias(RIGHT_KEY),
        F.col(VALUE).alias(RIGHT_VALUE),
        contributor_of(F.col(ORDER)).alias(_REF),
        _FROM,
        _TO,
    )
