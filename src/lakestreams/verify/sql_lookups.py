"""Lookups in SQL: a stream's records with rows of a table.

latest    a record meets the versions that name its key and are valid at its place in the order
as of     a record is looked up at its place; with grace at the first record with which its task's greatest time reaches
          its own and grace. It meets, of the versions that the store has taken by then, the latest of its key, if that is
          not newer than it, else the newest that is not, if its time lies within the history (semantics 4.1 and 7)
a wait    a record that meets no row waits for the first one behind it, until its task's clock is past its time and
          `wait`; having come out without one, it is amended by the first one that comes before the clock is past
          its time and `amend` (decision 0017)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.topology.lookups import ForeignKeyStreamJoin, StreamGlobalJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.joins import Join
    from lakestreams.topology.lookups import StreamTableJoin
    from lakestreams.verify.sql_sides import Sides

_LATEST = """
with versions as (
    select *, lead(at) over (partition by own order by at) as until from {{table}} where own is not null
),
met as (
    select p.at, p.ts, p.made_of, v.made_of as found
    from {{points}} p left join versions v
        on v.key = p.key and v.there and v.at < p.at and (v.until is null or p.at < v.until)
    where p.there
)
select at, if(found is null, 'unmatched', 'matched') as kind,
    array_sort(concat(made_of, coalesce(found, array()))) as made_of, ts, {place} as place
from met where found is not null or '{how}' = 'left'
"""

_PUTS = """
select *, max(ts) over (partition by task order by at rows between unbounded preceding and current row) as store_time
from {table} where own is not null
"""
# Where a tombstone has the very time of the row that it deletes, Kafka's store may forget both (semantics section 7).
_ODD = """
select distinct t.own as key from {puts} t join {puts} v
    on v.own = t.own and v.ts = t.ts and v.at < t.at and v.there and not t.there
"""
_AT_ONCE = "select *, at as trigger from {points} where there"
_WAITING = "select *, ts + {grace} as time from {{points}} where there"
_BUFFER_TIME = """
select task, at, max(ts) over (partition by task order by at rows between unbounded preceding and current row) as time
from (select task, at, ts from {{points}} where there and key is not null {and_ticks})
"""
_RELEASED = """
select *, if(key is null, at, if(reached is null, null, greatest(at, reached))) as trigger from {waiting}
"""
_AS_OF = """
with placed as (
    select task, trigger, null as put, key, at, ts, made_of from {{asked}} where trigger is not null
    union all
    select task, at, ts, null, null, null, null from {{puts}}
),
timed as (
    select *, max(put) over
        (partition by task order by trigger rows between unbounded preceding and current row) - {history} as bound
    from placed
),
met as (
    select p.key, p.trigger, p.at, p.ts, p.made_of, p.bound,
        max(struct(v.ts, v.at, v.there, v.made_of)) as latest,
        max(if(v.ts <= p.ts, struct(v.ts, v.at, v.there, v.made_of), null)) as as_of
    from timed p left join {{puts}} v on v.own = p.key and v.at < p.trigger and v.ts >= v.store_time - {history}
    where p.put is null
    group by p.key, p.trigger, p.at, p.ts, p.made_of, p.bound
),
found as (
    select *, if(latest.ts <= ts, latest, if(ts >= bound, as_of, null)) as version from met
)
select key, trigger as at, if(version.there, 'matched', 'unmatched') as kind,
    array_sort(concat(made_of, if(version.there, version.made_of, array()))) as made_of, ts, {place} as place
from found where version.there or '{how}' = 'left'
"""
_BUT_ODD = "select r.* from {rows} r left anti join {odd} s on r.key = s.key"

_MOVES = """
select task, at, max(moves) over (partition by task order by at rows between unbounded preceding and current row) as time
from (
    select task, at, moves from {{points}} where there
    union all
    select task, at, moves from {{table}} where own is not null {and_ticks}
)
"""
_ROWS_AROUND = """
select p.key, p.at, p.ts, p.made_of, p.task,
    max(if(v.at < p.at, struct(v.at, v.there, v.made_of), null)) as before,
    min(if(v.at > p.at and v.there, struct(v.at, v.made_of), null)) as behind
