"""One cycle: expect, join, publish. What it does is a pure function of its plan and of bronze."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.protocol import commands, machines
from lakestreams.engine.publish import kafka_sink, orphans, quarantine, sinks
from lakestreams.engine.publish.expectations import WRITTEN, ExpectationChecker
from lakestreams.engine.runtime import folders
from lakestreams.engine.runtime.write_metrics import NodeMetrics, WriteMetrics, count_rows
from lakestreams.errors import TooManyBadRecords
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import EXPECTATION, Inputs, Results
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.expectations import judging
from lakestreams.expectations.cycle_metrics import CycleMetrics
from lakestreams.expectations.judging import KINDS, ROWS
from lakestreams.topology.derived import Aggregate
from lakestreams.topology.graph import triggers_of, upstream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.endpoints import DeltaSink, KafkaSink
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

BAD_SHARE_FROM_RECORDS = 1_000
# Of fewer records so many bad ones are no accident, and neither are these if there is nothing else.
BAD_SHARE_FROM_BAD, BAD_SHARE_OF_ALL = 20, 3


@dataclass
class RunCounts:
    """How many records were planned since the run's start, per source; for `max_bad_share`."""

    read: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    def add(self, plan: Plan) -> None:
        """Takes a plan's counts in; what is replayed may be unreadable again, and says nothing of the producer."""
        for part in (one for one in plan.ranges if not one.of_replays):
            self.read[part.topic] = self.read.get(part.topic, 0) + part.records
            self.bad[part.topic] = self.bad.get(part.topic, 0) + part.bad

    def require_share(self, max_bad_share: float) -> None:
        """Refuses a source of which too much is unreadable, by the rule that `_is_judged` has.

        Raises:
            TooManyBadRecords: naming the sources and their shares.
        """
        faults = [
            f"{topic}: {self.bad[topic]} of {read} records ({self.bad[topic] / read:.1%}) cannot be read"
            for topic, read in sorted(self.read.items())
            if _is_judged(read, self.bad[topic]) and self.bad[topic] > max_bad_share * read
        ]
        if faults:
            message = "\n".join([*faults, f"allowed is {max_bad_share:.1%}; nothing of the cycle was published"])
            raise TooManyBadRecords(message)


def _is_judged(read: int, bad: int) -> bool:
    """Whether so many records tell a share: a bad record alone never stops a job, a broken producer does."""
    return read >= BAD_SHARE_FROM_RECORDS or bad >= BAD_SHARE_FROM_BAD or bad == read >= BAD_SHARE_OF_ALL


@dataclass(frozen=True)
class Executed:
    """What a cycle has given.

    Attributes:
        results: what was evaluated.
        cycle_metrics: what was counted of it.
    """

    results: Results
    cycle_metrics: CycleMetrics


@dataclass(frozen=True)
class Evaluated:
    """A cycle's results, which nobody has read yet.

    Attributes:
        inputs: what it is evaluated over (see `state.retained`).
        cycle_metrics: what is counted of its sources.
        counts: counts what joins let pass.
        repeated: whether a driver before may have published some of it: then Delta skips what is there already.
    """

    inputs: Inputs
    results: Results
    cycle_metrics: CycleMetrics
    counts: NodeMetrics
    repeated: bool


def evaluate(
    ledger: Ledger,
    topology: Topology,
    plan: Plan,
    inputs: Inputs,
    checker: ExpectationChecker,
    *,
    repeated: bool = False,
) -> Evaluated:
    """A plan's results, as frames.

    Raises:
        ExpectationFailed: if something with the action `fail` is violated by the sources' records.
    """
    cycle_metrics = checker.of_sources(plan)
    counts = NodeMetrics(f"{ledger.pipeline} {ledger.epoch} {plan.cycle} passing", observes=not repeated)
    results = walk.run(topology, replace(inputs, counted=counts))
    return Evaluated(inputs, results, cycle_metrics, counts, repeated)


