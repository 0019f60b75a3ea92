"""A pipeline's tables as DataFrames, for notebooks: `lakestreams.open("conf/enrichment.yml")`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakestreams.errors import (
    DeltaTableMissing,
    InvalidOption,
    LakestreamsError,
    NoSuchRecord,
    NothingToVerify,
    UnknownReference,
)
from lakestreams.run.failure import Secrets
from lakestreams.run.options import FileOptions, LakeOptions
from lakestreams.run.runner import find_pipeline, load, open_lake, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.table import Table
    from lakestreams.topology.topology import Topology
    from lakestreams.verify.verify import Verdict


@dataclass(frozen=True, repr=False)
class PipelineTables:
    """What a pipeline has read and made.

    A method for a table that no run has written yet raises DeltaTableMissing.

    Attributes:
        lake: where the tables are.
        configuration: what its files say; None where they are not what it was opened by.
    """

    spark: SparkSession
    lake: Lake
    topology: Topology
    configuration: Configuration | None = None

    def __repr__(self) -> str:
        """As a notebook shows it: which pipeline, where its tables are, and what may be asked for."""
        sources = ", ".join(source.name for source in self.topology.sources)
        outputs = ", ".join(sink.name for sink in self.topology.outputs)
        place = self.lake.catalog or self.lake.root
        return f"pipeline {self.topology.name} in {place}: sources {sources}; outputs {outputs}"

    def bronze(self, source: str | None = None) -> DataFrame:
        """All records of a source; its name may be left out if there is only one.

        Raises:
            UnknownReference: if there is no such source, or none is named and there are several.
        """
        topics = {one.name: one.topic for one in self.topology.sources}
        lake = self.lake.naming(self.topology)
        return self._read(lake.bronze(self.topology.name, topics[_one_of("source", source, topics)]))

    def silver(self, output: str | None = None) -> DataFrame:
        """The rows of an output table; its name may be left out if there is only one.

        Raises:
            UnknownReference: as for `bronze`, and of a topic.
        """
        topics = [sink.name for sink in self.topology.kafka_sinks]
        if output in topics or not self.topology.sinks:
            message = f"{output or ', '.join(topics)} is a topic, not a table"
            raise UnknownReference(message, hint="read it from Kafka, or write the same to a table, too: to_delta(...)")
        outputs = {sink.name: sink for sink in self.topology.sinks}
        return self._read(self.lake.output(_one_of("output", output, outputs)))

    def quarantine(self) -> DataFrame:
        """The records that gave no result and are kept: reason, node, raw bytes, place, cycle."""
        rows = self._read(self.lake.control("quarantine"))
        return rows.where(rows["pipeline"] == self.topology.name)

    def events(self) -> DataFrame:
        """The event log: one `flow_progress` per node and cycle, one `cycle_progress` per cycle; `details` is a JSON text."""
        rows = self._read(self.lake.control("events"))
        return rows.where(rows["pipeline"] == self.topology.name)

    def expectations(self) -> DataFrame:
        """How often each expectation passed and failed.

        Returns:
            A row a cycle, dataset and expectation: `cycle, dataset, name, action, passed, failed`.
        """
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the package imports without pyspark

        kind = (
            "flow_progress struct<data_quality: struct<expectations: array<struct<dataset: string, name: string, "
            "action: string, passed_records: bigint, failed_records: bigint>>>>"
        )
        entries = F.from_json("details", kind)["flow_progress"]["data_quality"]["expectations"]
        flows = self.events().where("event_type = 'flow_progress'").select("cycle", "sequence", F.inline(entries))
        return flows.orderBy("sequence", "dataset", "name").select(
            "cycle", "dataset", "name", "action",
            F.col("passed_records").alias("passed"), F.col("failed_records").alias("failed"),
        )  # fmt: skip

    def orphans(self) -> DataFrame:
        """The rows whose foreign key names no row, of joins with the invariant `foreign_key_exists`.

        Returns:
            Columns `node, key, foreign_key` (JSON texts), `event_time_ms, _lineage`.
        """
        rows = self._read(self.lake.control("orphans"), "give a foreign-key join the invariant foreign_key_exists")
        return rows.where(rows["pipeline"] == self.topology.name).drop("pipeline")

    def lag(self) -> DataFrame:
        """How far each topic-partition is read and processed.

        Returns:
            Columns `topic, partition, planned_to, end_offset, stream_time_ms, behind_ms`. The cycles have taken all
            below `planned_to`. The topic's end was `end_offset` when the last cycle was planned; of a Delta table both are
            versions times 2^32, plus a place. `behind_ms` is how far the partition's stream time lies behind the furthest
            one, null of a partition without one.
        """
        from pyspark.sql import Window  # noqa: PLC0415 - the package imports without pyspark
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        plans = self._ledger(DeltaTableMissing).rows(self.spark).where("kind = 'plan'")
        newest = plans.orderBy(F.desc("cycle")).limit(1).select(F.explode("ranges").alias("part")).select("part.*")
        newest = newest.where(F.col("partition") >= 0)  # the others are of replayed records
        furthest = F.max("stream_time_ms").over(Window.partitionBy())
        has_time = F.col("stream_time_ms") > 0  # at 0 are rows that a Delta table had before it was read
        return newest.select(
            "topic",
            "partition",
            F.col("to_offset").alias("planned_to"),
            "end_offset",
            "stream_time_ms",
            F.when(has_time, furthest - F.col("stream_time_ms")).alias("behind_ms"),
        ).orderBy("topic", "partition")

    def why(self, *, key: str | int | None = None, at: str | None = None) -> DataFrame:
        """What became of the records of a key, or of one record (`TOPIC-PARTITION@OFFSET`, or one attempt: `...#1`).

        Args:
            key: as text (`42`), or a JSON object of its columns; one that only results have is traced by what made them.
            at: the record.

        Returns:
            A row a record: `topic, partition, offset, attempt, key, value, event_time_ms, cycle, told` (sentences).

        Raises:
            InvalidOption: if neither a key nor a record is named, or both are.
            NoSuchRecord: if bronze holds none, and no output a row of the key.
        """
        from lakestreams.verify import trace, why  # noqa: PLC0415 - needs pyspark

        given: object = key  # users of Python pass anything
        if (key is None) == (at is None) or not isinstance(given, str | int | None):
            message = f"why(key={key!r}, at={at!r}) names no record"
            raise InvalidOption(message, hint='why(key="alice"), why(key=42) or why(at="PageViews-0@17")')
        self._ledger(NoSuchRecord)
        place = trace.at(at) if at is not None else None
        traces = why.why(self.spark, self.lake, self.topology, key=None if key is None else str(key), place=place)
        rows = [(*f.identity, f.key, f.value, f.event_time_ms, f.cycle, f.sentences) for f in traces]
        columns = (
            "topic string, partition int, offset bigint, attempt int, key string, value string, "
            "event_time_ms bigint, cycle bigint, told array<string>"
        )
        return self.spark.createDataFrame(rows, columns)

    def verify(self) -> Verdict:
        """Recomputes all finished cycles from bronze, and compares them with the tables (see `verify.verify`)."""
        from lakestreams.verify.verify import verify  # noqa: PLC0415 - needs pyspark

        self._ledger(NothingToVerify)
        return verify(self.spark, self.lake, self.topology, configuration=self.configuration)

    def _ledger(self, refusal: type[LakestreamsError]) -> Ledger:
        """The pipeline's ledger, if it has ever run here."""
        from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415 - needs pyspark

        ledger = Ledger(self.lake, self.topology.name)
        ledger.require_run(self.spark, refusal, "root= or catalog=")
        return ledger

    def _read(
        self, table: Table, hint: str = "run the pipeline again: a run creates the tables that it lacks"
    ) -> DataFrame:
        self._ledger(DeltaTableMissing)
        if not table.exists(self.spark):
            raise DeltaTableMissing(f"no run of {self.topology.name} has written {table.name} yet", hint=hint)
        return table.read(self.spark)


