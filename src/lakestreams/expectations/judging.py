"""Rules and invariants of steps and outputs, judged over the rows of a cycle: frames in, counts and examples out.

All that a cycle has to judge is counted in one job. What is counted of each dataset comes as rows of the columns
    dataset string, name string, checked bigint, failed bigint
where `name` is a rule's, an invariant's, or `rows` (checked: all rows; failed: 0) and `rows.<kind>` for each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.expectations import outcomes
from lakestreams.expectations.rules import any_of, violated
from lakestreams.formats.json_text import exact_json
from lakestreams.operators.records import (
    AMENDED,
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    ORDER,
    PLACE,
    RECORD,
    TIME,
    TOMBSTONE,
    UNMATCHED,
    VALUE,
)
from lakestreams.topology.expectations import (
    FanOut,
    ForeignKeyExists,
    Invariant,
    NoDuplicateResult,
    OneOutcomePerLeft,
    Rule,
    UniqueKey,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields

KINDS: Final = (RECORD, MATCHED, UNMATCHED, AMENDED, TOMBSTONE)
ROWS: Final = "rows"
EXAMPLES: Final = 5
# Of a foreign-key join's row: whether it names a row that is not there (see `evaluate.walk`).
ORPHAN: Final = "orphan"
_LONGEST = 300


@dataclass(frozen=True)
class Dataset:
    """The rows of a step or output that a cycle judges.

    Attributes:
        name: the node's.
        rows: a records frame, new rows only, before any rule drops some of them.
        fields: its columns, for conditions.
        rules, invariants: what is judged of them.
        outcomes: of a join whose left records' outcomes are counted: `left, matched, unmatched, touched` (see `outcomes`).
        orphans: of a foreign-key join: `k, orphan` and the record columns, new rows.
        earlier: of an output with a unique key: rows of earlier cycles, with the output's columns and `event_time_ms`.
        columns: of an output with a unique key: where its columns lie in `rows`, by name.
    """

    name: str
    rows: DataFrame
    fields: Fields
    rules: Sequence[Rule] = ()
    invariants: Sequence[Invariant] = ()
    outcomes: DataFrame | None = None
    orphans: DataFrame | None = None
    earlier: Callable[[], DataFrame] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def violating(self, what: Rule | Invariant) -> DataFrame | None:
        """What violates a rule or invariant, one row each, with `shown` (text); None of what is judged elsewhere."""
        if isinstance(what, Rule):
            return self.rows.where(violated(what, self.fields)).withColumn("shown", _place_and_row())
        if isinstance(what, FanOut | OneOutcomePerLeft) and self.outcomes is not None:
            wrong = self.outcomes.where(F.col("touched") & outcomes.wrong(what))
            return wrong.withColumn("shown", outcomes.shown())
        if isinstance(what, NoDuplicateResult):
            twice = self.rows.groupBy(ORDER, PLACE).agg(F.count("*").alias("times")).where("times > 1")
            return twice.withColumn("shown", F.concat(_place(), F.lit(" row "), F.col(PLACE), F.lit(" twice")))
        if isinstance(what, ForeignKeyExists) and self.orphans is not None:
            return self.orphans.where(ORPHAN).withColumn(
                "shown", F.concat(_place(), F.lit(" "), exact_json(F.col(KEY)))
            )
        if isinstance(what, UniqueKey):
            return self._doubled(what)
        return None

    def _doubled(self, what: UniqueKey) -> DataFrame:
        """Keys of which a new row has another row, new or earlier, no further away in event time than `within`."""
        names = [f"key{place}" for place in range(len(what.columns))]
        dropping = [rule for rule in self.rules if rule.action == "drop"]  # such rows are not in the output
        rows = self.rows.where(F.col(VALUE).isNotNull() & ~any_of(dropping, self.fields)).select(
            *(F.expr(self.columns[column]).alias(name) for column, name in zip(what.columns, names, strict=True)),
            F.struct(ORDER, PLACE).alias("place"), F.col(TIME).alias("at"),
        )  # fmt: skip
        if self.earlier is not None:
            bounds = rows.agg(F.min("at").alias("low"), F.max("at").alias("high")).first()
            low, high = (bounds["low"], bounds["high"]) if bounds is not None else (None, None)
            if low is None or high is None:
                return rows.where(F.lit(False)).select("place.*", F.lit("").alias("shown"))
            near = F.col("event_time_ms").between(low - what.within_ms, high + what.within_ms)
            old = self.earlier().where(near).select(
                *(F.col(column).alias(name) for column, name in zip(what.columns, names, strict=True)),
                F.lit(None).cast(rows.schema["place"].dataType).alias("place"), F.col("event_time_ms").alias("at"),
            )  # fmt: skip
            new = rows.groupBy(*(F.col(name).alias(f"new_{name}") for name in names)).agg(
                (F.min("at") - what.within_ms).alias("low"), (F.max("at") + what.within_ms).alias("high")
            )  # of a key with many old rows only those nearby
            same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"new_{name}")) for name in names))
            rows = rows.unionByName(old.join(new, same & F.col("at").between(F.col("low"), F.col("high")), "left_semi"))
        in_time = Window.partitionBy(*names).orderBy("at")
        # the nearest rows of the key stand next to each other: verdicts do not depend on how cycles cut the rows
        gap = F.least(F.col("at") - F.lag("at").over(in_time), F.lead("at").over(in_time) - F.col("at"))
        close = rows.withColumn("gap", gap).where(F.col("gap") <= what.within_ms)
        wrong = (
            close.groupBy(*names)
            .agg(F.count("*").alias("times"), F.max("place").alias("last"))
            .where("last is not null")
        )
        key = exact_json(
            F.struct(*(F.col(name).alias(column) for column, name in zip(what.columns, names, strict=True))), nulls=True
        )
        text = F.concat(key, F.lit(" stands in "), F.col("times"), F.lit(" rows"))
        return wrong.select("last.*", text.alias("shown"))


def counted(dataset: Dataset) -> DataFrame:
    """How many rows of a dataset there are, of which kinds, and how many violate what; see the module.

    One aggregation over the rows, one over the outcomes of left records, one over orphans, and one for each invariant
    that groups rows by something else: as many as there are, for each costs a plan.
    """
    has_value = F.col(VALUE).isNotNull()
    none = F.lit(0)
    counts: list[tuple[str, Column, Column]] = [(ROWS, F.count(F.lit(1)), none)]
    counts += [(f"{ROWS}.{kind}", F.count_if(F.col(KIND) == kind), none) for kind in KINDS]
    counts += [(rule.name, F.count_if(has_value), F.count_if(violated(rule, dataset.fields))) for rule in dataset.rules]
    parts = [as_rows(dataset.name, dataset.rows, counts)]
    of_left = [one for one in dataset.invariants if isinstance(one, FanOut | OneOutcomePerLeft)]
    if of_left and dataset.outcomes is not None:
        touched = dataset.outcomes.where("touched")
        wrong = [(one.name, F.count(F.lit(1)), F.count_if(outcomes.wrong(one))) for one in of_left]
        parts.append(as_rows(dataset.name, touched, wrong))
    for one in dataset.invariants:
        if isinstance(one, ForeignKeyExists) and dataset.orphans is not None:
            lost = [(one.name, F.count(ORPHAN), F.count_if(ORPHAN))]
            parts.append(as_rows(dataset.name, dataset.orphans, lost))
        elif isinstance(one, NoDuplicateResult | UniqueKey):
            rows = dataset.violating(one)
            if rows is not None:  # as many are checked as there are rows
                parts.append(as_rows(dataset.name, rows, [(one.name, none, F.count(F.lit(1)))]))
    return reduce(DataFrame.unionByName, parts)


def as_rows(name: str, rows: DataFrame, counts: Sequence[tuple[str, Column, Column]]) -> DataFrame:
    """Aggregates over rows of any kind as rows of the module's columns.

    Args:
        name: of the dataset.
        rows: what is counted.
        counts: name, how many are checked, how many of them fail.
    """
    entries = F.array(
        *(
            F.struct(
                F.lit(what).alias("name"),
                checked.cast("bigint").alias("checked"),
                failed.cast("bigint").alias("failed"),
            )
            for what, checked, failed in counts
        )
    )
    return rows.agg(entries.alias("entries")).select(F.lit(name).alias("dataset"), F.inline("entries"))


def examples(dataset: Dataset, what: Rule | Invariant) -> list[str]:
    """Up to five rows that violate it, in words, with their coordinates; in the total order where they have a place."""
    wrong = dataset.violating(what)
    if wrong is None:
        return []
    by = [name for name in (ORDER, PLACE) if name in wrong.columns] or ["shown"]
    rows = wrong.orderBy(*by).select(F.substring("shown", 1, _LONGEST)).limit(EXAMPLES).collect()
    return [row[0] for row in rows]


def _place() -> Column:
    """Coordinates of the record that a row comes of, as text."""
    return F.concat(F.col(ORDER)["source"], F.lit("-"), F.col(ORDER)["partition"], F.lit("@"), F.col(ORDER)["offset"])


def _place_and_row() -> Column:
    return F.concat(_place(), F.lit(" "), row_text())


def row_text() -> Column:
    """A row's key and value as JSON text, with its nulls: a rule may be about one."""
    return exact_json(F.struct(F.col(KEY).alias("key"), F.col(VALUE).alias("value")), nulls=True)


def coordinates() -> Column:
    """Of the record by which a row is reported in quarantine: its first contributor, else its trigger."""
    first = F.try_element_at(F.col(CONTRIBUTORS), F.lit(1))
    trigger = F.struct(*(F.col(ORDER)[name].alias(name) for name in ("source", "partition", "offset", "attempt")))
    return F.coalesce(first, trigger)


def as_dict(rows: Sequence[Any]) -> dict[str, dict[str, tuple[int, int]]]:
    """Dataset to name to (checked, failed), of the collected rows of `counted`."""
    by_dataset: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        by_dataset.setdefault(row["dataset"], {})[row["name"]] = (int(row["checked"]), int(row["failed"]))
    for counts in by_dataset.values():
        for name in (NoDuplicateResult.name, UniqueKey.name):
            if name in counts:
                counts[name] = (counts[ROWS][0], counts[name][1])
    return by_dataset
