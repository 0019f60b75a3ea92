"""A pipeline laid down without a broker: what runs leave in bronze, ledger and outputs, made by the engine's functions.

For tests that change one of these functions and look whether it is noticed: one step is done in a second, on a copy of the
steps before it.
"""

from __future__ import annotations

import datetime as dt
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.engine.harness import claimed

from lakestreams.engine.ingest import batches as ingest
from lakestreams.engine.ingest.bronze_rows import create_bronze
from lakestreams.engine.ledger import fingerprint, settle
from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import BronzeState, Plan
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish import sinks
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state import bronze
from lakestreams.engine.state.inputs import over
from lakestreams.evaluate import walk
from lakestreams.expectations.rules import RecordRules
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams import Topology

Record = tuple[str | None, str | None, int]  # key, value, event time in ms
PARTITIONS = 2
_KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)


@dataclass(frozen=True)
class Laid:
    """One pipeline's tables in a folder of its own.

    Attributes:
        spark: the session.
        root: the folder.
        topology: the pipeline.
    """

    spark: SparkSession
    root: Path
    topology: Topology

    @property
    def lake(self) -> Lake:
        return Lake(str(self.root))

    @property
    def ledger(self) -> Ledger:
        """Of the one epoch that there is."""
        return Ledger(self.lake, self.topology.name, epoch=1, run_id="laid")

    @property
    def _configuration(self) -> fingerprint.Configuration:
        return fingerprint.of(self.topology, "")

    def copied(self, root: Path) -> Laid:
        """All of it in another folder, but for the outputs."""
        shutil.copytree(self.root, root, ignore=shutil.ignore_patterns("silver"))
        return replace(self, root=root)

    def ingested(self, topics: Mapping[str, Sequence[Record]], batches: int) -> Laid:
        """Bronze, and the ledger's rows about it, of so many batches."""
        spark = self.spark
        self.ledger.create(spark)
        for source in self.topology.sources:
            create_bronze(spark, self.lake, self.topology.name, source)
        ledger = claimed(spark, self.ledger, "laid", configuration=self._configuration)
        bronze_state = BronzeState(0, {})
        offsets: dict[tuple[str, int], int] = {}
        for number in range(batches):
            rows = []
            for topic, records in topics.items():
                size = -(-len(records) // batches)
                for key, value, ms in records[number * size : (number + 1) * size]:
                    at = topic, zlib.crc32((key or "").encode()) % PARTITIONS
                    offsets[at] = offsets.get(at, -1) + 1
                    rows.append(_in_kafka(key, value, *at, offsets[at], ms))
            frame = spark.createDataFrame(rows, _KAFKA).coalesce(1)  # Kafka's source has a partition in one task
            ingest.BatchWriter(ledger, self.topology.sources, str(self.root), bronze_state)(frame, number)
            bronze_state = BronzeState.after(ledger.ingests(spark, 1))
        return self

    def planned(self) -> Laid:
        """The ledger's plans: one cycle after each batch, over what is settled, and one for the rest."""
        ledger, ingests = self.ledger, self.ledger.ingests(self.spark, 0)
        ends = {part.at: part.to_offset for one in ingests for part in one.ranges}
        plan: Plan | None = None
        for read in range(1, len(ingests) + 1):
            backlog = Backlog(plan, tuple(ingests[:read]))
            number = plan.cycle + 1 if plan else 1
            found = settle.next_plan(
                number, self._configuration.whole, backlog, ends, {},
                lambda stretches, below, seq: bronze.cut_below(
                    self.spark, ledger, stretches, below, seq, RecordRules(), self.topology.sources
                ),
            )  # fmt: skip
            if found is None:
                continue
            plan = replace(found, ranges=tuple(replace(part, end_offset=ends[part.at]) for part in found.ranges))
            ledger.record(self.spark, ledger.plan_row(plan))
        assert plan is not None
        assert plan.cycle > 1, "one cycle alone shows nothing about its cuts"
        ledger.record_done(self.spark, plan.cycle)
        return self

    def published(self) -> Laid:
        """The outputs, all cycles' rows in one commit."""
        spark, ledger = self.spark, self.ledger
        plans = ledger.plans(spark, 1, [source.topic for source in self.topology.sources])
        results = walk.run(self.topology, over(spark, ledger, self.topology, plans, {}))
        for sink in self.topology.sinks:
            rows = results.outputs[sink.name]
            sinks.create(spark, self.lake, sink, rows.schema, self.topology.name)
            key = sinks.merged_by(sink, results.records[sink.name])
            if sink.mode == "merge":
                sinks.merge(spark, ledger, sink, sinks.latest(rows, key), key, plans[-1])
            else:
                sinks.append(spark, ledger, sink, rows, decisions.of_output(sink.name, plans[-1]))
        return self

    def differing(self, *, ask_second: bool = True) -> dict[str, tuple[str, ...]]:
        """What a verification finds, with examples."""
        found = verify(self.spark, self.lake, self.topology, ask_second=ask_second)
        assert all(one.compared for one in found.findings)
        return {one.what: one.examples for one in found.findings if one.differs}


def _in_kafka(key: str | None, value: str | None, topic: str, partition: int, offset: int, ms: int) -> tuple[Any, ...]:
    as_bytes = [None if text is None else bytearray(text.encode()) for text in (key, value)]
    time = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=ms)  # noqa: UP017
    return (*as_bytes, topic, partition, offset, time, 0, None)