def open_pipeline(
    pipeline: str | Path | Topology,
    *,
    root: str | None = None,
    catalog: str | None = None,
    schemas: str | None = None,
    sources: str | Path | None = None,
) -> PipelineTables:
    """A pipeline's tables, to look at.

    Args:
        pipeline: its file, such as `conf/enrichment.yml`; its name, if a file `conf/*.yml` of the working directory has it;
            or its topology.
        root: the folder of all tables (`lake`); with a catalog that of the checkpoints.
        catalog: the Unity Catalog catalog.
        schemas: names of its schemas that are not the default ones, such as `bronze=raw,control=_streams`.
        sources: the sources' file; by default `sources.yml` in the pipeline's folder.

    Raises:
        UnknownReference: if there is neither a file nor a pipeline of that name.
    """
    from lakestreams.engine.ledger import fingerprint  # noqa: PLC0415 - as the others
    from lakestreams.topology.topology import Topology  # noqa: PLC0415 - as the others

    lake = LakeOptions(root, catalog, schemas)
    given: object = pipeline  # users without a type checker pass anything
    if not isinstance(given, str | Path | Topology):
        hint = 'such as lakestreams.open("conf/enrichment.yml"); a StreamsBuilder gives its topology by build()'
        raise InvalidOption(f"{given!r} is no pipeline: neither a file, nor a name, nor a topology", hint=hint)
    if isinstance(pipeline, Topology):
        return PipelineTables(open_session(), open_lake(lake), pipeline)
    (loaded,) = load(FileOptions((_file(pipeline),), Path(sources) if sources else None), Secrets())
    configuration = fingerprint.of(loaded.topology, loaded.text, loaded.semantics)
    return PipelineTables(open_session(), open_lake(lake), loaded.topology, configuration)


def _file(pipeline: str | Path) -> Path:
    """A path as it is; a plain word is a pipeline's name unless a file has it."""
    path = Path(pipeline)
    is_name = isinstance(pipeline, str) and path.name == pipeline and path.suffix not in (".yml", ".yaml")
    return find_pipeline(path.name) if is_name and not path.is_file() else path


def _one_of(what: str, name: str | None, known: Iterable[str]) -> str:
    names = list(known)
    if name is None and len(names) == 1:
        return names[0]
    if name in names:
        return str(name)
    if name is not None:
        raise UnknownReference(f"no {what} is named {name!r}", hint=f"there are: {', '.join(names)}")
    call = "bronze" if what == "source" else "silver"
    raise UnknownReference(
        f"there are several {what}s",
        hint=f"pass one's name, such as {call}({names[0]!r}); there are: {', '.join(names)}",
    )
