"""Joins of two tables in SQL: by key and by foreign key.

Each change of either table gives a row with the row of the other one that is valid at its place in the order; and what is
there in the end is what the last rows of both give. A change that gives nothing is a deletion, of which only the end tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.formats.json_text import EXACT
from lakestreams.sql import literal
from lakestreams.topology.joins import ForeignKeyJoin
from lakestreams.verify.sql_sides import CONTRIBUTOR_PLACES, PLACE, SEEN, own_key, seen_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.joins import TableTableJoin
    from lakestreams.verify.sql_sides import Sides

# Keys that differ in less than a millisecond are two.
_OWN_TEXT = f"to_json(own, map({', '.join(literal(part) for option in EXACT.items() for part in option)}))"
_CHANGES = """
with l as (select *, lead(at) over (partition by own order by at) as until from {{left}} where own is not null),
r as (select *, lead(at) over (partition by own order by at) as until from {{right}} where own is not null),
met as (
    select l.at, l.there as l_there, r.there as r_there, l.made_of as l_made_of, r.made_of as r_made_of,
        greatest(l.ts, r.seen) as ts, greatest(if(l.there, l.seen, null), r.seen) as seen
    from l left join r on r.own = l.key and r.there and r.at < l.at and (r.until is null or l.at < r.until)
    union all
    select r.at, l.there, r.there, l.made_of, r.made_of, {right_time} as ts,
        greatest(l.seen, if(r.there, r.seen, null)) as seen
    from r left join l on r.own = l.key and l.there and l.at < r.at and (l.until is null or r.at < l.until)
),
ends as (
    select {own} as own, l.there as l_there, r.there as r_there, l.made_of as l_made_of,
        r.made_of as r_made_of
    from (select * from l where until is null and there) l
        full outer join (select * from r where until is null and there) r on r.own = l.key
),
said as (
    select cast(null as string) as in_the_end, at, l_there, r_there, l_made_of, r_made_of, ts, seen from met
    union all
    select {own_text}, null, l_there, r_there, l_made_of, r_made_of, null, null from ends
),
judged as (
    select *, case
        when l_there and r_there then 'matched'
        when l_there and '{how}' in ('left', 'outer') or r_there and '{how}' = 'outer' then 'unmatched'
        end as kind
    from said
)
select in_the_end, at, kind, ts, seen, array_sort(concat(if(l_there, l_made_of, array()), if(r_there, r_made_of, array())))
    as made_of, null as place
from judged where kind is not null
"""
_LAST_ROWS = """
select own, kind, made_of from (
    select {own} as own, kind, {contributors} as made_of, row_number() over (partition by {own} order by {at} desc) as back
    from {{frame}}
) where back = 1 and kind <> 'tombstone'
"""
# Where another join reads it, what its lookups take as a row's time is compared as well.
_SEEN = """
select {at}.cycle as cycle, concat('looked up behind ', {trigger}) as trigger, kind, {contributors} as made_of, {seen} as ts,
    null as place
from {{rows}} where kind <> 'tombstone'
"""
_END = "select null as cycle, concat('in the end ', {0}) as trigger, kind, made_of, null as ts, null as place "


def changes(sides: Sides, node: TableTableJoin | ForeignKeyJoin) -> tuple[DataFrame, DataFrame, DataFrame]:
    """What a join of two tables must give, and what it held in the end.

    Returns:
        The rows that it must give; then, reported as the rows are, what each key must have in the end and lookups must see,
        and what it had and they saw.
    """
    by_foreign_key = isinstance(node, ForeignKeyJoin)
    expected = sides.sql(
        # what a right row answers has its own time; in a join by key it is the later one of both
        _CHANGES.format(
            how=node.how,
            own_text=_OWN_TEXT,
            own="l.own" if by_foreign_key else "coalesce(l.own, r.own)",
            right_time="r.ts" if by_foreign_key else "greatest(l.seen, r.ts)",
        ),
        left=sides.side(node.left, node.left_on if isinstance(node, ForeignKeyJoin) else None),
        right=sides.side(node.right),
    )
    frame = sides.results(node)
    text = _LAST_ROWS.format(own=own_key(frame), contributors=CONTRIBUTOR_PLACES, at=sides.at)
    actual = sides.sql(_END.format(_OWN_TEXT) + "from {rows}", rows=sides.sql(text, frame=frame))
    ends = sides.sql(_END.format("in_the_end") + "from {rows} where in_the_end is not null", rows=expected)
    rows = expected.where("in_the_end is null")
    if SEEN in frame.columns:
        ends = ends.unionAll(_seen(sides, rows, "at", "made_of", "seen"))
        actual = actual.unionAll(_seen(sides, frame, "o", CONTRIBUTOR_PLACES, seen_time(frame)))
    return rows, ends, actual


def _seen(sides: Sides, rows: DataFrame, at: str, contributors: str, seen: str) -> DataFrame:
    return sides.sql(_SEEN.format(at=at, trigger=PLACE.format(at), contributors=contributors, seen=seen), rows=rows)
