"""An output's table next to what the evaluations of its cycles give, row for row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.publish import sinks
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.evaluate.stateless import names
from lakestreams.formats.json_text import exact_json
from lakestreams.operators.records import KEY, TOMBSTONE
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.configurations import within

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.endpoints import DeltaSink

EXAMPLES = 5
_COMPUTED, _STORED = "computed", "in the table"
# Columns of an output may be called anything, so whatever stands next to them is next to a struct or a text of them all.
_PLACE, _SIDE, _ROW = "place", "side", "row"


@dataclass(frozen=True)
class CycleResults:
    """What the cycles of one configuration give of an output.

    Attributes:
        sink: the output, as this configuration declares it.
        cycles: those whose rows count.
        rows: as the table has them, of more cycles perhaps.
        records: the records frame that they are made of.
    """

    sink: DeltaSink
    cycles: AbstractSet[int]
    rows: DataFrame
    records: DataFrame


def unlike(first: CycleResults, other: CycleResults, stored: DataFrame) -> str | None:
    """Why another configuration's rows cannot stand next to the first one's in the table; None: they can."""
    if other.sink.mode != first.sink.mode or _merged_by(other) != _merged_by(first):
        return "they were written in another mode, or by another key"
    return lacking(other, stored)


def lacking(results: CycleResults, stored: DataFrame) -> str | None:
    """Why the rows cannot be found in the table: it was recreated, with other columns. None: they can."""
    have = {name.lower(): kind for name, kind in stored.dtypes}
    odd = [name for name, kind in results.rows.dtypes if have.get(name.lower()) != kind]
    return f"the table has no such {', '.join(odd)} as they wrote" if odd else None


def _merged_by(results: CycleResults) -> Sequence[str] | None:
    return sinks.merged_by(results.sink, results.records) if results.sink.mode == "merge" else None


def appended(
    results: Sequence[CycleResults], stored: DataFrame, first: int, last: int, left: AbstractSet[int]
) -> Comparison:
    """The rows of the cycles that were asked for, but for those that are left out.

    Args:
        results: by configuration; cycles have one each.
        stored: the table.
        first, last: the cycles that were asked for.
        left: the cycles that are left out.
    """
    cycle = F.col(LINEAGE)["cycle"]
    asked, not_these = cycle.between(first, last), within(left)
    place = F.struct(*(F.col(LINEAGE)[name].alias(name) for name in ("cycle", "trigger", "n")))
    rows = _together(one.rows.where(asked & within(one.cycles)) for one in results)
    held = stored.select(*rows.columns).where(asked & ~not_these)
    one = _compared(results[0].sink.name, rows, held, place)
    return replace(one, left_out=stored.where(asked & not_these).count()) if left else one


def with_strays(of_cycles: Comparison, stored: DataFrame, newest: int) -> Comparison:
    """The same with the rows of an appended table that no cycle can have written: they differ, whatever was asked for.

    Args:
        of_cycles: the comparison of the rows that cycles have written.
        stored: the table.
        newest: the newest cycle that is planned.
    """
    cycle = F.col(LINEAGE)["cycle"]
    strays = stored.where(cycle.isNull() | ~cycle.between(1, newest))
    count = strays.count()
    if not count:
        return of_cycles
    shown = strays.select(cycle, exact_json(F.struct("*"))).limit(EXAMPLES).collect()
    examples = (
        *of_cycles.examples,
        *(f"cycle={row[0]}, which was never planned\n  in the table  {row[1]}" for row in shown),
    )
    return replace(
        of_cycles, compared=of_cycles.compared + count, differs=of_cycles.differs + count, examples=examples[:EXAMPLES]
    )


def merged(results: Sequence[CycleResults], stored: DataFrame, floor: int) -> Comparison:
    """The rows that cycles behind one have written: what no later cycle has touched is as it was, and not computed.

    Args:
        results: by configuration; cycles have one each, and they are all behind that one.
        stored: the table.
        floor: the cycle; 0: all are compared.
    """
    cycle = F.col(LINEAGE)["cycle"]
    sink, records = results[0].sink, results[0].records
    by = sinks.merged_by(sink, records)
    key = (
        [F.col(name) for name in names(records, KEY)]
        if sink.parent.is_table
        else [F.expr(sinks.RECORD).alias("record")]
    )
    place = F.struct(*key)
    wanted = (one.rows.where((cycle > floor) & within(one.cycles)) for one in results)
    rows = _together(wanted)
    stored = stored.select(*rows.columns)
    newest = sinks.latest(rows, by)
    held = stored
    if floor:
        written_since = F.coalesce(cycle > floor, F.lit(True))  # a row without a cycle is none of a cycle up to there
        held = stored.where(written_since).unionByName(_at_places(stored.where(cycle <= floor), newest, place))
    one = _compared(sink.name, newest.where(F.col(LINEAGE)["kind"] != TOMBSTONE), held, place)
    return replace(one, left_out=stored.count() - held.count()) if floor else one


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    """One frame: columns that a configuration does not have yet are null in its rows, as they are in the table."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _at_places(rows: DataFrame, others: DataFrame, place: Column) -> DataFrame:
    """The rows at whose places others are."""
    mine, theirs = rows.select(F.struct("*").alias(_ROW), place.alias(_PLACE)), others.select(place.alias("of_others"))
    return mine.join(theirs, F.col(_PLACE).eqNullSafe(F.col("of_others")), "left_semi").select(f"{_ROW}.*")


def _compared(what: str, computed: DataFrame, stored: DataFrame, place: Column) -> Comparison:
    """Rows that stand on one side only, or more often on one: by the place they have in both."""
    row = exact_json(F.struct(*computed.columns))  # as text, any type can be compared, maps too
    computed, stored = (
        rows.select(place.alias(_PLACE), F.lit(side).alias(_SIDE), row.alias(_ROW))
        for side, rows in enumerate((computed, stored))
    )
    by_place = (
        computed.unionByName(stored)
        .groupBy(_PLACE)
        .agg(
            F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 0, F.col(_ROW)))).alias(_COMPUTED),
            F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 1, F.col(_ROW)))).alias(_STORED),
        )
    )
    differs = F.col(_COMPUTED) != F.col(_STORED)
    (total,) = by_place.agg(F.count("*").alias("all"), F.count_if(differs).alias("differ")).collect()
    examples = by_place.where(differs).orderBy(_PLACE).limit(EXAMPLES).collect() if total["differ"] else []
    return Comparison(what, total["all"], total["differ"], tuple(map(_shown, examples)))


def _shown(row: Any) -> str:
    place = ", ".join(f"{name}={_plain(row[_PLACE][name])}" for name in row[_PLACE].__fields__)
    return f"{place}\n  computed      {_or_nothing(row[_COMPUTED])}\n  in the table  {_or_nothing(row[_STORED])}"


def _plain(value: Any) -> str:
    if hasattr(value, "asDict"):
        return f"{value['source']}-{value['partition']}@{value['offset']}"
    return str(value)


def _or_nothing(rows: Sequence[str]) -> str:
    return "; ".join(rows) or "nothing"
