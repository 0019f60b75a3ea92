"""Foreign-key table-table join, inner and left: each left row with the right row that its foreign key names.

The law: a left update is joined with the right row that its foreign key names then, and its time is the later of both.
A right update answers every left row that names its key then, whatever it changed, in the byte order of the left keys,
and its time is its own alone. Without a right row a left join says `unmatched`, or `tombstone` where a left row is
deleted; an inner join says `tombstone` on a right deletion, and where a left row no longer names the key that it named.

Source: KIP-213 and KIP-1104, Kafka Streams' foreignkeyjoin.* of 4.1 and later; semantics section 10.

Both sides of one record (a table that names rows of its own): the left arm comes first and sees the right row as the
record leaves it. The right arm then answers the rows of other records; the record's own left row has its result
already, and an answer to the row that it replaced would be stale (Kafka drops it by its hash of the left value; only
where an update left the value as it was, Kafka says the result twice).

Plan: one exchange and one sort of the left side by its key (the row before, the end; none if it has no changes), one
exchange of both sides by the foreign key with up to three sorts (see `subscribers`). With `with_old` one more exchange
and sort; one more of the results where a record can cause rows of several inputs' places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions
from lakestreams.operators.foreign_key import subscribers as foreign
from lakestreams.operators.foreign_key.results import BEFORE, GONE, ROW, WAS, of_pairs
from lakestreams.operators.foreign_key.subscribers import AT, FOREIGN_KEY, LOCAL, RANK, SEEN, SUBSCRIBER
from lakestreams.operators.records import (
    BY_KEY,
    CONTRIBUTORS,
    KEY,
    KEY_HASH,
    OLD,
    ORDER,
    ORDER_TYPE,
    PLACE,
    TIME,
    VALUE,
    hashed,
    is_new,
    renumber,
)
from lakestreams.operators.table_table.results import SEEN_TIME
from lakestreams.operators.versions import TO, TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap


def execute(
    left: TableSide,
    right: TableSide,
    how: JoinKind,
    since: int,
    *,
    overlap: Overlap = "none",
    multi_row: bool = False,
    with_old: bool = False,
) -> DataFrame:
    """Joins the new changes of both tables.

    Args:
        left: versions with a column `fk`: the right key that each row names; null: none.
        right: versions; `old` and `seen_ts` are used where there.
        overlap: whether both sides hold rows of one trigger.
        multi_row: whether a side may hold several rows of one trigger.
        with_old: whether the result feeds another table join.

    Returns:
        Records: `k` and `v` (the left row's), `rk`, `rv`, `kind` matched, unmatched or tombstone. With `with_old` also
        `old_v`, `old_rv`, `old_kind`: the result that the left key had before (`old_kind` null: none).
    """
    ends = left.changes is not None
    rows = _left_rows(left, how, since, with_old=with_old)
    answers = _answers(right, since, with_old=with_old)
    if with_old:
        rows = _with_before(rows, answers, since)
    payload = [KEY, VALUE, TIME, CONTRIBUTORS, ORDER, PLACE, GONE, *([WAS, BEFORE] if with_old else [])]
    subscribers = foreign.subscribers(
        rows, F.col(AT), F.struct(*payload), own=is_new(since), opens=F.col(FOREIGN_KEY).isNotNull(), ends=ends
    )
    events = foreign.ranked(subscribers, answers)
    if right.changes is None:
        met = foreign.own_results(events)
    else:
        met = foreign.met(events, versions.key_type(left.all()), ends=ends).where(F.col(SUBSCRIBER).isNotNull())
    found = of_pairs(met, how, versions.key_type(right.all()).names, with_old=with_old)
    if not multi_row and overlap == "none":
        return found.drop(RANK, LOCAL, ROW)
    by = ((F.col(RANK) > 0).cast("int"), F.col(ROW), F.col(LOCAL))
    return renumber(found, *by).drop(RANK, LOCAL, ROW)


def explain(how: JoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return (
        f"foreign-key table-table {how} join: the left table is exchanged by its key and sorted once, then both by the "
        "foreign key and sorted up to three times; no join of Spark's is needed"
    )


def _left_rows(left: TableSide, how: JoinKind, since: int, *, with_old: bool) -> DataFrame:
    """Left rows that give or get a result: `at` (where they look), `valid_to`, `was` (the row before), `gone`.

    `gone` is whether a left update has to say tombstone if it finds nothing.
    """
    named = versions.plain(left.all(), FOREIGN_KEY)
    was = F.struct(
        F.col(VALUE).isNotNull().alias("there"), named.alias(FOREIGN_KEY), *([F.col(VALUE)] if with_old else [])
    )
    if left.changes is None:
        was = F.lit(None).cast(left.all().select(was.alias(WAS)).schema[WAS].dataType)
        until = F.lit(None).cast(ORDER_TYPE)  # Spark 4.0 takes no field of a null without a type
    else:
        by_key = Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE)
        was, until = F.lag(was).over(by_key), F.lead(ORDER).over(by_key)
    rows = (
        hashed(left.all())
        .withColumns({WAS: was, TO: until})
        .drop(KEY_HASH)
        .where(F.col(TO).isNull() | (F.col(TO)["cycle"] >= since))
        .where(is_new(since) | F.col(FOREIGN_KEY).isNotNull())
    )
    was_there, was_named = F.coalesce(F.col(WAS)["there"], F.lit(False)), F.col(WAS)[FOREIGN_KEY]
    if how == "left":
        return rows.withColumns({AT: named, GONE: was_there & F.col(VALUE).isNull()})
    # Whether or not the key that it named ever matched. A row that names none now looks there, for the result's time.
    moved = was_there & was_named.isNotNull() & ~named.eqNullSafe(was_named)
    return rows.withColumns({AT: F.coalesce(named, was_named), GONE: moved})


def _answers(right: TableSide, since: int, *, with_old: bool) -> DataFrame:
    rows = right.all()
    old = [F.col(OLD)] if with_old and OLD in rows.columns else []
    seen = F.coalesce(F.col(SEEN_TIME), F.col(TIME)) if SEEN_TIME in rows.columns else F.col(TIME)
    payload = F.struct(VALUE, TIME, seen.alias(SEEN_TIME), CONTRIBUTORS, ORDER, PLACE, *old)
    return foreign.triggers(rows, payload, since)


def _with_before(rows: DataFrame, answers: DataFrame, since: int) -> DataFrame:
    """Left rows with `before`: the right row that the row before them had named until then."""
    named = F.when(is_new(since), F.col(WAS)[FOREIGN_KEY])
    starts = foreign.subscribers(rows, named, F.struct(*rows.columns), own=F.lit(False), opens=F.lit(False), ends=False)
    found = foreign.lookups(foreign.ranked(starts, answers, place=3))
    return found.select(f"{SUBSCRIBER}.*", F.col(SEEN).alias(BEFORE))
