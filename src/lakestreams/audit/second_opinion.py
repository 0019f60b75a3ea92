"""A second opinion on joins: what each must give, said once more in plain SQL that shares no code with the kernels.

A verification that evaluates with the kernels that a run used finds no fault of theirs. So the law of a join is written
here as a query over the frames that feed it, as close to the law's words as SQL comes, and what the kernel gave is
compared with it. Nothing is taken from `joins/`: the order of records is built anew from their coordinates (tables first
because they are tables, whatever number they were given), clocks are running maxima, versions end where `lead` says.

What is compared, as multisets of rows: the trigger and its cycle, the kind, the records that a row was made of, its time,
and
    lookups (stream-table, stream-global, foreign-key stream-table)
        every row; of those that a record gives one of, its place `n` too
    windowed joins (rules `strict`, unmatched rows on window close)
        every pair, and its place among the pairs of its trigger; every unmatched row, with the record that closed its
        window. So each record of an outer side is found to have one fate
    joins of two tables (by key, by foreign key)
        every row that is no deletion; and, for what deletions did, the row that each key has in the end

A frame's columns are those of `joins.order`: `k, v, ts, o, n, kind, contributors`. Here a side has the columns
    own struct         its key, with columns c0, c1, ...
    key struct         the key that it meets the other side by
    there boolean      whether it has a value
    ts bigint          its time, ms
    at struct          its place in the total order
    made_of array      the coordinates of the records that it was made of, as text
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.audit.finding import Finding
from lakestreams.topology.fields import Fields
from lakestreams.topology.graph import key_source, overlap_of, sources_of
from lakestreams.topology.nodes import (
    ForeignKeyJoin,
    ForeignKeyStreamJoin,
    StreamGlobalJoin,
    StreamTableJoin,
    TableTableJoin,
    WindowedJoin,
    history_of,
    is_join,
    is_made,
    shape_of,
)
from lakestreams.topology.partitions import task_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.errors import LakestreamsError
    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Join, Mapper, Node

_EXAMPLES = 5
_MADE = "made"

# A record's place in the total order (DESIGN section 2); `tables` is the condition that a table's topic fulfils.
_AT = """named_struct(
    'cycle', o.cycle, 'stream_time_ms', o.stream_time_ms, 'side', if({tables}, 0, 1), 'source', o.source,
    'partition', o.partition, 'offset', o.offset, 'attempt', o.attempt, 'n', n)"""
_PLACE = "concat({0}.source, '-', {0}.partition, '@', {0}.offset, if({0}.attempt = 0, '', concat('#', {0}.attempt)))"
_MADE_OF = f"array_sort(transform(contributors, one -> {_PLACE.format('one')}))"
_SIDE = f"""
select {{own}} as own, {{key}} as key, v is not null as there, ts, {_AT} as at, {_MADE_OF} as made_of
from {{{{frame}}}}
"""

# Each point with the versions that name its key and are valid at its place.
_LOOKUP = """
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

# Each change of either table with the row of the other one that is valid at its place; and what is there in the end.
_CHANGES = """
with l as (select *, lead(at) over (partition by own order by at) as until from {{left}} where own is not null),
r as (select *, lead(at) over (partition by own order by at) as until from {{right}} where own is not null),
met as (
    select l.at, l.there as l_there, r.there as r_there, l.made_of as l_made_of, r.made_of as r_made_of,
        greatest(l.ts, r.ts) as ts
    from l left join r on r.own = l.key and r.there and r.at < l.at and (r.until is null or l.at < r.until)
    union all
    select r.at, l.there, r.there, l.made_of, r.made_of, {right_time} as ts
    from r left join l on r.own = l.key and l.there and l.at < r.at and (l.until is null or r.at < l.until)
),
ends as (
    select {own} as own, l.there as l_there, r.there as r_there, l.made_of as l_made_of,
        r.made_of as r_made_of
    from (select * from l where until is null and there) l
        full outer join (select * from r where until is null and there) r on r.own = l.key
),
said as (
    select cast(null as string) as in_the_end, at, l_there, r_there, l_made_of, r_made_of, ts from met
    union all
    select to_json(own), null, l_there, r_there, l_made_of, r_made_of, null from ends
),
judged as (
    select *, case
        when l_there and r_there then 'matched'
        when l_there and '{how}' in ('left', 'outer') or r_there and '{how}' = 'outer' then 'unmatched'
        end as kind
    from said
)
select in_the_end, at, kind, ts, array_sort(concat(if(l_there, l_made_of, array()), if(r_there, r_made_of, array())))
    as made_of
from judged where kind is not null
"""
_GIVEN_IN_THE_END = """
select own, kind, made_of from (
    select {own} as own, kind, {made_of} as made_of, row_number() over (partition by {own} order by {at} desc) as back
    from {{frame}}
) where back = 1 and kind <> 'tombstone'
"""

