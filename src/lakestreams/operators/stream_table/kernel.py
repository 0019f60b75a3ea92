"""Stream-table join, inner and left, lookup `latest`: each point with the version of its key that is valid there.

The law: a version is valid from its own order until the next version of its key, and a point meets the version that is
valid at its order. A tombstone ends a version and starts none, and table records change what later points see without
a result of their own. A result has the point's key, time and place; a point that meets no version or has a null key is
unmatched in a left join, and gives no result in an inner one.

Source: Kafka Streams' KStreamKTableJoinProcessor and KIP-962; semantics section 4.

Plan: a table without changes has one row a key and needs no sort: one broadcast, or one exchange and one sort of each
side by a hash of the key where it is too large for that. With changes, in the tail or in the cycle itself, one exchange
and one sort of the *table side* give each version its end, and the join asks for no more of it; points are exchanged
and sorted once, or not at all if the table is broadcast. `many_changes`: one more exchange counts the keys, one more with one
sort is for the points and versions of those with many (decision 0010).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.operators import lookup
from lakestreams.operators import versions as validity
from lakestreams.operators.records import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.operators.versions import TableSide
    from lakestreams.topology.kinds import JoinKind, Overlap


def retain(table: TableSide, points: DataFrame) -> TableSide:
    """The part of the table that the points can meet: those of their keys.

    Worth it when the points are few compared with the table: the keys are broadcast, the table is filtered where it is read,
    and nothing of it is exchanged.
    """
    keys = validity.wanted(points, KEY)
    return table.each(lambda versions: validity.among(versions, KEY, keys))


def execute(
    points: DataFrame,
    table: TableSide,
    how: JoinKind,
    since: int,
    overlap: Overlap = "none",
    *,
    many_changes: bool = False,
) -> DataFrame:
    """Joins new points with the table by their key: arguments and results as those of `lookup.latest`."""
    return lookup.latest(points, KEY, table, how, since, overlap, many_changes=many_changes)


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"stream-table {how} join, lookup latest: hash join on the key; the table side is exchanged and sorted once "
        "only if table records are new since the snapshot; points are exchanged and sorted only if the table is too "
        "large to broadcast, or their key has many changes"
    )
