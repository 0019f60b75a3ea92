"""The rows of a join's sides as the SQL forms of the SQL check read them, with their tasks and clocks.

A frame's columns are those of a records frame: `k, v, ts, o, n, kind, contributors`. Here a side has the columns
    own struct         its key, with columns c0, c1, ...
    key struct         the key that it meets the other side by
    there boolean      whether it has a value
    ts bigint          its time, ms
    seen bigint        the time that a lookup of the row sees: its own; of what a join of tables made, the rows' that are there
    at struct          its place in the total order: behind a join, an aggregation or a buffer its trigger's, then its own
    made_of array      the coordinates of the records that it was made of, as text
and, where clocks matter,
    task int           the task that processes it: its partition or, behind a re-key, Kafka's hash of its key
    moves bigint       to where it moves the task's clock: its partition's stream time; where something that waits or gathers
                       made it, to its own time only

A side is what the evaluation has of its node, whatever made it: a join behind a join is judged on that one's rows, and
these by that one's own rule. Nothing is taken from `operators/`: the order of records is built again from their coordinates
(tables first because they are tables, whatever number they were given), and murmur2 is said once more, over hexadecimal
digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.sql import literal, quoted
from lakestreams.topology.fields import Fields
from lakestreams.topology.graph import held_before_ms, is_derived, key_source, sources_of
from lakestreams.topology.partitions import task_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.errors import LakestreamsError
    from lakestreams.topology.joins import Join
    from lakestreams.topology.kinds import Mapper
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

# Of a frame that a join of tables made for another one: the time that a lookup sees.
SEEN = "seen_ts"
_MAPPED = "made"

# A record's place in the total order (DESIGN section 2); `tables` is the condition that a table's topic fulfils.
_AT = """named_struct(
    'cycle', o.cycle, 'stream_time_ms', o.stream_time_ms, 'side', if({tables}, 0, 1), 'source', o.source,
    'partition', o.partition, 'offset', o.offset, 'attempt', o.attempt, 'n', n)"""
PLACE = "concat({0}.source, '-', {0}.partition, '@', {0}.offset, if({0}.attempt = 0, '', concat('#', {0}.attempt)))"
CONTRIBUTOR_PLACES = f"array_sort(transform(contributors, one -> {PLACE.format('one')}))"
_SIDE = f"""
select {{own}} as own, {{key}} as key, v is not null as there, ts, {{seen}} as seen, {{at}} as at,
    {CONTRIBUTOR_PLACES} as made_of, {{task}} as task, {{moves}} as moves
from {{{{frame}}}}
"""
# Time that goes on comes behind all that it lets out on its way here, and leaves out how long that may wait (decision 0016).
_TICKS = """
select ts - {held} as ts, {at} as at, {task} as task from (select *, null as k, 2147483647 as n from {{frame}})
"""

# murmur2 as Kafka's producers use it (semantics section 9): words of four bytes, little endian, in 32 bits.
_M, _SEED, _ALL = 0x5BD1E995, 0x9747B28C, 0xFFFFFFFF
_WORD = "cast(conv(concat({}), 16, 10) as bigint)"
_DIGITS = ", ".join(f"substr(digits, 8 * nth + {place}, 2)" for place in (7, 5, 3, 1))
_TAIL = ", ".join(f"substr(tail, {place}, 2)" for place in (5, 3, 1))
_HASHED = f"""
with coded as (select *, hex({{bytes}}) as digits from {{{{frame}}}}),
sized as (select *, cast(length(digits) / 2 as int) as size from coded),
cut as (
    select *, substr(digits, 8 * cast(size div 4 as int) + 1) as tail,
        transform(filter(sequence(0, cast(size div 4 as int)), nth -> nth < size div 4),
            nth -> {_WORD.format(_DIGITS)} * {_M} & {_ALL}) as words
    from sized
),
folded as (
    select *, aggregate(words, {_SEED}L ^ size, (so_far, word) ->
        (so_far * {_M} & {_ALL}) ^ ((word ^ shiftright(word, 24)) * {_M} & {_ALL})) as folded
    from cut
),
tailed as (
    select *, if(tail = '', folded, (folded ^ {_WORD.format(_TAIL)}) * {_M} & {_ALL}) as tailed from folded
),
mixed as (select *, (tailed ^ shiftright(tailed, 13)) * {_M} & {_ALL} as mixed from tailed)
select * except (digits, size, tail, words, folded, tailed, mixed),
    cast((mixed ^ shiftright(mixed, 15)) & {0x7FFFFFFF} as int) as hashed
