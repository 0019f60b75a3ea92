"""An output's table beside what the evaluations of its cycles give, row for row."""

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
from lakestreams.verify.comparison import Finding
from lakestreams.verify.configurations import within

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from pyspark.sql import DataFrame

    from lakestreams.topology.endpoints import DeltaSink

EXAMPLES = 5
_HERE, _THERE = "computed", "in the table"
_SIDE, _RECORD = "_side", "_record"


@dataclass(frozen=True)
class Made:
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


def unlike(first: Made, other: Made, there: DataFrame) -> str | None:
    """Why another configuration's rows cannot stand beside the first one's in the table; None: they can."""
    if other.sink.mode != first.sink.mode or _merged_by(other) != _merged_by(first):
        return "they were written in another mode, or by another key"
    return lacking(other, there)


def lacking(made: Made, there: DataFrame) -> str | None:
    """Why the rows cannot be found in the table: it was made anew, with other columns. None: they can."""
    have = {name.lower(): kind for name, kind in there.dtypes}
    odd = [name for name, kind in made.rows.dtypes if have.get(name.lower()) != kind]
    return f"the table has no such {', '.join(odd)} as they wrote" if odd else None


def _merged_by(made: Made) -> Sequence[str] | None:
    return sinks.merged_by(made.sink, made.records) if made.sink.mode == "merge" else None


def appended(made: Sequence[Made], there: DataFrame, first: int, last: int, left: AbstractSet[int]) -> Finding:
    """The rows of the cycles that were asked for, but for those that are left out.

    Args:
        made: by configuration; cycles have one each.
        there: the table.
        first, last: the cycles that were asked for.
        left: the cycles that are left out.
    """
    cycle = F.col(LINEAGE)["cycle"]
    asked, not_these = cycle.between(first, last), within(left)
    place = {f"_{name}": F.col(LINEAGE)[name] for name in ("cycle", "trigger", "n")}
    rows = _together(one.rows.where(asked & within(one.cycles)) for one in made)
    held = there.select(*rows.columns).where(asked & ~not_these)
    one = _compared(made[0].sink.name, rows.withColumns(place), held.withColumns(place), list(place))
    return replace(one, left_out=there.where(asked & not_these).count()) if left else one


def merged(made: Sequence[Made], there: DataFrame, floor: int) -> Finding:
    """The rows that cycles behind one have written: what no later cycle has touched is as it was, and not computed.

    Args:
        made: by configuration; cycles have one each, and they are all behind that one.
        there: the table.
        floor: the cycle; 0: all are compared.
    """
    cycle = F.col(LINEAGE)["cycle"]
    sink, records = made[0].sink, made[0].records
    by, key = sinks.merged_by(sink, records), names(records, KEY)
    wanted = (one.rows.where((cycle > floor) & within(one.cycles)) for one in made)
    rows = _together(wanted)
    there = there.select(*rows.columns)
    if not sink.parent.is_table:
        rows, there = (side.withColumn(_RECORD, F.expr(sinks.RECORD)) for side in (rows, there))
        key = [_RECORD]
    newest = sinks.latest(rows, by)
    held = there
    if floor:
        held = there.where(cycle > floor).unionByName(_of_keys(there.where(cycle <= floor), newest, key))
    one = _compared(sink.name, newest.where(F.col(LINEAGE)["kind"] != TOMBSTONE), held, key)
    return replace(one, left_out=there.count() - held.count()) if floor else one


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    """One frame: columns that a configuration does not have yet are null in its rows, as they are in the table."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _of_keys(rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    mine = others.select(*(F.col(name).alias(f"_{name}") for name in key))
    same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key))
    return rows.join(mine, same, "left_semi")


def _compared(what: str, computed: DataFrame, there: DataFrame, key: Sequence[str]) -> Finding:
    """Rows that stand on one side only, or more often on one: by the place they have in both."""
    columns = computed.columns
    both = computed.withColumn(_SIDE, F.lit(0)).unionByName(there.select(*columns).withColumn(_SIDE, F.lit(1)))
    # a row as text: any type can be compared so, maps too
    as_text = F.to_json(F.struct(*(name for name in columns if name not in key or not name.startswith("_"))))
    told = both.select(*key, _SIDE, as_text.alias("row"))
    by_place = told.groupBy(*key).agg(
        F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 0, F.col("row")))).alias(_HERE),
        F.sort_array(F.collect_list(F.when(F.col(_SIDE) == 1, F.col("row")))).alias(_THERE),
    )
    differs = F.col(_HERE) != F.col(_THERE)
    (total,) = by_place.agg(F.count("*").alias("all"), F.count_if(differs).alias("differ")).collect()
    examples = by_place.where(differs).orderBy(*key).limit(EXAMPLES).collect() if total["differ"] else []
    return Finding(what, total["all"], total["differ"], tuple(_shown(row, key) for row in examples))


def _shown(row: Any, key: Sequence[str]) -> str:
    place = ", ".join(f"{name.lstrip('_')}={_plain(row[name])}" for name in key)
    return f"{place}\n  computed      {_or_nothing(row[_HERE])}\n  in the table  {_or_nothing(row[_THERE])}"


def _plain(value: Any) -> str:
    if hasattr(value, "asDict"):
        return f"{value['source']}-{value['partition']}@{value['offset']}"
    return str(value)


def _or_nothing(rows: Sequence[str]) -> str:
    return "; ".join(rows) or "nothing"
