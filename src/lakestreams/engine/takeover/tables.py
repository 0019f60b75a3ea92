"""What a driver does once, before its first round: it makes the tables, and compares topics and layouts with what was there.

A cycle that was begun is taken over, or refused. Nothing here decides what is read next; that is the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lakestreams.engine.ingest import topic_identity
from lakestreams.engine.ingest.bronze_rows import create_bronze
from lakestreams.engine.ledger import fence
from lakestreams.engine.ledger.plans import Range
from lakestreams.engine.protocol import commands, decisions, machines
from lakestreams.engine.publish import cycle, event_log, kafka_sink, orphans, quarantine, sinks
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime.lake import require_distinct
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.engine.takeover import changed
from lakestreams.errors import ExpectationFailed, OwnTopic, PlanUnderOtherConfig
from lakestreams.topology.expectations import ForeignKeyExists, Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import History, Plan
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.table import Table
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.kafka.noted import TopicPartition
    from lakestreams.topology.topology import Topology

_IN_DOUBT = (
    "run once more with the earlier configuration, which finishes the cycle or reports that it cannot; or run --accept-change, "
    "which writes the cycle by this configuration: the topic may then hold records of both"
)


def require_distinct_tables(spark: SparkSession, lake: Lake, topology: Topology) -> None:
    """Refuses a topology of which two things would be written to one table, or that reads a table that it writes.

    Raises:
        TableNameCollision: naming both.
        OwnTopic: naming the table.
    """
    written = [(f"topic {source.topic}", lake.bronze(topology.name, source.topic)) for source in topology.sources]
    written += [(f"output {sink.name}", lake.output(sink.name)) for sink in topology.sinks]
    require_distinct(written)
    names = {_place(table): what for what, table in written}
    for source in topology.sources:
        if source.delta is not None:
            table = lake.source(spark, source.delta)
            if _place(table) in names:
                message = f"table {table.name} is written as {names[_place(table)]}, and read by {source.name}"
                hint = "write to another table, which another pipeline can read"
                raise OwnTopic(message, hint=hint, where=source.where)


def _place(table: Table) -> str:
    """Where a table lies; catalogs do not tell capitals apart."""
    return table.path or table.reference.lower()


@dataclass(frozen=True)
class Missing:
    """What was not there before a pipeline's tables were created, and so holds nothing that could be gone on from.

    Attributes:
        ledger: the ledger.
        epochs: what fences look at.
        bronze: every bronze table.
    """

    ledger: bool
    epochs: bool
    bronze: bool


def create_tables(spark: SparkSession, ledger: Ledger, topology: Topology, outputs: Mapping[str, DataFrame]) -> Missing:
    """Creates what is not there yet, in parallel: each is mostly waiting for single-threaded work in the JVM.

    Args:
        outputs: output to a frame of its columns.
    """
    lake = ledger.lake
    others: list[Callable[[], object]] = [
        lambda: quarantine.table(ledger).create(spark, quarantine.schema(spark), grows=True, lenient=True),
        partial(event_log.create, spark, ledger),
        *(
            partial(orphans.create, spark, ledger)
            for _, what in topology.expectations.invariants
            if isinstance(what, ForeignKeyExists)
        ),
        *(
            partial(sinks.create, spark, lake, sink, outputs[sink.name].schema, topology.name)
            for sink in topology.sinks
        ),
    ]
    answering: list[Callable[[], object]] = [
        partial(ledger.create, spark),
        partial(fence.create, spark, lake),
        *(partial(create_bronze, spark, lake, topology.name, source) for source in topology.sources),
    ]
    own, epochs, *bronze = map(bool, in_parallel(spark, [*answering, *others])[: len(answering)])
    return Missing(own, epochs, all(bronze))


def sealed(ledger: Ledger, topology: Topology, *, snapshots: bool) -> tuple[Table, ...]:
    """The tables that a driver seals when it takes a pipeline over.

    Args:
        snapshots: also those of tables that are looked up. A driver reads them before it replaces them, and an older one of
            another configuration would put rows of other rules there. Of its own configuration it puts the same rows.
    """
    lake = ledger.lake
    others = [one.table(ledger) for one in (quarantine, event_log, orphans, replays)]
    if snapshots:
        others += [lake.snapshot(ledger.pipeline, one.topic) for one in topology.sources if one.kind != "stream"]
    return decisions.sealed(
        ledger.table,
        (lake.bronze(ledger.pipeline, source.topic) for source in topology.sources),
        (lake.output(sink.name) for sink in topology.sinks),
        others,
    )


def layouts(spark: SparkSession, lake: Lake, topology: Topology) -> list[str]:
    """Compares the layout of outputs with what is declared: what differs, as warnings.

    Raises:
        ExpectationFailed: where `Layout` says `fail`.
    """
    warnings = []
    for sink in topology.sinks:
        expected = [one for one in topology.expectations.invariants_of(sink.name) if isinstance(one, Layout)]
        if not (expected or sink.cluster_by or sink.partition_by):
            continue
        fault = sinks.laid_out_otherwise(spark, lake, sink)
        if fault is not None and any(one.action == "fail" for one in expected):
            hint = "create the table again, alter its clustering, or declare what it has"
            raise ExpectationFailed(f"layout of {fault}", hint=hint, where=sink.name)
        if fault is not None:
            warnings.append(f"layout of {fault}")
    return warnings


def require_same_topics(topology: Topology, history: History, view: ClusterView) -> None:
    """A topic with another id, or an end before what was read, is another topic under the same name.

    Raises:
        TopicRecreated: naming it.
    """
    plan, last = history.plan, history.ingest
    unplanned = [last] if last is not None and (plan is None or last.seq > plan.seq) else []
    called = topic_identity.called(topology)
    topic_identity.require_same(history.noted, view, _ingested(history), called, unplanned)


def lost(read: Mapping[TopicPartition, int], view: ClusterView) -> list[Range]:
    """Records that expired before they were read.

    Args:
        read: up to where each partition is in bronze.
        view: the cluster as it is.
    """
    return [
        Range(topic, partition, read[topic, partition], start)
        for (topic, partition), start in sorted(view.starts.items())
        if start > read.get((topic, partition), start)
    ]


def taken_over(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    plan: Plan,
    history: History,
    configured: Configuration,
    *,
    accept: bool = False,
) -> Plan:
    """An open plan, as it is executed under this configuration.

    One that gives the same results under its own is executed as it is; any other one only if nothing of it is out yet,
    and the ledger says that it is taken over (decision 0002).

    Args:
        ledger: of the running epoch.
        plan: the open one.
        history: what the ledger says of configurations before.
        configured: that of this run.
        accept: go on although topics may hold records of it, and write that down.

    Raises:
        PlanUnderOtherConfig: if something of it is out, or may be.
    """
    topics = [topic.name for topic in topology.kafka_sinks if cycle.causes(plan, topic)]
    if history.stopped == plan.cycle:
        topics = []  # whoever began it has failed before its first topic
    out: list[str | None] = []  # where anything of it is

    def hands(command: commands.Command) -> Any:
        match command:
            case commands.Read("repeats"):
                return changed.repeats(spark, ledger, history, plan, configured)
            case commands.Read("doubt"):
                return bool(topics) and not accept
            case commands.Read("out"):
                out.append(cycle.out_in(spark, ledger, topology, plan))
                return out[-1] is not None
        if topics:
            texts = [
                f"topic {one} may hold records of cycle {plan.cycle} by the earlier configuration" for one in topics
            ]
            ledger.record_accepted(spark, history.done_cycle, configured.whole, plan.fingerprint, texts, "topics")
        ledger.record_taken(spark, plan.cycle, configured.whole)
        return None

    own = machines.Pipeline((), (), configured.whole)
    try:
        return commands.carry_out(machines.taken(own, ledger.turn, plan), hands)
    except commands.Stop as stop:
        message = f"{stop.message} ({plan.fingerprint})"
        if out:
            raise PlanUnderOtherConfig(message, where=out[-1]) from stop
        raise PlanUnderOtherConfig(message, hint=_IN_DOUBT, where=topics[0]) from stop


def repeated(topology: Topology, plan: Plan) -> list[str]:
    """What to know of topics when a cycle that was begun is executed again, as warnings."""
    topics = ", ".join(sink.name for sink in topology.kafka_sinks if cycle.causes(plan, sink))
    text = f"cycle {plan.cycle} was begun before and is repeated: {topics} may hold records of it twice"
    return [f"{text}, with equal {kafka_sink.ID} headers"] if topics else []


def _ingested(history: History) -> dict[TopicPartition, int]:
    """Up to where each partition is in bronze; of a batch whose own row is not there yet, its plan tells."""
    positions = dict(history.plan.positions) if history.plan is not None else {}
    for part in history.ingest.ranges if history.ingest is not None else ():
        positions[part.at] = max(positions.get(part.at, 0), part.to_offset)
    return positions