# Semantics 3.7, rules `strict`: C is the running maximum of stream time over all records of the task, `close` when a
# record's window closes for good. `strays`: keys that lie in several tasks, whose records several clocks judge.
_ARMS = """
select 'left' as side, *, {task} as task, ts + {after} + {grace} as close from {{left}}
union all
select 'right' as side, *, {task} as task, ts + {before} + {grace} as close from {{right}}
"""
# Time that goes on although no record comes (decision 0016): a tick moves its task's clock and is nothing else.
_AND_TICKS = """
union all
select null, null, null, false, ts, at, array(), {task}, null from {{ticks}}
"""
_TICKS = f"select ts, {_AT} as at from (select *, 0 as n from {{{{frame}}}})"
_STRAYS = "select key from {arms} where key is not null group by key having count(distinct task) > 1"
_STORED = """
with clocked as (
    select *, max(greatest(ts, at.stream_time_ms)) over
        (partition by task order by at rows between unbounded preceding and current row) as clock
    from {arms}
)
select *, there and key is not null and close >= clock as stored from clocked
"""
_PAIRS = """
select if(l.at > r.at, l.at, r.at) as at, l.at as l_at, r.at as r_at, l.key,
    array_sort(concat(l.made_of, r.made_of)) as made_of, greatest(l.ts, r.ts) as ts,
    if(l.at > r.at, r.ts, l.ts) as partner_ts, if(l.at > r.at, r.at, l.at) as partner_at
from {{stored}} l join {{stored}} r
    on l.side = 'left' and r.side = 'right' and l.stored and r.stored and l.key = r.key and l.task = r.task
    and r.ts between l.ts - {before} and l.ts + {after}
    and greatest(l.clock, r.clock) <= least(l.close, r.close)
"""
_WINDOWED = """
with paired as (select explode(array(l_at, r_at)) as at from {{pairs}}),
alone as (
    select s.* from {{stored}} s left anti join paired p on s.at = p.at where s.stored and s.side in ({outer})
),
moments as (
    select task, close as time, null as reached_by, key, at, ts, made_of, true as waits from alone
    union all
    select task, clock, at, null, null, null, null, false from {{stored}}
),
closed as (
    -- the first record that finds the clock past `close`
    select *, min(reached_by) over
        (partition by task order by time desc range between unbounded preceding and 1L preceding) as closed_by
    from moments
)
select key, at, 'matched' as kind, made_of, ts,
    row_number() over (partition by at.cycle, at.source, at.partition, at.offset, at.attempt
        order by at, partner_ts, partner_at) as place
from {{pairs}}
union all
select key, closed_by, 'unmatched', made_of, ts, null from closed where waits and closed_by is not null
union all
select key, at, 'unmatched', made_of, ts, null from {{stored}} where key is null and there and side in ({outer})
"""

_GIVEN = f"select {{own}} as key, o as at, kind, {_MADE_OF} as made_of, ts, {{place}} as place from {{{{frame}}}} where kind <> 'tombstone'"
_AMONG_ITS_KIND = (
    "if(kind = 'matched', rank() over "
    "(partition by o.cycle, o.source, o.partition, o.offset, o.attempt, kind order by n), null)"
)
_TOLD = f"select at.cycle as cycle, {_PLACE.format('at')} as trigger, kind, made_of, ts, cast(place as bigint) as place"
_BALANCE = """
select cycle, trigger, kind, made_of, ts, place, sum(one) as balance from (
    select *, 1 as one from {expected} union all select *, -1 as one from {given}
) group by cycle, trigger, kind, made_of, ts, place
"""


def judge(
    spark: SparkSession,
    topology: Topology,
    frames: Mapping[str, DataFrame],
    partitions: Mapping[str, int],
    ticks: Mapping[str, DataFrame],
    made: Mapping[str, DataFrame],
) -> tuple[list[Finding], list[str]]:
    """Compares what the joins gave with what SQL says.

    Args:
        spark: the session.
        topology: the pipeline.
        frames: node to its rows, of a whole history: all records that its sources took from the first on.
        partitions: topic to partition count.
        ticks: stream to what moves the clocks of its tasks although no record comes: columns `ts, o`.
        made: node to its rows before an expectation dropped some of them, where one did.

    Returns:
        A finding for each join that can be judged, and for each other one why it cannot.
    """
    opinion = _Opinion(spark, topology, frames, partitions, ticks, made)
    findings, notes = [], []
    for node in topology.nodes:
        if not is_join(node):
            continue
        reason = opinion.why_not(node)
        if reason is None:
            findings.append(opinion.on(node))
        else:
            notes.append(f"{node.name}: no second opinion on this {shape_of(node)} join, {reason}")
    return findings, [*notes, *opinion.notes]


