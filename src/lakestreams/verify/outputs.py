"""An output's table next to what the evaluations of its cycles give, row for row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.publish import sinks
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.evaluate.stateless import names
from lakestreams.operators.records import KEY, TOMBSTONE
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.configurations import within

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from pyspark.sql import DataFrame

    from lakestreams.topology.endpoints import DeltaSink

EXAMPLES = 5
_COMPUTED, _STORED = "computed", "in the table"
_SIDE, _RECORD = "_side", "_record"


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
    place = {f"_{name}": F.col(LINEAGE)[name] for name in ("cycle", "trigger", "n")}
    rows = _together(one.rows.where(asked & within(one.cycles)) for one in results)
    held = stored.select(*rows.columns).where(asked & ~not_these)
    one = _compared(results[0].sink.name, rows.withColumns(place), held.withColumns(place), list(place))
    return replace(one, left_out=stored.where(asked & not_these).count()) if left else one


def merged(results: Sequence[CycleResults], stored: DataFrame, floor: int) -> Comparison:
    """The rows that cycles behind one have written: what no later cycle has touched is as it was, and not computed.

    Args:
        results: by configuration; cycles have one each, and they are all behind that one.
        stored: the table.
        floor: the cycle; 0: all are compared.
    """
    cycle = F.col(LINEAGE)["cycle"]
    sink, records = results[0].sink, results[0].records
    by, key = sinks.merged_by(sink, records), names(records, KEY)
    wanted = (one.rows.where((cycle > floor) & within(one.cycles)) for one in results)
    rows = _together(wanted)
    stored = stored.select(*rows.columns)
    if not sink.parent.is_table:
        rows, stored = (side.withColumn(_RECORD, F.expr(sinks.RECORD)) for side in (rows, stored))
        key = [_RECORD]
    newest = sinks.latest(rows, by)
    held = stored
    if floor:
        held = stored.where(cycle > floor).unionByName(_of_keys(stored.where(cycle <= floor), newest, key))
    one = _compared(sink.name, newest.where(F.col(LINEAGE)["kind"] != TOMBSTONE), held, key)
    return replace(one, left_out=stored.count() - held.count()) if floor else one


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    """One frame: columns that a configuration does not have yet are null in its rows, as they are in the table."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _of_keys(rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    mine = others.select(*(F.col(name).alias(f"_{name}") for name in key))
    same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key))
    return rows.join(mine, same, "left_semi")


def _compared(what: str, computed: DataFrame, stored: DataFrame, key: Sequence[str]) -> Comparison:
    """Rows that stand on one side only, or more often on one: by the place they have in both."""
    columns = computed.columns
    both = computed.withColumn(_SIDE, F.lit(0)).unionByName(stored.select(*columns).withColumn(_SIDE, F.lit(1)))
    # a row as text: any type can be compared so, maps too
    as_text = F.to_json(F.struct(*(name for name in columns if name not in key or not name.startswith("_"))))
    as_texts = both.select(*key, _SIDE, as_text.alias("row"))
    by_place = as_texts.groupBy(*key).agg(
        F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 0, F.col("row")))).alias(_COMPUTED),
        F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 1, F.col("row")))).alias(_STORED),
    )
    differs = F.col(_COMPUTED) != F.col(_STORED)
    (total,) = by_place.agg(F.count("*").alias("all"), F.count_if(differs).alias("differ")).collect()
    examples = by_place.where(differs).orderBy(*key).limit(EXAMPLES).collect() if total["differ"] else []
    return Comparison(what, total["all"], total["differ"], tuple(_shown(row, key) for row in examples))


def _shown(row: Any, key: Sequence[str]) -> str:
    place = ", ".join(f"{name.lstrip('_')}={_plain(row[name])}" for name in key)
    return f"{place}\n  computed      {_or_nothing(row[_COMPUTED])}\n  in the table  {_or_nothing(row[_STORED])}"


def _plain(value: Any) -> str:
    if hasattr(value, "asDict"):
        return f"{value['source']}-{value['partition']}@{value['offset']}"
    return str(value)


def _or_nothing(rows: Sequence[str]) -> str:
    return "; ".join(rows) or "nothing"
