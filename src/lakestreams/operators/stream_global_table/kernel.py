"""Stream-global table join, inner and left: each point with the global table's row of a key that is made from it.

The law: as the stream-table join's with lookup `latest`, but the table is looked up by the mapped key, and the result
keeps the point's own, which may be null. A point whose mapped key is null is unmatched in a left join, and gives no
result in an inner one. A global table is there in full on every task, so partitions do not matter, and it is never
versioned.

Source: Kafka Streams' KStreamKTableJoinProcessor with KAFKA-10277 and KAFKA-19208; semantics section 5.

Plan: the stream-table join's (`lookup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.operators import lookup
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap

MAPPED = "mapped"


def execute(
    points: DataFrame,
    table: TableSide,
    how: JoinKind,
    since: int,
    *,
    overlap: Overlap = "none",
    many_changes: bool = False,
) -> DataFrame:
    """Joins new points with the table by `mapped`, the table key that each looks up.

    Arguments and results are those of `lookup.latest`; results have `mapped`, too (KIP-1340: a joiner may ask for it, also
    where nothing was found).
    """
    return lookup.latest(points, MAPPED, table, how, since, overlap, many_changes=many_changes)


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"stream-global {how} join: hash join on the mapped key; the table side is exchanged and sorted once only if "
        "table records are new since the snapshot; points are exchanged and sorted only if the table is too large to "
        "broadcast, or their key has many changes"
    )