class _Opinion:
    """What SQL says of the joins of one topology."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        frames: Mapping[str, DataFrame],
        partitions: Mapping[str, int],
        ticks: Mapping[str, DataFrame],
        made: Mapping[str, DataFrame],
    ) -> None:
        self._made = made
        self._spark = spark
        self._topology = topology
        self._frames = frames
        self._partitions = partitions
        self._ticks = ticks
        topics = ", ".join(f"'{source.topic}'" for source in topology.sources if source.kind != "stream")
        self._at = _AT.format(tables=f"o.source in ({topics})" if topics else "false")
        self.notes: list[str] = []

    def why_not(self, node: Join) -> str | None:
        """Why the SQL forms do not cover a join; None: they do."""
        made = [parent.name for parent in node.parents if is_made(parent)]
        if made:
            return f"{' and '.join(made)} being made by a join, an aggregation or a buffer"
        if overlap_of(node, self._topology.nodes) != "none":
            return "both sides being fed by one source"
        versioned = [parent.name for parent in node.parents if history_of(parent) is not None]
        if versioned:
            return f"{' and '.join(versioned)} being versioned"
        if isinstance(node, StreamTableJoin) and node.races:
            return "its records waiting for rows that come after them"
        if isinstance(node, WindowedJoin):
            if node.rules != "strict" or node.emit_unmatched != "on_window_close":
                return f"its rules being {node.rules}, its unmatched rows {node.emit_unmatched}"
            if self._task(node) is None:
                return "a side being re-keyed: its tasks are hashes of the key"
        return None

    def on(self, node: Join) -> Finding:
        """One join beside its SQL form."""
        if isinstance(node, WindowedJoin):
            expected, given = self._windowed(node)
        elif isinstance(node, TableTableJoin | ForeignKeyJoin):
            expected, given = self._tables(node)
        else:
            expected, given = self._lookup(node)
        return self._compared(f"second opinion on {node.name}", expected, given)

    # --- one method a form -------------------------------------------------------------------------------------------

    def _lookup(self, node: StreamTableJoin | StreamGlobalJoin | ForeignKeyStreamJoin) -> tuple[DataFrame, DataFrame]:
        mapped = node.left_on if isinstance(node, StreamGlobalJoin) else None
        named = node.right_on if isinstance(node, ForeignKeyStreamJoin) else None
        one_each = named is None
        expected = self._spark.sql(
            _LOOKUP.format(how=node.how, place="at.n" if one_each else "null"),
            points=self._side(node.left, mapped),
            table=self._side(node.right, named),
        )
        return self._told(expected), self._told(self._given(node, "n" if one_each else "null"))

    def _tables(self, node: TableTableJoin | ForeignKeyJoin) -> tuple[DataFrame, DataFrame]:
        by_foreign_key = isinstance(node, ForeignKeyJoin)
        expected = self._spark.sql(
            # what a right row answers has its own time; in a join by key it is the later one of both
            _CHANGES.format(
                how=node.how,
                own="l.own" if by_foreign_key else "coalesce(l.own, r.own)",
                right_time="r.ts" if by_foreign_key else "greatest(l.ts, r.ts)",
            ),
            left=self._side(node.left, node.left_on if isinstance(node, ForeignKeyJoin) else None),
            right=self._side(node.right),
        )
        frame = self._made.get(node.name, self._frames[node.name])
        at_the_end = self._spark.sql(
            _GIVEN_IN_THE_END.format(own=_own(frame), made_of=_MADE_OF, at=self._at), frame=frame
        )
        ends = "select null as cycle, concat('in the end ', {0}) as trigger, kind, made_of, null as ts, null as place "
        told = self._told(expected.where("in_the_end is null").withColumn("place", F.lit(None)))
        told_ends = self._spark.sql(
            ends.format("in_the_end") + "from {rows} where in_the_end is not null", rows=expected
        )
        given_ends = self._spark.sql(ends.format("to_json(own)") + "from {rows}", rows=at_the_end)
        return told.unionAll(told_ends), self._told(self._given(node, "null")).unionAll(given_ends)

    def _windowed(self, node: WindowedJoin) -> tuple[DataFrame, DataFrame]:
        times = {"before": node.before_ms, "after": node.after_ms, "grace": node.grace_ms}
        outer = {"inner": "''", "left": "'left'", "outer": "'left', 'right'"}[node.how]
        sides: dict[str, Any] = {"left": self._side(node.left), "right": self._side(node.right)}
        ticks = [self._ticks[source.name] for source in sources_of(node) if source.name in self._ticks]
        if ticks:
            text = _TICKS.replace(_AT, self._at)
            sides["ticks"] = reduce(DataFrame.unionAll, (self._spark.sql(text.format(), frame=one) for one in ticks))
        arms = self._spark.sql((_ARMS + (_AND_TICKS if ticks else "")).format(task=self._task(node), **times), **sides)
        stored = self._spark.sql(_STORED, arms=arms)
        pairs = self._spark.sql(_PAIRS.format(**times), stored=stored)
        expected = self._spark.sql(_WINDOWED.format(outer=outer), stored=stored, pairs=pairs)
        given = self._given(node, _AMONG_ITS_KIND)
        strays = self._spark.sql(_STRAYS, arms=arms)
        found = strays.count()
        if found:
            self.notes.append(f"{node.name}: {found} keys lie in several partitions; no second opinion on their rows")
            expected, given = (
                self._spark.sql("select r.* from {rows} r left anti join {strays} s on r.key = s.key", rows=rows, strays=strays)
                for rows in (expected, given)
            )  # fmt: skip
        return self._told(expected), self._told(given)

    # --- sides and rows ----------------------------------------------------------------------------------------------

    def _side(self, node: Node, mapper: Mapper | None = None) -> DataFrame:
        """A node's frame as a side; it meets the other one by its key, or by the key that a user's function makes."""
        frame = self._made.get(node.name, self._frames[node.name])
        own = _own(frame)
        if mapper is not None:
            made = _made(mapper, node, frame)
            frame = frame.withColumn(_MADE, F.when(F.col("v").isNotNull(), made))
        text = _SIDE.replace(_AT, self._at).format(own=own, key=own if mapper is None else _MADE)
        return self._spark.sql(text, frame=frame)

    def _given(self, node: Join, place: str) -> DataFrame:
        frame = self._made.get(node.name, self._frames[node.name])
        return self._spark.sql(_GIVEN.format(own=_own(frame), place=place), frame=frame)

    def _told(self, rows: DataFrame) -> DataFrame:
        return self._spark.sql(_TOLD + " from {rows}", rows=rows)

    def _task(self, node: WindowedJoin) -> str | None:
        """In which task a record is, as SQL; None if that takes Kafka's hash of its key."""
        if all(key_source(parent) is not None for parent in node.parents):
            return "at.partition"
        counts = {source.topic: self._partitions.get(source.topic, 1) for source in sources_of(node)}
        return "0" if {task_count(node, counts), *counts.values()} == {1} else None

    def _compared(self, what: str, expected: DataFrame, given: DataFrame) -> Finding:
        rows = self._spark.sql(_BALANCE, expected=expected, given=given)
        (total,) = rows.selectExpr("count(*) as total", "count_if(balance <> 0) as differ").collect()
        if not total["differ"]:
            return Finding(what, total["total"])
        wrong = rows.where("balance <> 0").orderBy("cycle", "trigger", "kind", "made_of", "place").limit(_EXAMPLES)
        return Finding(what, total["total"], total["differ"], tuple(_shown(row.asDict()) for row in wrong.collect()))


