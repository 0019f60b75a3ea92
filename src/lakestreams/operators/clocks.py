"""The clocks that the records of windowed joins and aggregations meet; works on arms (see `windows`).

Two ways, same result. In general a task's records are sorted by their order for the running maxima, under `strict` those
of all tasks that share a history once more. Where every record moves the clock to its own stream time
(`Windowed.ascending`), nothing is sorted: the order ascends in cycle and stream time, so a record's clock is its own
stream time or what earlier cycles reached, whichever is more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import KEY, ORDER, TASK, TIME
from lakestreams.operators.windows import (
    ARM,
    AT,
    CLOCK,
    HORIZON,
    LEFT,
    LEFT_TIME,
    MOVES,
    PART,
    RIGHT,
    RIGHT_TIME,
    Windowed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CYCLE, _TOP, _FURTHEST, _LATEST = "c_cycle", "c_top", "c_furthest", "c_latest"
_OF_TASK, _OF_ALL = "c_of_task", "c_of_all"
_CLOCK_TASK, _REALM, _SPAN = "c_task", "c_realm", "c_stretch"
_CYCLE_BITS = 36  # of a number that holds task and cycle
_BEFORE_ALL = -1  # a cycle
CARRIED, REACHED, BEHIND, NEWEST = "carried", "reached", "behind", "newest"


def with_clocks(both: DataFrame, join: Windowed, since: int = 0, tops: DataFrame | None = None) -> DataFrame:
    """Arms with the running maxima at each record.

    Args:
        tops: what `tops_of` has made of them or of more, where clocks ascend; made here if it is not given.

    `clock` of its task, over every record; `left_time`, `right_time` of its task, over the records that the side's
    store would take (for the rules `kafka`); `horizon` of all tasks of its history; and of its task the clock before
    the first new cycle (`carried`, null: none) and after the last (`reached`).
    """
    return tallied(both, join.realm, since, tops) if join.ascending else _sorted(both, join, since)


def tops_of(both: DataFrame, realm: int, since: int) -> DataFrame:
    """How far each cycle of a task has come, where each record moves its task's clock to its own stream time.

    One row a task and cycle is enough to know what was reached before it, and after all of them: by its own task
    (`reached`), and by the one of its history that is furthest behind (`behind`); and where its newest records lie, by
    their stream time (`newest`, null where all are retained).

    Args:
        both: columns `task, o, moves`, and `clock` and `horizon`, null where they are not known yet.
        realm: how many tasks share a history.
    """
    cycle, span, furthest = _cycle(), _span(), F.coalesce(HORIZON, MOVES)
    of_realm = F.floor(F.col(TASK) / realm).alias(_REALM)
    tops = both.groupBy(of_realm, F.col(TASK).alias(_CLOCK_TASK), cycle.alias(_CYCLE), span.alias(_SPAN)).agg(
        F.max(MOVES).alias(_TOP),
        F.max(furthest).alias(_FURTHEST),
        F.max(F.when(F.col(CLOCK).isNull(), F.col(ORDER)["stream_time_ms"])).alias(_LATEST),
    )
    # exchanged by realm, tasks lie together as well
    everywhere = Window.partitionBy(_REALM).orderBy(_CYCLE).rangeBetween(Window.unboundedPreceding, -1)
    task = Window.partitionBy(_REALM, _CLOCK_TASK)
    earlier = task.orderBy(_CYCLE).rowsBetween(Window.unboundedPreceding, -1)
    known = tops.withColumn(_OF_ALL, F.max(_FURTHEST).over(everywhere)).withColumns(
        {
            _OF_TASK: F.max(_TOP).over(earlier),
            CARRIED: F.max(F.when(F.col(_CYCLE) < since, F.col(_TOP))).over(task),
            REACHED: F.max(_TOP).over(task),
            NEWEST: F.max_by(_LATEST, _CYCLE).over(task),
        }
    )
    known = known.withColumn(BEHIND, F.min(REACHED).over(Window.partitionBy(_REALM)))
    return known.select(_SPAN, _OF_ALL, _OF_TASK, CARRIED, REACHED, BEHIND, NEWEST)


def tallied(both: DataFrame, realm: int, since: int, tops: DataFrame | None = None) -> DataFrame:
    """Rows with their clocks, where each moves its task's clock to its own stream time.

    Args:
        both, realm, since: as `tops_of` takes them.
        tops: what that has made of these rows or of more; made here if it is not given.
    """
    tops = tops_of(both, realm, since) if tops is None else tops
    known = both.join(F.broadcast(tops), _span() == F.col(_SPAN), "left")
    clock = F.greatest(MOVES, _OF_TASK)
    horizon = F.greatest(F.coalesce(HORIZON, MOVES), F.col(_OF_ALL))
    return known.withColumns({CLOCK: clock, HORIZON: horizon}).drop(_SPAN, _OF_TASK, _OF_ALL, NEWEST)


def _cycle() -> Column:
    """What was retained knows its clocks: one row a task is enough for all of it."""
    return F.when(F.col(CLOCK).isNotNull(), F.lit(_BEFORE_ALL)).otherwise(F.col(ORDER)["cycle"])


def _span() -> Column:
    """One number to join by: a broadcast by any other key takes a page of memory, 64 MB by default, for a few rows."""
    return F.shiftleft(F.col(TASK).cast("bigint"), _CYCLE_BITS) + _cycle()


def _sorted(both: DataFrame, join: Windowed, since: int) -> DataFrame:
    task = Window.partitionBy(TASK)
    so_far = task.orderBy(AT).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    taken = F.col(PART)
    if join.store == "in_memory":
        taken = F.col(KEY).isNotNull()  # there a null value moves the store's time as well
    own = {arm: F.when((F.col(ARM) == arm) & taken, F.col(TIME)) for arm in (LEFT, RIGHT)}
    found = {
        CLOCK: F.max(MOVES).over(so_far),
        LEFT_TIME: F.max(F.coalesce(F.col(LEFT_TIME), own[LEFT])).over(so_far),
        RIGHT_TIME: F.max(F.coalesce(F.col(RIGHT_TIME), own[RIGHT])).over(so_far),
        CARRIED: F.max(F.when(F.col(ORDER)["cycle"] < since, F.col(MOVES))).over(task),
        REACHED: F.max(MOVES).over(task),
    }
    if join.realm == 1 or join.rules == "kafka":  # there a task never looks at another's records
        return both.withColumns({**found, HORIZON: found[CLOCK]})
    realm = Window.partitionBy(F.floor(F.col(TASK) / join.realm)).orderBy(AT)
    everywhere = realm.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return both.withColumns({**found, HORIZON: F.max(F.coalesce(HORIZON, MOVES)).over(everywhere)})
