"""Windowed joins in SQL: semantics section 3.7, as close to its words as SQL comes.

C is a task's clock. A left record's window ends at ts + after, a right one's at ts + before, and closes grace later.
    rules `strict`     C is the running maximum of stream time over all records of the task, behind another join or an
                       aggregation of the rows' own times; a record is stored unless its
                       window is closed when it comes; a pair needs both windows open
    rules `kafka`      C is the running maximum of time; the later record of a pair sees, in its window clipped at 0, what the
                       store of the other side still has
An unmatched record of an outer side is one that no pair holds that it triggered itself. It comes out
    eager              by itself, whatever it pairs with later
    on window close    by the first record that finds C past its close, unless a pair was there before; by the rules `kafka`
                       by the first such record behind it that takes part and is in order, and by itself if its window,
                       clipped at 0, is over when it comes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.joins import WindowedJoin
    from lakestreams.verify.sql_sides import Sides

_SIDES = """
select 'left' as side, *, ts + {after} as ends from {{left}}
union all
select 'right' as side, *, ts + {before} as ends from {{right}}
"""
# Time that goes on although no record comes (decision 0016): a tick moves its task's clock and is nothing else.
_AND_TICKS = """
union all
select null, null, null, false, ts, ts, at, array(), task, ts, null from {{ticks}}
"""
_CLOCKED = """
select *, there and key is not null as part, side is null as is_tick, max({moves}) over so_far as clock,
    max(if(side = 'left' and {put}, ts, null)) over so_far as left_time,
    max(if(side = 'right' and {put}, ts, null)) over so_far as right_time
from {{arms}}
window so_far as (partition by task order by at rows between unbounded preceding and current row)
"""
_STORED = """
select *, part and {taken} as stored, {step} as is_step, min(if({step}, at, null)) over
    (partition by task order by at rows between 1 following and unbounded following) as next_step
from {{clocked}}
"""
_PAIRS = """
select if(l.at > r.at, l.at, r.at) as at, l.at as l_at, r.at as r_at, l.key,
    array_sort(concat(l.made_of, r.made_of)) as made_of, greatest(l.ts, r.ts) as ts,
    if(l.at > r.at, r.ts, l.ts) as partner_ts, if(l.at > r.at, r.at, l.at) as partner_at
from {{stored}} l join {{stored}} r
    on l.side = 'left' and r.side = 'right' and l.stored and r.stored and l.key = r.key and l.task = r.task
    and {seen}
"""
_STRICT_PAIR = """
r.ts between l.ts - {before} and l.ts + {after} and greatest(l.clock, r.clock) <= least(l.ends, r.ends) + {grace}
"""
_KAFKA_PAIR = """
if(l.at > r.at,
    r.ts between greatest(0, l.ts - {before}) and greatest(0, l.ts + {after}) and r.ts > l.right_time - {retention},
    l.ts between greatest(0, r.ts - {after}) and greatest(0, r.ts + {before}) and l.ts > r.left_time - {retention})
"""
_CANDIDATES = """
select s.*, ends + {grace} + 1 as time, p.first_pair
from {{stored}} s
    left join (
        select member, min(at) as first_pair from (select explode(array(l_at, r_at)) as member, at from {{pairs}})
        group by member
    ) p on s.at = p.member
where s.stored and s.side in ({outer}) and (p.first_pair is null or p.first_pair > s.at)
"""
_STEPS = "select task, clock as time, at from {stored} where is_step"
_ROWS = """
with unmatched as (
    select *, case
        when {at_once} then at
        -- behind it, also where its window had closed before it came
        when reached is not null and next_step is not null then greatest(reached, next_step)
        end as trigger
    from {{candidates}}
)
select key, at, 'matched' as kind, made_of, ts,
    row_number() over (partition by at.cycle, at.source, at.partition, at.offset, at.attempt
        order by at, partner_ts, partner_at) as place
from {{pairs}}
union all
select key, trigger, 'unmatched', made_of, ts, null
from unmatched where trigger is not null and (first_pair is null or first_pair >= trigger)
union all
select key, at, 'unmatched', made_of, ts, null from {{stored}} where key is null and there and side in ({outer})
"""
_STRAYS = "select key from {arms} where key is not null group by key having count(distinct task) > 1"
_BUT_STRAYS = "select r.* from {rows} r left anti join {strays} s on r.key = s.key"
# `n` counts the pairs of a trigger among each other
PLACE_AMONG_PAIRS = (
    "if(kind = 'matched', rank() over "
    "(partition by o.cycle, o.source, o.partition, o.offset, o.attempt, kind order by n), null)"
)


def windowed(sides: Sides, node: WindowedJoin, actual: DataFrame) -> tuple[DataFrame, DataFrame, str | None]:
    """What a windowed join must give.

    Args:
        sides: of the topology.
        actual: what it gave, with `key`.

    Returns:
        What it must give, with `key`; what it gave; and what of both was left out, if anything. By the rules `strict`
        keys that lie in several tasks are, whose records several clocks judge.
    """
    times = {"before": node.before_ms, "after": node.after_ms, "grace": node.grace_ms}
    times["retention"] = sum(times.values())
    outer = {"inner": "''", "left": "'left'", "outer": "'left', 'right'"}[node.how]
    strict, on_close = node.rules == "strict", node.emit_unmatched == "on_window_close"
    frames = {"left": sides.tasked(node, node.left), "right": sides.tasked(node, node.right)}
    ticks = sides.ticks(node, node.left, node.right)
    if ticks is not None:
        frames["ticks"] = ticks
    both = sides.sql((_SIDES + ("" if ticks is None else _AND_TICKS)).format(**times), **frames)
    clocked = _CLOCKED.format(
        moves="moves" if strict else "ts",
        put="key is not null" if node.store == "in_memory" else "key is not null and there",
    )
    stored = sides.sql(
        _STORED.format(
            taken=f"ends + {node.grace_ms} >= clock" if strict else "true",
            step="true" if strict else "((part or is_tick) and ts = clock)",
        ),
        clocked=sides.sql(clocked, arms=both),
    )
    seen = (_STRICT_PAIR if strict else _KAFKA_PAIR).format(**times)
    pairs = sides.sql(_PAIRS.format(seen=seen), stored=stored)
    candidates = sides.sql(_CANDIDATES.format(outer=outer, **times), stored=stored, pairs=pairs)
    at_once = "true" if not on_close else "false" if strict else "greatest(0, ends) < clock"
    expected = sides.sql(
        _ROWS.format(outer=outer, at_once=at_once),
        pairs=pairs,
        stored=stored,
        candidates=sides.reached(candidates, sides.sql(_STEPS, stored=stored)),
    )
    strays = sides.sql(_STRAYS, arms=both)
    number = strays.count() if strict else 0
    if not number:
        return expected, actual, None
    expected, actual = (sides.sql(_BUT_STRAYS, rows=rows, strays=strays) for rows in (expected, actual))
    return expected, actual, f"{number} keys lie in several partitions"
