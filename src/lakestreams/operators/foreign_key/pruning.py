"""What a few new rows reach of two tables that join by foreign key: the rest of their states need not be read."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions
from lakestreams.operators.foreign_key.subscribers import FOREIGN_KEY
from lakestreams.operators.records import KEY, Extract, known_sum, unextracted
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def prune(
    left: TableSide,
    right: TableSide,
    since: int,
    extract: Extract = unextracted,
) -> tuple[TableSide, TableSide, int | None]:
    """Both sides, their states without what nothing new can reach.

    Of the left state stays what names a changed right key or has a changed left key; of the right state the changed
    keys and what left rows of changed keys name or named. Changes stay as they are: one may replace a row of the state.
    Worth it when the changes are few compared with the states: keys are broadcast, states filtered where they are read.

    Args:
        extract: computes what is left of the states, before all else.

    Returns:
        Left, right, and how many rows of the states are left, if it is known.
    """
    left_keys, right_keys = versions.new_keys(left, since), versions.new_keys(right, since)
    counts: list[int | None] = []
    named = [] if right_keys is None else [right_keys]
    if left.changes is not None:
        named.append(versions.wanted(left.changes, FOREIGN_KEY))
    if left.state is not None:
        ((reached, count),) = extract(_reached(left.state, left_keys, right_keys))
        counts.append(count)
        left = TableSide(reached, left.changes)
        if left_keys is not None:
            named.append(versions.wanted(versions.among(reached, KEY, left_keys), FOREIGN_KEY))
    if right.state is not None and named:
        keys = reduce(lambda some, more: some.union(more), named).distinct()
        ((found, count),) = extract(versions.among(right.state, KEY, keys))
        counts.append(count)
        right = TableSide(found, right.changes)
    elif right.state is not None:
        counts.append(None)
    return left, right, known_sum(counts)


def _reached(state: DataFrame, left_keys: DataFrame | None, right_keys: DataFrame | None) -> DataFrame:
    """The rows that have one of these keys or name one of those: two broadcast joins, one pass over the state."""
    found = F.lit(False)
    rows = state
    for name, keys in ((KEY, left_keys), (FOREIGN_KEY, right_keys)):
        if keys is not None:
            flag = f"{name}_reached"
            rows = versions.flagged(rows, name, keys, flag)
            found = found | F.col(flag)
    return rows.where(found).select(*state.columns)