def _own(frame: DataFrame) -> str:
    """A frame's key as SQL, its columns named c0, c1, ...; null stays null."""
    names = frame.schema["k"].dataType.names  # type: ignore[attr-defined]
    columns = ", ".join(f"'c{place}', k.{_quoted(name)}" for place, name in enumerate(names))
    return f"if(k is null, null, named_struct({columns}))"


def _made(mapper: Mapper, owner: Node, frame: DataFrame) -> Column:
    """The key that a user's function makes of a row; one of nothing but nulls is none."""
    columns = {
        name: f"{struct}.{_quoted(name)}"
        for struct in ("k", "v")  # the value's columns hide the key's
        for name in frame.schema[struct].dataType.names  # type: ignore[attr-defined]
    }
    faults: list[LakestreamsError] = []
    given = mapper(Fields(owner.name, columns, faults, owner.name))
    made = [_column(value) for value in given.values()]
    key = F.struct(*(column.alias(f"c{place}") for place, column in enumerate(made)))
    return F.when(reduce(or_, (column.isNotNull() for column in made)), key)


def _column(value: object) -> Column:
    return value if isinstance(value, Column) else F.lit(value)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _shown(row: Mapping[str, object]) -> str:
    made_of = row["made_of"]
    records = ", ".join(made_of) if isinstance(made_of, list) else ""
    cycle = "" if row["cycle"] is None else f", cycle {row['cycle']}"
    time = "" if row["ts"] is None else f", time {row['ts']}"
    place = "" if row["place"] is None else f", place {row['place']}"
    side = "by SQL only" if isinstance(row["balance"], int) and row["balance"] > 0 else "by the kernel only"
    return f"{row['trigger']}{cycle}: {row['kind']} of {records}{time}{place}: {side}"


__all__ = ["judge"]
