"""Foreign-key stream-table join, inner and left: each stream record with every table row that names its key (KIP-955).

The law: a row of the table names a stream key by its foreign key, from its own order until the next row of its own key;
a null foreign key names nothing. A point gives one result for each row that names its key then, in the byte order of the
table's keys, with the point's key and time, and table records give no result of their own. A point that no row names or
that has a null key is unmatched in a left join, and gives no result in an inner one.

Source: KIP-955, which Kafka never built; what it leaves open follows the stream-table and the foreign-key joins
(semantics section 11).

Plan: one exchange and one sort of the table by its key (the ends of rows; none if it has no changes), one exchange of
both sides by the stream key with two sorts, three if rows end (see `subscribers`); one more of the results where a
record can bring several points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions
from lakestreams.operators.foreign_key import subscribers as foreign
from lakestreams.operators.foreign_key.subscribers import ALONE, FOREIGN_KEY, LOCAL, SUBSCRIBER, TRIGGER
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    PLACE,
    RECORD_COLUMNS,
    RIGHT_KEY,
    RIGHT_VALUE,
    UNMATCHED,
    VALUE,
    renumber,
)
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap

# Among the events of one record, where its points come: before its table row, or after.
_POINTS: dict[str, int] = {"none": 1, "left_first": -1, "right_first": 3}


def execute(
    points: DataFrame,
    table: TableSide,
    how: JoinKind,
    since: int,
    *,
    overlap: Overlap = "none",
    multi_row: bool = False,
) -> DataFrame:
    """Joins new points with the table.

    Args:
        points: records of the stream, new rows only.
        table: versions, new ones and older ones, with a column `fk`: the stream key that each names; null: none.
        overlap: whether both sides hold rows of one trigger, and whose come first.
        multi_row: whether the stream may hold several rows of one trigger.

    Returns:
        Records of the points, with `rk` and `rv` (the table row's key and value, null where unmatched), `kind` matched
        or unmatched.
    """
    if how == "inner":
        points = points.where(F.col(KEY).isNotNull())
    ends = table.changes is not None
    rows = versions.with_validity(table, since).where(F.col(FOREIGN_KEY).isNotNull())
    subscribers = foreign.subscribers(
        rows,
        versions.plain(rows, FOREIGN_KEY),
        F.struct(KEY, VALUE, CONTRIBUTORS),
        own=F.lit(False),
        opens=F.lit(True),
        ends=ends,
    )
    triggers = foreign.triggers(points, F.struct(*RECORD_COLUMNS), since)
    met = foreign.met(foreign.ranked(subscribers, triggers, place=_POINTS[overlap]), versions.key_type(rows), ends=ends)
    matched = F.col(SUBSCRIBER).isNotNull()
    point, row = F.col(TRIGGER), F.col(SUBSCRIBER)
    columns = {
        KIND: F.when(matched, F.lit(MATCHED)).otherwise(F.lit(UNMATCHED)),
        CONTRIBUTORS: F.when(matched, F.concat(point[CONTRIBUTORS], row[CONTRIBUTORS])).otherwise(point[CONTRIBUTORS]),
        RIGHT_KEY: row[KEY],
        RIGHT_VALUE: row[VALUE],
        LOCAL: F.greatest(F.col(LOCAL), F.lit(0)),
    }
    results = met.where(matched | (F.col(ALONE) & F.lit(how == "left"))).select(
        *(columns.pop(name, point[name]).alias(name) for name in RECORD_COLUMNS),
        *(column.alias(name) for name, column in columns.items()),
    )
    if multi_row:
        return renumber(results, F.col(PLACE), F.col(LOCAL)).drop(LOCAL)
    return results.withColumn(PLACE, F.col(LOCAL)).drop(LOCAL)


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"foreign-key stream-table {how} join: both sides are exchanged by the stream key and sorted two or three times; "
        "the table is exchanged by its key and sorted before, only if table records are new since the snapshot"
    )