from {points} p left join {table} v on v.own = p.key
where p.there
group by p.key, p.at, p.ts, p.made_of, p.task
"""
_WITH_TIME = "select *, ts + {ms} + 1 as time from {{rows}}"
_NAMED = "select * except (reached, time), if(reached is null, null, greatest(at, reached)) as {name} from {{rows}}"
_NEVER = "select *, cast(null as {type}) as {name} from {{rows}}"
_WAITED = """
with looked as (
    select *, coalesce(before.there, false) as meets, if(key is null or not {waits}, at, waited) as given_up from {{rows}}
),
judged as (
    select *, not meets and behind.at is not null and (given_up is null or behind.at < given_up) as met_waiting
    from looked
)
select at, 'matched' as kind, array_sort(concat(made_of, before.made_of)) as made_of, ts, null as place
from judged where meets
union all
select behind.at, 'matched', array_sort(concat(made_of, behind.made_of)), ts, null from judged where met_waiting
union all
select given_up, 'unmatched', made_of, ts, null
from judged where not meets and not met_waiting and given_up is not null and '{how}' = 'left'
union all
select behind.at, 'amended', array_sort(concat(made_of, behind.made_of)), ts, null
from judged where {amends} and not meets and not met_waiting and behind.at >= given_up
    and (amended_until is null or behind.at < amended_until)
"""


def latest(sides: Sides, node: Join) -> DataFrame:
    """What a lookup of the newest rows must give."""
    mapped = node.left_on if isinstance(node, StreamGlobalJoin) else None
    named = node.right_on if isinstance(node, ForeignKeyStreamJoin) else None
    return sides.sql(
        _LATEST.format(how=node.how, place=place_of(node)),
        points=sides.side(node.left, mapped),
        table=sides.side(node.right, named),
    )


def place_of(node: Join) -> str:
    """The place of a point among its trigger's rows, as SQL; null where a row may come out elsewhere, or be one of several."""
    return "null" if node.multiplies or node.waits else "at.n"


def as_of(sides: Sides, node: StreamTableJoin, actual: DataFrame) -> tuple[DataFrame, DataFrame, str | None]:
    """What a lookup as of event time must give.

    Args:
        sides: of the topology.
        node: the join, with a versioned table.
        actual: what it gave, with `key`.

    Returns:
        What it must give, with `key`; what it gave; and what of both was left out, if anything.
    """
    points = sides.tasked(node, node.left)
    puts = sides.sql(_PUTS, table=sides.tasked(node, node.right))
    if node.grace_ms is None:
        asked = sides.sql(_AT_ONCE, points=points)
    else:
        and_ticks, ticks = _and_ticks(sides.ticks(node, node.left))
        buffer_time = sides.sql(_BUFFER_TIME.format(and_ticks=and_ticks), points=points, **ticks)
        waiting = sides.sql(_WAITING.format(grace=node.grace_ms), points=points)
        asked = sides.sql(_RELEASED, waiting=sides.reached(waiting, buffer_time))
    text = _AS_OF.format(how=node.how, place=place_of(node), history=node.right.history_ms)
    expected = sides.sql(text, asked=asked, puts=puts)
    odd = sides.sql(_ODD, puts=puts)
    number = odd.count()
    if not number:
        return expected, actual, None
    expected, actual = (sides.sql(_BUT_ODD, rows=rows, odd=odd) for rows in (expected, actual))
    return expected, actual, f"{number} keys have a deletion of the very time of their row"


def waited(sides: Sides, node: StreamTableJoin) -> DataFrame:
    """What a join must give whose records wait for rows, or are amended by them."""
    points, table = sides.tasked(node, node.left), sides.tasked(node, node.right)
    and_ticks, ticks = _and_ticks(sides.ticks(node, node.left, node.right))
    moves = sides.sql(_MOVES.format(and_ticks=and_ticks), points=points, table=table, **ticks)
    rows = sides.sql(_ROWS_AROUND, points=points, table=table)
    kind = rows.schema["at"].dataType.simpleString()
    for name, bound in (("waited", node.wait_ms), ("amended_until", node.amend_ms)):
        if bound is None:
            rows = sides.sql(_NEVER.format(type=kind, name=name), rows=rows)
            continue
        waiting = sides.sql(_WITH_TIME.format(ms=bound), rows=rows)
        rows = sides.sql(_NAMED.format(name=name), rows=sides.reached(waiting, moves))
    text = _WAITED.format(
        how=node.how, waits=str(node.wait_ms is not None).lower(), amends=str(node.amend_ms is not None).lower()
    )
    return sides.sql(text, rows=rows)


def _and_ticks(ticks: DataFrame | None) -> tuple[str, dict[str, DataFrame]]:
    """What adds ticks to a query, and the frame that it names."""
    return ("", {}) if ticks is None else ("union all select task, at, ts from {ticks}", {"ticks": ticks})
