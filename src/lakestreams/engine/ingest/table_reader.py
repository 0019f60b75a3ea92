"""Reads what is new in Delta tables, by their change data feed or by comparing them with bronze, and appends it to bronze."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest import batches
from lakestreams.engine.ingest.bronze_rows import HEADERS_TYPE
from lakestreams.engine.ingest.delta_source import ROWS_A_VERSION, TableVersion, versions
from lakestreams.engine.ingest.idempotent_append import append_once
from lakestreams.engine.ingest.table_rows import event_time_of, judged_rows
from lakestreams.engine.ledger.plans import BronzeState, Ingest, Position, Range
from lakestreams.engine.protocol import commands, machines
from lakestreams.errors import (
    OffsetsExpired,
    RowsChanged,
)
from lakestreams.errors.places import NodePlace
from lakestreams.expectations.rules import RecordRules
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.runtime.table import Table
    from lakestreams.formats.table import TableColumns
    from lakestreams.topology.endpoints import Source

_HALF = ROWS_A_VERSION // 2
# What Delta says where the feed lacks a version: not recorded, its log or its files removed, columns renamed since.
_GAPS = (
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_FILE_NOT_FOUND",
    "FILE_NOT_EXIST",
)
# What a table holds when the reading begins was there before whatever comes after.
_BEFORE_ALL_MS = 0


@dataclass
class TableReader:
    """Ingests what is new in Delta tables: one bronze batch, closed in the ledger as one of Kafka's is.

    Attributes:
        ledger: of the running epoch.
        accept_data_loss: whether a stream goes on where commits are gone that were not read.
        rules: what is judged of single records.
        warnings: what the operator should know; filled as tables are read.
    """

    spark: SparkSession
    ledger: Ledger
    accept_data_loss: bool = False
    rules: RecordRules = field(default_factory=RecordRules)
    warnings: list[str] = field(default_factory=list)

    def rows(self, source_table: Sequence[TableVersion], before: BronzeState) -> int:
        """About how many rows `ingest` will read: all of tables that are read from their beginning or compared.

        Delta's log knows, so no file is read. What a feed brings besides them is taken for few.
        """
        whole = (one for one in source_table if one.source.changes == "snapshot" or one.at not in before.positions)
        return sum(one.table.read(self.spark).count() for one in whole)

    def ingest(self, source_table: Sequence[TableVersion], before: BronzeState) -> Ingest:
        """Appends what these tables have after their positions, and closes the batch.

        Args:
            source_table: tables with commits that were not read.
            before: where bronze stands.

        Raises:
            RowsChanged: if a stream's table has updates or deletes.
            OffsetsExpired: if commits are gone that a stream has not read.
            Fenced: if a newer driver runs the pipeline.
        """
        now = time.time_ns() // 1_000_000
        by_topic = {one.source.topic: one for one in source_table}

        def hands(command: commands.Command) -> Any:
            match command:
                case commands.Together(appends):
                    for append in appends:  # each needs the cores for itself
                        self._append(by_topic[append.table], before, now, append.transaction)
                case commands.Read("tail"):
                    sources = [one.source for one in source_table]
                    return batches.read_back(self.spark, self.ledger, sources, before, now, self.rules)
                case commands.Append(row=(_, _, Ingest() as finished)):
                    self.ledger.record(self.spark, self.ledger.ingest_row(finished))
            return True

        ends = {one.at: one.end for one in source_table}
        return commands.carry_out(machines.batch(self.ledger.turn, before, tuple(by_topic), ends), hands)

    def _append(self, source_table: TableVersion, before: BronzeState, now: int, known: commands.Transaction) -> None:
        """One append. What it reads exists as a whole or not at all, so it can be tried in one way and then in another."""
        position = before.positions.get(source_table.at, Position(0))
        self.ledger.failpoint("bronze.before", source_table.source.topic)
        try:
            changes = (
                self._compared(source_table, position)
                if source_table.source.changes == "snapshot"
                else self._fed(source_table, versions(position.offset))
            )
            self._write(source_table, changes, before, now, known)
        except Exception as error:
            if source_table.source.changes == "snapshot" or not any(word in str(error) for word in _GAPS):
                raise
            instead = self._over_gap(source_table, position, before, error)
            if instead is not None:
                self._write(source_table, instead, before, now, known)
        self.ledger.failpoint("bronze.after", source_table.source.topic)

    def _over_gap(
        self, source_table: TableVersion, position: Position, before: BronzeState, error: Exception
    ) -> DataFrame | None:
        """Where the feed lacks commits: a table is compared instead; a stream that has begun has lost records.

        Returns:
            The changes; None: there are none yet.
        """
        source = source_table.source
        if source.kind != "stream":
            if position.offset:
                self.warnings.append(
                    f"{source.name}: the change data feed of {source.delta} does not go back to version "
                    f"{versions(position.offset)}; its rows were compared with bronze instead"
                )
            return self._compared(source_table, position)
        if not position.offset:
            return self._content(source_table, source_table.committed_ms)
        begin = versions(position.offset)
        first = self._first_readable(source_table, begin)
        lost = f"{source.delta}: versions {begin} to {first - 1}"
        if not self.accept_data_loss:
            message = f"commits are gone before they were ingested:\n{lost}"
            hint = "to continue at the first readable commit and note what was lost: run --accept-data-loss"
            raise OffsetsExpired(message, hint=hint, where=NodePlace("stream", source.name)) from error
        part = Range(*source_table.at, position.offset, first * ROWS_A_VERSION, stream_time_ms=position.stream_time_ms)
        self.ledger.record_loss(self.spark, [part], before.seq + 1)
        self.warnings.append(f"accepted data loss:\n{lost}")
        return self._fed(source_table, first) if first <= source_table.version else None

    def _write(
        self, source_table: TableVersion, changes: DataFrame, before: BronzeState, now: int, known: commands.Transaction
    ) -> None:
        """Appends changes as bronze rows; no commit without rows, whose transaction the next batch would run into."""
        source, seq, position = source_table.source, before.seq + 1, before.positions.get(source_table.at, Position(0))
        placed = _placed(changes, source).where(F.col("offset") >= position.offset)
        rows = judged_rows(placed, source, position.stream_time_ms, seq, now)
        with batches.kept_in_memory(rows) as held:
            if not held.isEmpty():
                append_once(self.spark, self.ledger, source.topic, held, known)

    # --- the three ways to read: each gives version, half, removed, timestamp_ms, key, value, k, v ----------------------

    def _fed(self, source_table: TableVersion, first: int) -> DataFrame:
        """What the change data feed holds from a version on."""
        feed = _feed(self.spark, source_table.table, first, source_table.version)
        source, change = source_table.source, F.col("_change_type")
        if source.kind == "stream":
            if not source.ignore_changes:
                _require_appends(feed, source_table)
            feed = feed.where(change == "insert")
        own = _typed(feed, source).withColumn("removed", ~change.isin("insert", "update_postimage"))
        if source.kind != "stream":
            # an update may move a row to another key: a key is deleted where the commit leaves it without a row
            stays = F.max(~F.col("removed")).over(Window.partitionBy("_commit_version", "key"))
            own = own.withColumn("stays", stays).where(~F.col("removed") | ~F.col("stays"))
        return own.select(
            F.col("_commit_version").cast("bigint").alias("version"),
            F.lit(0).cast("bigint").alias("half"),
            "removed",
            F.unix_millis("_commit_timestamp").alias("timestamp_ms"),
            *_unless_removed(),
        )

    def _content(self, source_table: TableVersion, timestamp_ms: int) -> DataFrame:
        """All rows of the newest version."""
        rows = self.spark.sql(f"SELECT * FROM {source_table.table.reference} VERSION AS OF {source_table.version}")
        own = _typed(rows, source_table.source).withColumn("removed", F.lit(False))
        return own.select(*_compared_at(source_table, timestamp_ms), *_unless_removed())

    def _compared(self, source_table: TableVersion, position: Position) -> DataFrame:
        """What differs between the rows of the newest version and what bronze last said of each key.

        Reads key, value and offset of all that bronze holds of the source: it grows with the source's history.
        """
        content = self._content(source_table, source_table.committed_ms)
        if not position.offset:
            return content.withColumn("timestamp_ms", F.lit(_BEFORE_ALL_MS).cast("bigint"))
        newest = F.max_by(F.struct("value", "k"), "offset")
        bronze = self.ledger.lake.bronze(self.ledger.pipeline, source_table.source.topic).read(self.spark)
        # what was repaired since is not what the table said: compared with that, the fault would come again
        said = bronze.where(F.col("attempt") == 0).groupBy(F.col("key").alias("said_key")).agg(newest.alias("said"))
        # several rows of one key: the last one counts, as it does among records
        last = F.max("value").over(Window.partitionBy("key"))
        both = content.withColumn("last", last).join(said, F.col("key").eqNullSafe(F.col("said_key")), "full_outer")
        here = F.col("removed").isNotNull()
        gone = ~here & F.col("said.value").isNotNull() & F.col("said_key").isNotNull()
        changed = here & ~F.col("last").eqNullSafe(F.col("said.value"))
        return both.where(gone | changed).select(
            *_compared_at(source_table, source_table.committed_ms, (~here).alias("removed")),
            F.coalesce("key", "said_key").alias("key"),
            "value",
            F.when(here, F.col("k")).otherwise(F.col("said.k")).alias("k"),
            "v",
        )

    def _first_readable(self, source_table: TableVersion, first: int) -> int:
        """The version from which on all of the feed can be read; the one after the newest if there is none."""
        low, high = first, source_table.version + 1
        while low < high:
            middle = (low + high) // 2
            if self._can_read(source_table, middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _can_read(self, source_table: TableVersion, version: int) -> bool:
        try:
            # the log and the files of all of them: a file of a later one may be gone, and an earlier one be there
            _feed(self.spark, source_table.table, version, source_table.version).count()
        except Exception as error:
            if not any(word in str(error) for word in _GAPS):
                raise
            return False
        return True


def _feed(spark: SparkSession, table: Table, first: int, last: int) -> DataFrame:
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", first).option("endingVersion", last)
    return reader.load(table.path) if table.path is not None else reader.table(table.reference)


def _require_appends(feed: DataFrame, source_table: TableVersion) -> None:
    """Refuses commits of a stream that do more than append; reads nothing of the table's own columns.

    Raises:
        RowsChanged: naming the first of them.
    """
    source = source_table.source
    changed = feed.where(F.col("_change_type") != "insert").groupBy("_commit_version").agg(
        F.count_if(F.col("_change_type") == "update_postimage").alias("updated"),
        F.count_if(F.col("_change_type") == "delete").alias("deleted"),
    )  # fmt: skip
    first = changed.orderBy("_commit_version").limit(1).collect()
    if first:
        version, updated, deleted = first[0]
        message = f"version {version} of {source.delta} updates {updated} rows and deletes {deleted}"
        raise RowsChanged(message, where=NodePlace("stream", source.name))


def _typed(rows: DataFrame, source: Source) -> DataFrame:
    """Rows of the table with `key`, `value`, `k` and `v`; a key whose columns are all null is a null key."""
    key, value = cast("TableColumns", source.key), cast("TableColumns", source.value)
    nothing = F.lit(True)
    for one in key.fields:
        nothing = nothing & F.col(quoted(one.name)).isNull()
    technical = [name for name in rows.columns if name in ("_change_type", "_commit_version", "_commit_timestamp")]
    typed = rows.select(*technical, F.when(~nothing, key.typed()).alias("k"), value.typed().alias("v"))
    return typed.select(*technical, key.raw(F.col("k")).alias("key"), value.raw(F.col("v")).alias("value"), "k", "v")


def _unless_removed() -> list[Column]:
    """The record of a row; a row that is gone has a null value."""
    stays = ~F.col("removed")
    return [
        F.col("key"),
        F.when(stays, F.col("value")).alias("value"),
        F.col("k"),
        F.when(stays, F.col("v")).alias("v"),
    ]


def _compared_at(source_table: TableVersion, timestamp_ms: int, removed: Column | None = None) -> list[Column]:
    return [
        F.lit(source_table.version).cast("bigint").alias("version"),
        F.lit(_HALF).cast("bigint").alias("half"),
        F.col("removed") if removed is None else removed,
        F.lit(timestamp_ms).cast("bigint").alias("timestamp_ms"),
    ]


def _placed(changes: DataFrame, source: Source) -> DataFrame:
    """Changes as records that are read and have their event time and their offset.

    Within a commit: by event time, so that a stream's records come as little late as can be; then deletions first; then
    by key and value as text. Rows that are equal in all of them are equal.
    """
    timed = changes.withColumn("event_time_ms", event_time_of(source))
    in_order = Window.partitionBy("version").orderBy("event_time_ms", F.desc("removed"), "key", "value")
    place = F.row_number().over(in_order) - F.lit(1)
    too_many = F.raise_error(F.lit(f"version of {source.delta} with more than {_HALF} rows")).cast("bigint")
    offset = F.col("version") * F.lit(ROWS_A_VERSION) + F.col("half")
    return timed.withColumn("place", place.cast("bigint")).select(
        F.lit(source.topic).alias("topic"),
        F.lit(0).alias("partition"),
        F.when(F.col("place") < _HALF, offset + F.col("place")).otherwise(too_many).alias("offset"),
        F.lit(0).alias("attempt"),
        "key",
        "value",
        F.lit(None).cast(HEADERS_TYPE).alias("headers"),
        "timestamp_ms",
        F.lit(_LOG_APPEND_TIME).alias("timestamp_type"),
        "event_time_ms",
        *("k", "v"),
    )


_LOG_APPEND_TIME = 1  # Kafka's word for: the log's time, not the producer's