def execute(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    plan: Plan,
    evaluated: Evaluated,
    target: kafka_sink.Target,
    checker: ExpectationChecker,
    *,
    recorded: Callable[[], None] = lambda: None,
    storing: Callable[[], Callable[[], None]] | None = None,
    before_topics: Callable[[], None] = lambda: None,
    merging: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Executed:
    """Publishes a plan's results and quarantine, each table in one commit, topics last.

    Args:
        ledger: of the running epoch.
        topology: the pipeline, checked.
        evaluated: the plan's results.
        target: where topics are written.
        checker: judges what is expected.
        recorded: waits until the ledger has the plan; called before anything is written.
        storing: begins to store what nodes keep, if that is stored while results are published: what waits until it is.
        before_topics: called before anything is written to the first topic.
        merging: within it rows are merged into tables, which may have many.

    Raises:
        ExpectationFailed: if something with the action `fail` is violated; nothing is published.
        UnwritablePartition: if a table would not give back a value as it is written; nothing is published.
    """
    results, cycle_metrics, waits = evaluated.results, evaluated.cycle_metrics, [recorded]
    publisher = _Publisher(spark, ledger, plan, results, evaluated.inputs, cycle_metrics, merging, evaluated.repeated)
    publisher.hold(topology)
    judged = _judged(topology, plan, results)
    caused = [sink for sink in topology.sinks if causes(plan, sink)]  # an empty append would cost a commit
    writing = iter([*(partial(publisher.table, sink) for sink in caused), partial(publisher.quarantine, topology)])

    def hands(command: commands.Command) -> bool:
        match command:
            case commands.Evaluate():  # a rule that fails raises its own error
                checker.of_steps(judged, publisher.counting, plan, cycle_metrics)
                publisher.require_exact_partitions(topology)
            case commands.Wait():
                waits.pop()()
            case commands.Overwrite() if storing is not None:
                waits.append(storing())
            case commands.Append(transaction=known):
                next(writing)(known)
        return True

    outputs = *(sink.name for sink in caused), "quarantine"
    own = machines.Pipeline((), outputs, plan.fingerprint, stores_in_parallel=storing is not None)
    commands.carry_out(machines.execute(own, ledger.turn, plan, None), hands)  # the inputs are made of what is stored
    publisher.orphans(judged)
    topics = [topic for topic in topology.kafka_sinks if causes(plan, topic)]
    publisher.topics(topics, target, before_topics)  # behind all that is published exactly once: a crash repeats them
    _count(topology, plan, evaluated.counts, cycle_metrics)
    cycle_metrics.complete(topology)
    return Executed(results, cycle_metrics)


def _judged(topology: Topology, plan: Plan, results: Results) -> dict[str, judging.Dataset]:
    """What rules judge; what nothing of the plan can cause rows of is not evaluated for its counts either."""
    own = (node for node in topology.nodes if node.name in results.judged and causes(plan, node))
    return {node.name: results.judged[node.name] for node in own}


def _count(topology: Topology, plan: Plan, node_metrics: NodeMetrics, cycle_metrics: CycleMetrics) -> None:
    """Notes what became of the records of joins that wait or amend."""
    written = {one.name for sink in topology.outputs if causes(plan, sink) for one in upstream(sink)}
    for node in topology.nodes:
        if node.name in node_metrics.nodes and causes(plan, node):
            cycle_metrics.wait_outcomes(node.name, node_metrics.counts(node.name, written=node.name in written))


def out_in(spark: SparkSession, ledger: Ledger, topology: Topology, plan: Plan) -> str | None:
    """Where anything of a cycle is out, or may be out; None: nowhere.

    Only epochs before the ledger's own may have published it, and nothing of theirs is on its way any more
    (`claims.take_over`). Its outputs are those of this topology: what the cycle
    has given to others is whole there, an output being one commit, or not there at all.
    """
    own = F.col("pipeline") == ledger.pipeline
    control = {"quarantine": (quarantine.table(ledger), own & (F.col("cycle") == plan.cycle))}
    if orphans.table(ledger).exists(spark):
        control["orphans"] = (orphans.table(ledger), own & (F.col(sinks.CYCLE) == plan.cycle))
    outputs = (sink.name for sink in topology.sinks if sinks.holds(spark, ledger.lake, sink, plan.cycle))
    others = (name for name, (table, of_it) in control.items() if table.read(spark).where(of_it).limit(1).count())
    return next(chain(outputs, others), None)


def causes(plan: Plan, node: Node) -> bool:
    """Whether a plan takes records, or moves clocks, that can cause rows of a node."""
    return any(plan.touches(source.topic) for source in triggers_of(node))


@dataclass
class _Publisher:
    """Writes a cycle's results, and counts them on the way."""

    spark: SparkSession
    ledger: Ledger
    plan: Plan
    results: Results
    inputs: Inputs
    cycle_metrics: CycleMetrics
    merging: Callable[[], AbstractContextManager[None]]
    repeated: bool
    counting: list[DataFrame] = field(default_factory=list)
    _prepared: dict[str, DataFrame] = field(default_factory=dict)
    _loaded: set[str] = field(default_factory=set)

    def hold(self, topology: Topology) -> None:
        """Prepares what merged outputs get, one row a key, and what topics get: held because it is counted before it is written.

        What a first load appends is counted on its way, unless its partitions are looked at before. Of what it writes to a topic
        Spark reports nothing.
        """
        for sink in topology.sinks:
            if sink.mode == "merge" and causes(self.plan, sink):
                key = sinks.merged_by(sink, self.results.records[sink.name])
                repeated = any(isinstance(node, Aggregate) for node in upstream(sink))
                newest = sinks.latest(self.results.outputs[sink.name], key, repeated=repeated)
                if sinks.is_first_load(self.spark, self.ledger, sink, self.plan):
                    self._loaded.add(sink.name)
                if sink.name in self._loaded and not sink.partition_by:
                    self._prepared[sink.name] = newest
                    continue
                self._prepared[sink.name] = self._held(sink.name, newest)
        for topic in topology.kafka_sinks:
            if causes(self.plan, topic):
                self._prepared[topic.name] = self._held(topic.name, self.results.outputs[topic.name])

    def _held(self, name: str, rows: DataFrame) -> DataFrame:
        """An output's rows, held, and counted with what the cycle counts before it writes."""
        held = self.inputs.hold(rows)
        counts = [(one, column, F.lit(0)) for one, column in _kinds(F.col(LINEAGE)["kind"]).items()]
        self.counting.append(judging.as_rows(name + WRITTEN, held, counts))
        return held

    def require_exact_partitions(self, topology: Topology) -> None:
        """Refuses rows of which a partition column would come back with another value."""
        for sink in topology.sinks:
            if sink.partition_by and causes(self.plan, sink):
                rows = self._prepared.get(sink.name, self.results.outputs[sink.name])
                folders.require_exact(sink, rows, self.ledger.lake.output(sink.name))

    def table(self, sink: DeltaSink, known: commands.Transaction) -> None:
        """Writes an output's rows in one commit."""
        rows = self._prepared.get(sink.name, self.results.outputs[sink.name])
        if sink.mode == "merge" and sink.name not in self._loaded:
            key = sinks.merged_by(sink, self.results.records[sink.name])
            with self.merging():
                sinks.merge(self.spark, self.ledger, sink, rows, key, self.plan)
            return
        counts = _kinds(F.col(LINEAGE)["kind"])
        output = self.ledger.lake.output(sink.name)

        def afterwards() -> DataFrame:
            if sink.name in self._loaded:
                return rows  # of deletions the table says nothing
            return output.read(self.spark).where(F.col(LINEAGE)["cycle"] == self.plan.cycle)

        def write(counted: DataFrame) -> None:
            sinks.append(self.spark, self.ledger, sink, counted, known)

        self.cycle_metrics.rows(sink.name, self._counted(sink.name, rows, counts, write, afterwards))

    def orphans(self, judged: Mapping[str, judging.Dataset]) -> None:
        """Writes rows without a partner, of steps that have a rule about these."""
        for name, rows in judged.items():
            if rows.orphans is not None:
                orphans.publish(self.spark, self.ledger, name, rows.orphans)

    def topics(self, topics: Sequence[KafkaSink], target: kafka_sink.Target, before: Callable[[], None]) -> None:
        """Writes the records of outputs to Kafka; `before` is called if there are any such outputs."""
        if topics:
            before()
        for sink in topics:
            kafka_sink.publish(self.spark, self.ledger, sink, self._prepared[sink.name], target)

    def quarantine(self, topology: Topology, known: commands.Transaction) -> None:
        """Writes what goes to quarantine in one commit."""
        rejected = [one for one in self.results.rejected if one.code != EXPECTATION or self._drops(one.node)]
        refused = quarantine.rows(self.spark, self.ledger, topology, self.plan, rejected)
        if refused is None:
            return
        reasons = quarantine.reasons(topology, rejected)
        counts = {
            f"r{place}": F.count_if((F.col("node") == node) & (F.col("code") == code))
            for place, (node, code) in enumerate(reasons)
        }
        table = quarantine.table(self.ledger)

        def afterwards() -> DataFrame:
            own = (F.col("pipeline") == self.ledger.pipeline) & (F.col("cycle") == self.plan.cycle)
            return table.read(self.spark).where(own)

        def write(counted: DataFrame) -> None:
            self.ledger.failpoint("quarantine.before")
            with translated(self.ledger.pipeline):
                fenced = self.ledger.fence(self.spark, counted)
                table.append(fenced, *known.of(self.ledger.pipeline))
            self.ledger.failpoint("quarantine.after")

        by_reason = self._counted("quarantine", refused, counts, write, afterwards)
        for place, (node, code) in enumerate(reasons):
            self.cycle_metrics.quarantined(node, code, by_reason[f"r{place}"])

    def _drops(self, node: str) -> bool:
        """Whether a step's rules have dropped any row, as it was counted."""
        return any(one.action == "drop" and one.failed for one in self.cycle_metrics.of(node).expected)

    def _counted(
        self,
        what: str,
        rows: DataFrame,
        counts: Mapping[str, Any],
        write: Callable[[DataFrame], None],
        afterwards: Callable[[], DataFrame],
    ) -> dict[str, int]:
        """Writes rows and tells their counts; where the write was skipped they are counted where they lie."""
        numbers = None
        if self.repeated:
            write(rows)
        else:
            write_metrics = self._write_metrics(what, counts)
            write(write_metrics.of(rows))
            numbers = write_metrics.counts()
        return count_rows(afterwards(), counts) if numbers is None else numbers

    def _write_metrics(self, what: str, counts: Mapping[str, Any]) -> WriteMetrics:
        return WriteMetrics(f"{self.ledger.pipeline} {self.ledger.epoch} {self.plan.cycle} {what}", counts)


def _kinds(kind: Any) -> dict[str, Any]:
    """Counts of result rows: all, and those of each kind."""
    return {ROWS: F.count(F.lit(1))} | {f"{ROWS}_{one}": F.count_if(kind == one) for one in KINDS}


__all__ = ["Executed", "RunCounts", "causes", "execute"]
