"""One cycle: expect, join, publish. What it does is a pure function of its plan and of bronze."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine import dataflow, kafka_sink, quarantine, sinks
from lakestreams.engine.bronze import planned_rows
from lakestreams.engine.dataflow import Inputs, Results
from lakestreams.engine.failpoints import failpoint
from lakestreams.engine.ledger import Ledger, Plan, translated
from lakestreams.engine.steps import names
from lakestreams.errors import ExpectationFailed, TooManyBadRecords
from lakestreams.joins.order import KEY
from lakestreams.topology.graph import triggers_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Sink, Source

BAD_SHARE_FROM_RECORDS = 1_000
_EXAMPLES = 5


@dataclass
class RunCounts:
    """How many records were planned since the run's start, per source; for `max_bad_share`."""

    read: dict[str, int] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)

    def add(self, plan: Plan) -> None:
        """Takes a plan's counts in."""
        for part in plan.ranges:
            self.read[part.topic] = self.read.get(part.topic, 0) + part.records
            self.bad[part.topic] = self.bad.get(part.topic, 0) + part.bad

    def require_share(self, max_bad_share: float) -> None:
        """Refuses a source of which too much is unreadable (once 1,000 records have been read).

        Raises:
            TooManyBadRecords: naming the sources and their shares.
        """
        faults = [
            f"{topic}: {self.bad[topic]} of {read} records ({self.bad[topic] / read:.1%}) cannot be read"
            for topic, read in sorted(self.read.items())
            if read >= BAD_SHARE_FROM_RECORDS and self.bad[topic] > max_bad_share * read
        ]
        if faults:
            message = "\n".join([*faults, f"allowed is {max_bad_share:.1%}; nothing of the cycle was published"])
            raise TooManyBadRecords(message)


def execute(
    spark: SparkSession, ledger: Ledger, topology: Topology, plan: Plan, inputs: Inputs, target: kafka_sink.Target
) -> Results:
    """Publishes a plan's results and quarantine, each table in one commit, topics last; gives what was evaluated.

    Args:
        spark: the session.
        ledger: of the running epoch.
        topology: the pipeline, checked.
        plan: the cycle.
        inputs: what it is evaluated over (see `past`).
        target: where topics are written.
    """
    _expect(spark, ledger, topology, plan)
    results = dataflow.run(topology, inputs)
    for sink in topology.sinks:
        if not causes(plan, sink):
            continue  # nothing can come out, and an empty append would cost a commit
        rows = results.outputs[sink.name]
        sinks.publish(spark, ledger, sink, rows, names(results.records[sink.name], KEY), plan.cycle)
    refused = quarantine.rows(spark, ledger, topology, plan, results.rejected)
    if refused is not None:
        failpoint("quarantine.before")
        with translated(ledger.pipeline):
            quarantine.table(ledger).append(ledger.fence(spark, refused), f"{ledger.pipeline}/quarantine", plan.cycle)
        failpoint("quarantine.after")
    for topic in topology.kafka_sinks:  # whatever can be published exactly once is, before what a crash repeats
        if causes(plan, topic):
            kafka_sink.publish(spark, ledger, topic, results.outputs[topic.name], target)
    return results


def causes(plan: Plan, sink: Sink) -> bool:
    """Whether a plan takes records, or moves clocks, that can cause rows of an output."""
    return any(plan.touches(source.topic) for source in triggers_of(sink))


def _expect(spark: SparkSession, ledger: Ledger, topology: Topology, plan: Plan) -> None:
    """Stops before anything is published where an expectation with the action `fail` is violated."""
    for source in topology.sources:
        violated = sum(part.null_keys for part in plan.of(source.topic))
        if source.keys_not_null == "fail" and violated:
            examples = _null_keys(spark, ledger, source, plan)
            message = (
                f"keys_not_null of {source.name}: {violated} of {plan.records(source.topic)} records have no key\n"
                + "\n".join(f"{source.topic}-{partition}@{offset}" for partition, offset in examples)
            )
            raise ExpectationFailed(message, where=f'source "{source.name}"')


def _null_keys(spark: SparkSession, ledger: Ledger, source: Source, plan: Plan) -> list[tuple[int, int]]:
    found = (
        planned_rows(spark, ledger, source, [plan])
        .where(F.col("k").isNull())
        .orderBy("partition", "offset")
        .select("partition", "offset")
        .limit(_EXAMPLES)
        .collect()
    )
    return [(row["partition"], row["offset"]) for row in found]
