"""What some plans take, as the frames that a topology is evaluated over: bronze rows, and what is retained of the past."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.engine.state.bronze import planned_rows, row_cycle
from lakestreams.evaluate.inputs import Inputs
from lakestreams.expectations.rules import kept
from lakestreams.operators import noted_homes
from lakestreams.operators.records import ORDER, ORDER_TYPE, STREAM_SIDE, TABLE_SIDE, records
from lakestreams.operators.versions import TableSide
from lakestreams.operators.workers import ROWS_OF_A_WORKER
from lakestreams.topology.endpoints import Sink
from lakestreams.topology.graph import follows_partitions, sources_of
from lakestreams.topology.joins import ForeignKeyJoin, TableTableJoin, WindowedJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.operators.noted_homes import Homes
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

# A global table is there before anything else: its rows come first in their cycle.
_FIRST_OF_ALL = -2
# Of a clock that moves on by itself; a record's attempts begin at 0.
_FIRST_READ = -1


def over(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    plans: Sequence[Plan],
    retained: Mapping[str, Mapping[str, DataFrame]],
    retained_rows: int = 0,
    results_from: int | None = None,
    *,
    before: Sequence[Plan] = (),
    keeps: bool = False,
    hold: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> Inputs:
    """The records that some plans take, in one evaluation.

    Args:
        plans: ascending, at least one; all after what is retained.
        retained: what the nodes keep of the cycles before.
        retained_rows: about how many rows that is.
        results_from: the first cycle whose results are wanted; by default all.
        before: earlier plans, of which tables' rows are wanted as what is known from before.
        keeps: whether what the nodes keep is wanted.
        hold: keeps a frame that is read several times.
    """
    streams, tables, counts, changes, ticks = {}, {}, {}, {}, {}
    taken = {
        source.name: [plan for plan in (*(() if source.kind == "stream" else before), *plans) if plan.of(source.topic)]
        for source in topology.sources
    }
    frames = _in_order(spark, ledger, topology, {name: mine or plans[-1:] for name, mine in taken.items()}, hold)
    for source, rows in zip(topology.sources, frames, strict=True):
        moved = [plan for plan in plans if source.kind == "stream" and plan.ticks_of(source.topic)]
        if moved:
            ticks[source.name] = _ticks(spark, source.topic, moved)
        count = sum(plan.records(source.topic) for plan in taken[source.name])
        if source.kind == "stream":
            streams[source.name], counts[source.name] = rows, count
        else:
            tables[source.name] = TableSide(None, rows)
            counts[source.name], changes[source.name] = retained_rows + count, count
    return Inputs(
        streams,
        tables,
        plans[0].cycle,
        counts,
        changes,
        partitions_of(plans),
        retained,
        keeps=keeps,
        raw=True,
        results_from=results_from,
        ticks=ticks,
        clock_ms=min(plans[-1].clocks.values(), default=None),
        hold=hold,
        retained_rows=retained_rows,
        fewer=grown(plans),
        homes=_noted_homes(topology, taken),
    )


def _noted_homes(topology: Topology, taken: Mapping[str, Sequence[Plan]]) -> dict[str, tuple[Homes, int]]:
    every = {source.name: _homes(source.topic, taken[source.name]) for source in topology.sources}
    return {name: homes for name, homes in every.items() if homes is not None}


def _homes(topic: str, plans: Sequence[Plan]) -> tuple[Homes, int] | None:
    """By which partitioners keys lie where they are that plans take of a topic, and the records of the fullest partition."""
    parts = [part for plan in plans for part in plan.of(topic) if part.records]
    sizes: Counter[int] = Counter()
    for part in parts:
        sizes[part.partition] += part.records
    return (noted_homes.of_all([part.homes for part in parts]), max(sizes.values())) if parts else None


def _in_order(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    plans: Mapping[str, Sequence[Plan]],
    hold: Callable[[DataFrame], DataFrame],
) -> list[DataFrame]:
    """The records of each source, by the plans that take them; planned in parallel, since each looks for its files."""

    def read(source: Source) -> DataFrame:
        mine, side = plans[source.name], STREAM_SIDE if source.kind == "stream" else TABLE_SIDE
        rows = readable(spark, ledger, topology, source, mine)
        rows = records(rows, source.topic, side, row_cycle(source.topic, mine))
        if sum(plan.records(source.topic) for plan in mine) > ROWS_OF_A_WORKER and _is_read_once(topology, source):
            return rows
        return hold(first_of_all(rows) if source.kind == "global_table" else rows)

    return in_parallel(spark, [partial(read, source) for source in topology.sources])


def _is_read_once(topology: Topology, source: Source) -> bool:
    """Whether one join alone reads a source, for one output: bronze then takes less than holding it would, and no memory.

    The join reads it several times, but each time few columns or few rows. What would be evaluated again is held: what a
    rule of the source drops, and what other steps read, or what comes before a second step that remembers.
    """
    path: list[Node] = [source]
    while readers := [one for one in topology.nodes for parent in one.parents if parent.name == path[-1].name]:
        if len(readers) > 1:
            return False
        path += readers
    stateful = [node for node in path if node.stateful]
    drops = any(rule.action == "drop" for rule in topology.expectations.rules_of(source.name))
    if len(stateful) != 1 or not isinstance(path[-1], Sink) or drops:
        return False
    (node,) = stateful
    if isinstance(node, WindowedJoin):
        return node.follows_strictly and all(map(follows_partitions, node.parents))
    return isinstance(node, TableTableJoin | ForeignKeyJoin) and source.history_ms is None


def partitions_of(plans: Sequence[Plan]) -> dict[str, int]:
    """Topic to partition count, as the last plan knows it."""
    counts: dict[str, int] = {}
    for part in plans[-1].ranges:
        counts[part.topic] = max(counts.get(part.topic, 0), part.partition + 1)
    return counts


def grown(plans: Sequence[Plan]) -> list[tuple[int, dict[str, int]]]:
    """Where plans know other partitions than the ones before: the first cycle that does, and the counts until then.

    A record's task is that of its own cycle, whichever cycle evaluates it again: else clocks of the past would change.
    """
    counts = [(plan.cycle, partitions_of([plan])) for plan in plans]
    return [(cycle, before) for (_, before), (cycle, now) in pairwise(counts) if before != now]


def reopens(topology: Topology, then: Plan, now: Plan) -> bool:
    """Whether a plan knows more partitions than an earlier one, by whose clocks windows had closed: they are open again.

    A topic of which the earlier one knows nothing had one task, as wherever tasks are counted.
    """
    topics = {source.topic for node in topology.nodes if node.key_windows is not None for source in sources_of(node)}
    before, after = partitions_of([then]), partitions_of([now])
    return any(after.get(topic, 1) > before.get(topic, 1) for topic in topics)


def readable(
    spark: SparkSession, ledger: Ledger, topology: Topology, source: Source, plans: Sequence[Plan]
) -> DataFrame:
    """A source's rows that plans take and that steps get: readable, and with a key where they need one."""
    rows = kept(planned_rows(spark, ledger, source, plans), source, topology.expectations)
    return rows.where(F.col("k").isNotNull()) if source.kind != "stream" or source.keys_not_null == "drop" else rows


def first_of_all(rows: DataFrame) -> DataFrame:
    """Rows of a global table, before any other row of their cycle."""
    return rows.withColumn(ORDER, F.col(ORDER).withField("stream_time_ms", F.lit(_FIRST_OF_ALL).cast("bigint")))


def _ticks(spark: SparkSession, topic: str, plans: Sequence[Plan]) -> DataFrame:
    """What moves the clocks of a stream's tasks: `ts, o`, behind the records that its plan takes of the partition."""
    rows = [
        {
            "ts": time,
            "o": {
                "cycle": plan.cycle, "stream_time_ms": time, "side": STREAM_SIDE, "source": topic,
                "partition": partition, "offset": plan.positions.get((topic, partition), 0), "attempt": _FIRST_READ,
            },
        }
        for plan in plans
        for partition, time in plan.ticks_of(topic).items()
    ]  # fmt: skip
    text = F.from_json(F.lit(json.dumps(rows)), f"array<struct<ts: bigint, o: {ORDER_TYPE}>>")
    return spark.range(0, 1, 1, 1).select(F.inline(text))


def records_of(plan: Plan) -> int:
    """How many records a plan takes."""
    return sum(part.records for part in plan.ranges)