from mixed
"""
# The bytes of a key of one column, as the usual serializers write them; of no bytes where that column is null.
_BYTES = {
    "string": "cast({0} as binary)",
    "binary": "{0}",
    "int": "unhex(right(lpad(hex({0}), 16, '0'), 8))",
    "bigint": "unhex(lpad(hex({0}), 16, '0'))",
}

# Each row that waits, with the first place in the order at which its task's clock has reached `time`; null: never.
_REACHED = """
select row.*, reached from (
    select row, min(step) over (partition by task order by time desc) as reached from (
        select task, time, null as step, struct(*) as row from {waiting}
        union all
        select task, time, at, null from {steps}
    )
) where row is not null
"""


@dataclass(frozen=True)
class Evaluation:
    """What is judged: the rows of a topology's nodes, of a whole history, and what their tasks follow from.

    Attributes:
        frames: node to its rows: of all records that its sources took from the first on.
        partitions: topic to partition count.
        ticks: stream to what moves the clocks of its tasks although no record comes: columns `ts, o`.
        unfiltered: node to its rows before an expectation dropped some of them, where one did; `frames` is without these.
        fewer: where topics have grown, the first cycle that had other counts, and the counts until then; ascending.
    """

    frames: Mapping[str, DataFrame]
    partitions: Mapping[str, int]
    ticks: Mapping[str, DataFrame] = field(default_factory=dict)
    unfiltered: Mapping[str, DataFrame] = field(default_factory=dict)
    fewer: Sequence[tuple[int, Mapping[str, int]]] = ()


class Sides:
    """The sides of one topology's joins."""

    def __init__(self, spark: SparkSession, topology: Topology, evaluation: Evaluation) -> None:
        self._spark = spark
        self._of = evaluation
        topics = ", ".join(literal(source.topic) for source in topology.sources if source.kind != "stream")
        self.at = _AT.format(tables=f"o.source in ({topics})" if topics else "false")

    def sql(self, text: str, **frames: DataFrame) -> DataFrame:
        """A query over frames that it names in braces."""
        return self._spark.sql(text, **frames)  # type: ignore[arg-type]

    def results(self, join: Join) -> DataFrame:
        """What a join gave, also what an expectation then kept from those behind it."""
        return self._of.unfiltered.get(join.name, self._of.frames[join.name])

    def side(self, node: Node, mapper: Mapper | None = None) -> DataFrame:
        """A node's rows as a side; it meets the other one by its key, or by the key that a user's function makes."""
        frame = self._of.frames[node.name]
        own = own_key(frame)
        if mapper is not None:
            frame = frame.withColumn(_MAPPED, F.when(F.col("v").isNotNull(), _mapped(mapper, node, frame)))
        key = own if mapper is None else _MAPPED
        text = _SIDE.format(own=own, key=key, at=self.at, seen=seen_time(frame), task="null", moves="null")
        return self.sql(text, frame=frame).drop("task", "moves")

    def tasked(self, join: Join, parent: Node) -> DataFrame:
        """A join's side with tasks, and how it moves their clocks."""
        frame, task = self._of.frames[parent.name], "o.partition"
        if key_source(parent) is None:
            count = self._tasks(join)
            frame = self._hashed(frame)
            task = f"if(k is null, pmod(o.partition, {count}), pmod(hashed, {count}))"
        own, moves = own_key(frame), "ts" if is_derived(parent) else "greatest(ts, o.stream_time_ms)"
        text = _SIDE.format(own=own, key=own, at=self.at, seen=seen_time(frame), task=task, moves=moves)
        return self.sql(text, frame=frame)

    def ticks(self, join: Join, *parents: Node) -> DataFrame | None:
        """What moves the clocks of a join's tasks although no record comes: `ts, at, task`; None: nothing."""
        by_source = []
        for parent in parents:
            task = "o.partition" if key_source(parent) is not None else f"pmod(o.partition, {self._tasks(join)})"
            text = _TICKS.format(at=self.at, task=task, held=held_before_ms(join))
            frames = [self._of.ticks[source.name] for source in sources_of(parent) if source.name in self._of.ticks]
            by_source += [self.sql(text, frame=one) for one in frames]
        return reduce(DataFrame.unionAll, by_source) if by_source else None

    def reached(self, waiting: DataFrame, steps: DataFrame) -> DataFrame:
        """Rows with the first place at which their task's clock has reached their `time`.

        Args:
            waiting: columns `task, time` and others.
            steps: columns `task, time, at`: where the clock of a task stands at which place.
        """
        return self.sql(_REACHED, waiting=waiting, steps=steps)

    def _hashed(self, frame: DataFrame) -> DataFrame:
        fields = frame.schema["k"].dataType.fields  # type: ignore[attr-defined]
        kind = fields[0].dataType.simpleString() if len(fields) == 1 else ""
        data = _BYTES.get(kind, "cast(to_json(k) as binary)").format(f"k.{quoted(fields[0].name)}")
        return self.sql(_HASHED.format(bytes=f"coalesce({data}, x'')"), frame=frame)

    def _tasks(self, join: Join) -> str:
        """How many tasks a join has, as SQL: by cycle where topics have grown."""

        def count(known: Mapping[str, int]) -> int:
            return task_count(join, {one.topic: known.get(one.topic, 1) for one in sources_of(join)}) or 1

        text = str(count(self._of.partitions))
        for first, known in reversed(self._of.fewer):
            text = f"if(o.cycle < {first}, {count(known)}, {text})"
        return text


def own_key(frame: DataFrame) -> str:
    """A frame's key as SQL, its columns named c0, c1, ...; null stays null."""
    names = frame.schema["k"].dataType.names  # type: ignore[attr-defined]
    columns = ", ".join(f"'c{place}', k.{quoted(name)}" for place, name in enumerate(names))
    return f"if(k is null, null, named_struct({columns}))"


def seen_time(frame: DataFrame) -> str:
    """What a lookup of a frame's rows takes as their time, as SQL."""
    return f"coalesce({SEEN}, ts)" if SEEN in frame.columns else "ts"


def _mapped(mapper: Mapper, owner: Node, frame: DataFrame) -> Column:
    """The key that a user's function makes of a row; one of nothing but nulls is none."""
    columns = {
        name: f"{struct}.{quoted(name)}"
        for struct in ("k", "v")  # the value's columns hide the key's
        for name in frame.schema[struct].dataType.names  # type: ignore[attr-defined]
    }
    faults: list[LakestreamsError] = []
    values = mapper(Fields(owner.name, columns, faults, owner.name))
    parts = [_column(value) for value in values.values()]
    key = F.struct(*(column.alias(f"c{place}") for place, column in enumerate(parts)))
    return F.when(reduce(or_, (column.isNotNull() for column in parts)), key)


def _column(value: object) -> Column:
    return value if isinstance(value, Column) else F.lit(value)
