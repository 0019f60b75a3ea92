"""Foreign keys: which subscribers are there when a trigger comes. What both foreign-key joins share.

A *subscriber* is a row of the table that holds the foreign key, from its own order until the next row of its own key. A
*trigger* is a row of the other side: it meets every subscriber of its key that is there, in the byte order of the
subscribers' keys. Both lie in one frame of *events*: a subscriber's start, its end, a trigger.

Plan: one exchange by the foreign key. Sorted by order, each event learns the rank of the last trigger before it, and a
start what the other side has then; sorted by subscriber, a start learns the rank at its end (only if there are ends);
then it is repeated for each rank between, and sorted by rank and key bytes it stands behind its trigger. So a key costs
its input and its output, however often its subscribers and triggers change: no pair is made to be thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions
from lakestreams.operators.records import KEY, ORDER, PLACE, is_new, number_of
from lakestreams.operators.versions import TO

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

FOREIGN_KEY = "fk"
# The events' columns, next to o and n of the row.
AT, SUBSCRIBER, TRIGGER = "at", "subscriber", "trigger"
SEEN, RANK, LOCAL, ALONE, PRIOR = "seen", "rank", "local", "alone", "prior"
OPEN = "open"
_SPREAD, _WHEN, _ROLE, _FIRES, _OWN, _LAST, _EVENT = "spread", "when", "role", "fires", "own", "last", "event"
_END, _TRIGGER, _START = 0, 1, 2


def subscribers(rows: DataFrame, at: Column, payload: Column, *, own: Column, opens: Column, ends: bool) -> DataFrame:
    """The events of subscribers.

    Args:
        rows: records, `valid_to` with `ends`.
        at: the foreign key, plain; null: none.
        payload: a struct that holds the key as `k`.
        own: whether the row gives a result by itself (rank 0 in the end).
        opens: whether it subscribes at all, or only looks up.
        ends: whether there are rows with an end.
    """
    starts = rows.select(
        at.alias(AT),
        number_of(at, F.col(KEY)).alias(_SPREAD),
        ORDER,
        PLACE,
        payload.alias(SUBSCRIBER),
        own.alias(_OWN),
        opens.alias(OPEN),
        (F.col(TO) if ends else F.lit(None)).alias(TO),
    )
    if not ends:
        return starts.withColumns({_ROLE: F.lit(_START), _WHEN: F.col(ORDER)}).drop(TO)
    start = F.struct(F.lit(_START).alias(_ROLE), F.col(ORDER).alias(_WHEN))
    end = F.struct(F.lit(_END).alias(_ROLE), F.col(TO).alias(_WHEN))
    has_end = F.col(OPEN) & F.col(TO).isNotNull()
    events = starts.withColumn(_EVENT, F.explode(F.when(has_end, F.array(start, end)).otherwise(F.array(start))))
    is_start = F.col(_EVENT)[_ROLE] == _START
    return events.withColumns(
        {
            _ROLE: F.col(_EVENT)[_ROLE],
            _WHEN: F.col(_EVENT)[_WHEN],
            SUBSCRIBER: F.when(is_start, F.col(SUBSCRIBER)),
            _OWN: is_start & F.col(_OWN),
            OPEN: is_start & F.col(OPEN),
        }
    ).drop(TO, _EVENT)


def triggers(rows: DataFrame, payload: Column, since: int) -> DataFrame:
    """The events of the other side's records: new ones fire, older ones are there to be looked up."""
    return rows.select(
        versions.plain(rows).alias(AT),
        number_of(versions.plain(rows), F.col(ORDER)).alias(_SPREAD),
        ORDER,
        PLACE,
        F.lit(_TRIGGER).alias(_ROLE),
        F.col(ORDER).alias(_WHEN),
        payload.alias(TRIGGER),
        is_new(since).alias(_FIRES),
    )


def ranked(starts_and_ends: DataFrame, firing: DataFrame, place: float = _TRIGGER) -> DataFrame:
    """All events in order, with `rank`, and `seen`: the trigger before this event, if any. One exchange, one sort.

    Args:
        place: among the events of one record, where triggers come: ends are at 0, starts at 2.
    """
    events = starts_and_ends.unionByName(firing, allowMissingColumns=True)
    role = F.when(F.col(_ROLE) == _TRIGGER, F.lit(float(place))).otherwise(F.col(_ROLE).cast("double"))
    in_order = Window.partitionBy(_SPREAD, AT).orderBy(_WHEN, role, PLACE)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    fired = F.count_if(F.col(_FIRES))
    return events.withColumns(
        {
            RANK: fired.over(so_far).cast("int"),
            _LAST: fired.over(whole).cast("int"),
            SEEN: F.last(TRIGGER, ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1)),
        }
    )


def lookups(events: DataFrame) -> DataFrame:
    """The starts, each with what it has `seen`."""
    return events.where(F.col(_ROLE) == _START).select(SUBSCRIBER, SEEN)


def own_results(events: DataFrame) -> DataFrame:
    """As `met`, where nothing fires: the starts that give a result by themselves."""
    own = {RANK: F.lit(0), LOCAL: F.lit(0), TRIGGER: F.col(SEEN), PRIOR: F.lit(None).cast(events.schema[SEEN].dataType)}
    return events.where(F.col(_OWN)).withColumns(own)


def met(events: DataFrame, key_type: StructType, *, ends: bool) -> DataFrame:
    """Ranked events as what they meet: one more sort, or two if there are ends; no exchange.

    Returns:
        A row for each start that gives a result by itself (`rank` 0, `trigger` is what it saw), for each trigger
        (`subscriber` null, `alone` if it meets nobody), and for each pair, with `trigger`, `prior` (the trigger before
        that one) and `local`: its place behind the trigger, 0 first.
    """
    if ends:
        row = Window.partitionBy(_SPREAD, AT, ORDER, PLACE)
        at_end = F.max(F.when(F.col(_ROLE) == _END, F.col(RANK))).over(row)
        events = events.withColumn(_LAST, F.coalesce(at_end, F.col(_LAST)))
    none = F.array().cast("array<int>")
    lasts = F.col(OPEN) & (F.col(_LAST) > F.col(RANK))
    met_later = F.when(lasts, F.sequence(F.col(RANK) + 1, F.col(_LAST))).otherwise(none)
    by_itself = F.when(F.col(_OWN), F.array(F.lit(0))).otherwise(none)
    ranks = F.when(F.col(_FIRES), F.array(RANK)).otherwise(F.concat(by_itself, met_later))
    repeated = events.withColumn(RANK, F.explode(ranks)).withColumns(
        {
            TRIGGER: F.when(F.col(RANK) == 0, F.col(SEEN)).otherwise(F.col(TRIGGER)),
            SEEN: F.when(F.col(_ROLE) == _TRIGGER, F.col(SEEN)),
        }
    )
    keys = versions.byte_order(F.col(SUBSCRIBER)[KEY], key_type)
    behind = Window.partitionBy(_SPREAD, AT, RANK).orderBy(F.col(_ROLE) != _TRIGGER, *keys)
    so_far = behind.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return repeated.withColumns(
        {
            TRIGGER: F.when(F.col(RANK) == 0, F.col(TRIGGER)).otherwise(F.first(TRIGGER).over(so_far)),
            PRIOR: F.first(SEEN).over(so_far),
            LOCAL: F.row_number().over(behind) - 2,
            ALONE: F.lead(F.lit(1)).over(behind).isNull(),
        }
    )
