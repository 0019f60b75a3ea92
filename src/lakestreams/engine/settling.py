"""Plans the next cycle from what a driver knows: over what is settled in bronze, or over time that has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakestreams.engine.ledger import idle_policy, settle
from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.plans import NO_TIME
from lakestreams.engine.state.bronze import cut_below
from lakestreams.engine.state.inputs import partitions_of
from lakestreams.topology.graph import longest_wait_ms
from lakestreams.topology.partitions import most_tasks

if TYPE_CHECKING:
    from lakestreams.engine.ingest.position import BronzePosition
    from lakestreams.engine.ledger.plans import Plan, Range
    from lakestreams.engine.run import Run, Setup
    from lakestreams.expectations.rules import RecordRules
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.kafka.noted import TopicPartition


def settled_plan(
    run: Run,
    bronze: BronzePosition,
    rules: RecordRules,
    ends: settle.Ends,
    view: ClusterView,
    frontier: settle.Frontier | None,
) -> Plan | None:
    """The next cycle over what is settled; None if nothing is.

    Args:
        rules: what is judged of single records.
        ends: the ends below which a partition holds the others back; none when ingest has come to its end.
        view: the cluster at the round's start.
        frontier: of the settling `event_time`.
    """
    sources, last = run.topology.sources, bronze.last_cycle.plan
    judged = {source.topic: frozenset(one.id for one in rules.of(source)) for source in sources}
    backlog = Backlog(last, tuple(bronze.batches), judged)
    ids = {**(last.topic_ids if last else {}), **view.topic_ids}
    whole = frozenset(one.topic for one in sources if one.kind == "global_table")

    def cut_here(ranges: Sequence[Range], below: int | None, seq_from: int) -> Mapping[TopicPartition, Range]:
        return cut(run, rules, ranges, below, seq_from)

    number = bronze.last_cycle.number + 1
    return settle.next_plan(number, run.configured.whole, backlog, ends, ids, cut_here, whole, frontier)


def cut(
    setup: Setup, rules: RecordRules, ranges: Sequence[Range], below: int | None, seq_from: int
) -> Mapping[TopicPartition, Range]:
    """Asks bronze for the part of each offset range that lies below a stream time (`settle.Cutter`)."""
    with setup.tuning.rows(sum(part.to_offset - part.from_offset for part in ranges)):
        return cut_below(setup.spark, setup.ledger, ranges, below, seq_from, rules, setup.topology.sources)


def idle_plan(run: Run, bronze: BronzePosition, frontier: settle.Frontier | None) -> Plan | None:
    """A cycle that moves clocks on where inputs have been silent, or the user says that no record will come.

    Args:
        frontier: what the last plan went by.
    """
    number, last, now = bronze.last_cycle.number + 1, bronze.last_cycle.plan, run.now_ms()
    how, whole = _idle_policy(run, {} if last is None else partitions_of([last])), run.configured.whole
    return idle_policy.idle_plan(number, whole, last, how, bronze.arrived, now, frontier, drain=run.settings.drain)


def frontier_of(run: Run, bronze: BronzePosition, view: ClusterView) -> settle.Frontier | None:
    """Of the settling `event_time`: the partitions that hold the others back; when draining, none will have news."""
    if run.settings.settling != "event_time" or run.settings.drain:
        return None
    positions, known, timeout = bronze.positions, bronze.state.positions, run.settings.idle_timeout_ms
    now, sources = run.now_ms(), run.topology.sources
    # a Delta table has been read up to now, and what it is still to have is committed later
    tables = {source.topic for source in sources if source.delta and source.kind != "stream"}
    # a global table is read to its end before anything else
    tables |= {source.topic for source in sources if source.kind == "global_table"}

    def holds(at: TopicPartition, end: int) -> bool:
        if end <= view.starts.get(at, 0) or at[0] in tables:
            return False  # it has no record to wait for
        caught_up = positions.get(at, 0) >= end
        if caught_up and (at not in known or known[at].stream_time_ms == NO_TIME):
            return False  # what it has is no record (markers of transactions, what compaction has taken), or none can be read
        return not (caught_up and timeout is not None and now - bronze.arrived.get(at, now) >= timeout)

    holding = frozenset(at for at, end in view.ends.items() if holds(at, end))
    return settle.Frontier(holding, _streams(run), most_tasks(run.topology.nodes, view.partitions))


def _streams(run: Run) -> frozenset[str]:
    return frozenset(source.topic for source in run.topology.sources if source.kind == "stream")


def _idle_policy(run: Run, partitions: Mapping[str, int]) -> idle_policy.IdlePolicy:
    nodes, timeout = run.topology.nodes, run.settings.idle_timeout_ms
    return idle_policy.IdlePolicy(_streams(run), most_tasks(nodes, partitions), longest_wait_ms(nodes), timeout)


__all__ = ["cut", "frontier_of", "idle_plan", "settled_plan"]
