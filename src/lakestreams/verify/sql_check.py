"""A check of joins: what each must give, said once more in plain SQL that shares no code with the kernels.

A verification that evaluates with the kernels that a run used finds no fault of theirs. So the law of a join is written
as a query over the frames that feed it (`sql_lookups`, `sql_windows`, `sql_tables`), and what the kernel gave
is compared with it. Nothing is taken from `operators/`. A join behind another join, an aggregation or a buffer is judged on
the rows that these gave: a fault in them is theirs alone.

What is compared, as multisets of rows: the trigger and its cycle, the kind, the records that a row was made of, its time,
and
    lookups (stream-table, also as of event time; stream-global; foreign-key stream-table; joins that wait)
        every row; of those that a record gives one of at its own place, that place `n` too
    windowed joins
        every pair, and its place among the pairs of its trigger; every unmatched row, with the record that brought it
        out. So each record of an outer side is found to have one outcome, where the rules say so
    joins of two tables (by key, by foreign key)
        every row that is no deletion; and, for what deletions did, the row that each key has in the end. Where another
        join reads them, the time, too, that its lookups see
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakestreams.topology.graph import overlap_of
from lakestreams.topology.joins import ForeignKeyJoin, Join, TableTableJoin, WindowedJoin
from lakestreams.topology.lookups import StreamTableJoin
from lakestreams.verify import sql_lookups, sql_tables, sql_windows
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.sql_sides import CONTRIBUTOR_PLACES, PLACE, Evaluation, Sides, own_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.topology import Topology

_EXAMPLES = 5

_ACTUAL = f"""
select {{own}} as key, o as at, kind, {CONTRIBUTOR_PLACES} as made_of, ts, {{place}} as place
from {{{{frame}}}} where kind <> 'tombstone'
"""
_COMPARABLE = f"""
select at.cycle as cycle, {PLACE.format("at")} as trigger, kind, made_of, ts, cast(place as bigint) as place from {{rows}}
"""
_BALANCE = """
select cycle, trigger, kind, made_of, ts, place, sum(one) as balance from (
    select *, 1 as one from {expected} union all select *, -1 as one from {results}
) group by cycle, trigger, kind, made_of, ts, place
"""


def judge(spark: SparkSession, topology: Topology, evaluation: Evaluation) -> tuple[list[Comparison], list[str]]:
    """Compares what the joins gave with what SQL says.

    Args:
        evaluation: what its nodes gave.

    Returns:
        A finding for each join that can be judged, and for what cannot be one why.
    """
    check = _SqlCheck(spark, topology, evaluation)
    comparisons, notes = [], []
    for node in topology.nodes:
        if not isinstance(node, Join):
            continue
        reason = check.why_not(node)
        if reason is None:
            comparisons.append(check.on(node))
        else:
            notes.append(f"{node.name}: no second opinion on this {node.shape} join, {reason}")
    return comparisons, [*notes, *check.notes]


class _SqlCheck:
    """What SQL says of the joins of one topology."""

    def __init__(self, spark: SparkSession, topology: Topology, evaluation: Evaluation) -> None:
        self._topology = topology
        self._sides = Sides(spark, topology, evaluation)
        self.notes: list[str] = []

    def why_not(self, node: Join) -> str | None:
        """Why the SQL forms do not cover a join; None: they do."""
        if overlap_of(node, self._topology.nodes) != "none":
            return "both sides being fed by one source"
        versioned = [parent.name for parent in node.parents if parent.history_ms is not None]
        if versioned and not isinstance(node, StreamTableJoin):
            return f"{' and '.join(versioned)} being versioned"
        return None

    def on(self, node: Join) -> Comparison:
        """One join next to its SQL form."""
        expected, actual = self._both(node)
        return self._compared(f"second opinion on {node.name}", expected, actual)

    def _both(self, node: Join) -> tuple[DataFrame, DataFrame]:
        """The rows that a join must give, and those that it gave."""
        if isinstance(node, WindowedJoin):
            actual = self._actual(node, sql_windows.PLACE_AMONG_PAIRS)
            return self._but(node, *sql_windows.windowed(self._sides, node, actual))
        if isinstance(node, TableTableJoin | ForeignKeyJoin):
            expected, ends, held = sql_tables.changes(self._sides, node)
            return self._comparable(expected).unionAll(ends), self._comparable(self._actual(node, "null")).unionAll(
                held
            )
        actual = self._actual(node, "null" if sql_lookups.place_of(node) == "null" else "n")
        if isinstance(node, StreamTableJoin) and node.right.history_ms is not None:
            return self._but(node, *sql_lookups.as_of(self._sides, node, actual))
        if isinstance(node, StreamTableJoin) and node.waits_for_row:
            return self._comparable(sql_lookups.waited(self._sides, node)), self._comparable(actual)
        return self._comparable(sql_lookups.latest(self._sides, node)), self._comparable(actual)

    def _but(
        self, node: Join, expected: DataFrame, actual: DataFrame, left_out: str | None
    ) -> tuple[DataFrame, DataFrame]:
        """Both as they are compared; tells what was left out of them."""
        if left_out is not None:
            self.notes.append(f"{node.name}: {left_out}; no second opinion on their rows")
        return self._comparable(expected), self._comparable(actual)

    def _actual(self, node: Join, place: str) -> DataFrame:
        frame = self._sides.results(node)
        return self._sides.sql(_ACTUAL.format(own=own_key(frame), place=place), frame=frame)

    def _comparable(self, rows: DataFrame) -> DataFrame:
        return self._sides.sql(_COMPARABLE, rows=rows)

    def _compared(self, what: str, expected: DataFrame, actual: DataFrame) -> Comparison:
        rows = self._sides.sql(_BALANCE, expected=expected, results=actual)
        (total,) = rows.selectExpr("count(*) as total", "count_if(balance <> 0) as differ").collect()
        if not total["differ"]:
            return Comparison(what, total["total"])
        wrong = rows.where("balance <> 0").orderBy("cycle", "trigger", "kind", "made_of", "place").limit(_EXAMPLES)
        return Comparison(what, total["total"], total["differ"], tuple(_shown(row.asDict()) for row in wrong.collect()))


def _shown(row: Mapping[str, object]) -> str:
    contributors = row["made_of"]
    records = ", ".join(contributors) if isinstance(contributors, list) else ""
    cycle = "" if row["cycle"] is None else f", cycle {row['cycle']}"
    time = "" if row["ts"] is None else f", time {row['ts']}"
    place = "" if row["place"] is None else f", place {row['place']}"
    side = "by SQL only" if isinstance(row["balance"], int) and row["balance"] > 0 else "by the kernel only"
    return f"{row['trigger']}{cycle}: {row['kind']} of {records}{time}{place}: {side}"


__all__ = ["Evaluation", "judge"]
