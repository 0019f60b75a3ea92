"""One Delta table: the few ways in which the engine reads it, writes to it and creates it."""

from __future__ import annotations

import contextlib
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from lakestreams.engine.runtime.columns import columns_of_shape, difference, same_columns, shape
from lakestreams.engine.runtime.conflicts import again
from lakestreams.errors import InvalidName, LocationNotWritable, TableSchemaMismatch
from lakestreams.sql import NAME_HINT, columns_of, listed, literal, name_fault, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

INDEXED = "delta.dataSkippingNumIndexedCols"
"""Of how many columns, from the first one on, a table keeps the statistics by which files are skipped."""
MARK = "lakestreams "
"""How the text begins that our commits carry (Delta's `userMetadata`)."""
_GONE = "_gone"
_DELETED = "numTargetRowsDeleted"


@dataclass(frozen=True)
class Table:
    """One Delta table.

    Attributes:
        name: as users read it, such as `silver.enriched_page_views`.
        reference: as SQL reads it, quoted.
        path: its folder, or None for a table of a catalog.
    """

    name: str
    reference: str
    path: str | None

    def read(self, spark: SparkSession) -> DataFrame:
        """The table's newest version."""
        return spark.read.format("delta").load(self.path) if self.path else spark.table(self.reference)

    def exists(self, spark: SparkSession) -> bool:
        """Whether the table is there."""
        if self.path is not None:
            # a folder alone may be what a killed CREATE TABLE left behind
            return any((Path(self.path) / "_delta_log").glob("[0-9]*.json"))
        return bool(spark.catalog.tableExists(self.reference))

    def append(self, rows: DataFrame, application: str, version: int) -> bool:
        """Appends in one commit, at most once for each (application, version).

        Every append carries such a transaction: a repeated one is skipped by Delta, and so is one whose commit landed
        although its answer was lost. So one that loses against another writer of the table is simply tried again.

        Returns:
            Whether the first attempt went through. What was observed of the rows then tells whether it was skipped; of a
            later attempt nothing does.
        """
        writer = rows.write.format("delta").mode("append")
        writer = writer.option("txnAppId", application).option("txnVersion", version)
        writer = writer.option("userMetadata", f"{MARK}{application} {version}")
        return _at_first(lambda: self._write(writer))

    def merge(
        self,
        spark: SparkSession,
        rows: DataFrame,
        key: Sequence[str],
        *,
        newer: str,
        gone: str,
        up_to: int | None = None,
    ) -> None:
        """Puts rows in the place of those of their key, in one commit.

        Repeated, it changes nothing: a row is replaced or deleted only by one that is newer.

        Args:
            spark: the session of the rows.
            rows: one a key.
            key: its columns, or SQL paths into them; a null is equal to a null.
            newer: of both sides, the number that must be greater than the table's.
            gone: when a row is a deletion; SQL over the rows.
            up_to: no row of the table has a greater number; reported by the commit (`may_have_deleted`).
        """
        bound = "" if up_to is None else f"t.{newer} <= {up_to}L AND "
        same = " AND ".join(f"t.{path} <=> s.{path}" for path in key)
        columns, values = listed(rows.columns), listed(rows.columns, "s.")
        replaced = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in rows.columns)
        with self._named(spark, rows.withColumn(_GONE, F.expr(gone)), "changes") as view:
            statement = (
                f"MERGE INTO {self.reference} t USING {view} s ON {same} "
                f"WHEN MATCHED AND {bound}t.{newer} < s.{newer} AND s.{_GONE} THEN DELETE "
                f"WHEN MATCHED AND t.{newer} < s.{newer} THEN UPDATE SET {replaced} "
                f"WHEN NOT MATCHED AND NOT s.{_GONE} THEN INSERT ({columns}) VALUES ({values})"
            )
            again(lambda: spark.sql(statement))

    def may_have_deleted(self, spark: SparkSession, newer: str, number: int) -> bool:
        """Whether a merge of this number (its `up_to`) may have deleted rows; numbers ascend from commit to commit.

        Deletions leave no row that tells of them, but the table's history does: Delta keeps the conditions of a merge, and
        how many rows it deleted. What is not reported there counts as yes.
        """
        bound = re.compile(rf"\.{newer.rpartition('.')[2]} <= (\d+)L?\)")
        history = spark.sql(f"DESCRIBE HISTORY {self.reference}")
        for one in history.select("version", "operation", "operationParameters", "operationMetrics").toLocalIterator():
            if one["operation"] == "MERGE":
                match = bound.search((one["operationParameters"] or {}).get("matchedPredicates") or "")
                if match is not None and int(match[1]) < number:
                    return False
                if (one["operationMetrics"] or {}).get(_DELETED) != "0":
                    return True
            if one["version"] == 0:
                return False
        return True

    def seal(self, spark: SparkSession, pipeline: str, epoch: int) -> None:
        """Makes every statement that is on its way to this table fail, and start again if it is tried again.

        A statement looks at the ledger's fence while it runs and commits later. One that has begun before this change of
        the table's properties cannot commit after it (Delta's metadata conflict); one that begins after it finds the
        fence of the epoch that seals.
        """
        self.set_properties(spark, {f"lakestreams.sealed.{pipeline}": str(epoch)})

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Sets table properties, in one commit."""
        assignments = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        again(lambda: spark.sql(f"ALTER TABLE {self.reference} SET TBLPROPERTIES ({assignments})"))

    def overwrite(self, rows: DataFrame, properties: Mapping[str, str] | None = None, *, mark: str = "") -> bool:
        """Replaces the whole content and schema in one commit; for caches.

        Repeated, it leaves the same. So one that loses against another writer of the table is tried again: where a newer
        driver has come meanwhile, the fence in its rows fails then.

        Args:
            rows: the content.
            properties: Delta's table properties, of a table that is not there yet.
            mark: by which the commit is known (`commits.holds`).

        Returns:
            Whether the first attempt went through. Of a later one nothing tells what was observed of the rows.
        """
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer = writer.option("userMetadata", mark) if mark else writer
        writer = writer.options(**(properties or {}))

        def write() -> None:
            if self.path is None and self._has_columns_of(rows):
                # else it is replaced, which its owner alone may do
                rows.writeTo(self.reference).option("userMetadata", mark).overwrite(F.lit(True))
            else:
                self._write(writer)

        return _at_first(write)

    def _has_columns_of(self, rows: DataFrame) -> bool:
        spark = rows.sparkSession
        return self.exists(spark) and shape(self.read(spark).schema) == shape(rows.schema)

    def _write(self, writer: DataFrameWriter) -> None:
        if self.path is not None:
            writer.save(self.path)
        else:
            writer.saveAsTable(self.reference)

    # --- maintenance ----------------------------------------------------------------------------------------------------

    def delete(self, spark: SparkSession, where: str) -> int:
        """Deletes rows in one commit: how many."""
        return int(again(lambda: spark.sql(f"DELETE FROM {self.reference} WHERE {where}").collect())[0][0] or 0)

    def delete_these(self, spark: SparkSession, rows: DataFrame, key: Sequence[str], where: str) -> int:
        """Deletes the rows that have the keys of others, in one commit: how many.

        Args:
            spark: the session of the rows.
            rows: the keys, each once.
            key: their columns, none of them null.
            where: what all of the rows fulfil, over the table as `t`: files without such rows are not read.
        """
        same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key)
        with self._named(spark, rows, "deleted") as view:
            statement = f"MERGE INTO {self.reference} t USING {view} s ON {same} AND ({where}) WHEN MATCHED THEN DELETE"
            return int(again(lambda: spark.sql(statement).collect())[0]["num_deleted_rows"] or 0)

    @contextlib.contextmanager
    def _named(self, spark: SparkSession, rows: DataFrame, what: str) -> Iterator[str]:
        """The name by which a statement finds the rows; afterwards the session has no such name any more.

        Nobody else has it: another driver in the same session would take the rows away, and its fence with them.
        """
        view = f"lakestreams_{re.sub(r'[^A-Za-z0-9]', '_', self.name)}_{what}_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            yield view
        finally:
            spark.catalog.dropTempView(view)

    def optimize(self, spark: SparkSession) -> None:
        """Writes many small files as few large ones; what the table holds stays the same."""
        again(lambda: spark.sql(f"OPTIMIZE {self.reference}").collect())

    def vacuum(self, spark: SparkSession, hours: float | None, *, dry_run: bool = False) -> int | None:
        """Removes files that no version of the last hours has, by default of Delta's retention.

        Returns:
            How many there are, if it is a dry run, which removes none.
        """
        retain = "" if hours is None else f" RETAIN {hours} HOURS"
        statement = f"VACUUM {self.reference}{retain}{' DRY RUN' if dry_run else ''}"
        rows = again(
            lambda: spark.sql(statement).collect()
        )  # Delta writes down that it was made, and a seal may come in between
        return len(rows) if dry_run else None

    def size(self, spark: SparkSession) -> tuple[int, int]:
        """Files and bytes of the newest version."""
        (detail,) = spark.sql(f"DESCRIBE DETAIL {self.reference}").select("numFiles", "sizeInBytes").collect()
        return int(detail[0]), int(detail[1])

    # --- creation --------------------------------------------------------------------------------------------------

    def create(
        self,
        spark: SparkSession,
        schema: StructType,
        *,
        cluster_by: Iterable[str] = (),
        partition_by: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        grows: bool = False,
        lenient: bool = False,
    ) -> bool:
        """Creates the table unless it is there, and makes sure that its columns are the expected ones.

        Args:
            schema: its columns.
            cluster_by, partition_by: how it is laid out.
            properties: Delta's table properties.
            grows: add columns that it lacks; their rows so far have a null there.
            lenient: leave columns alone that it has besides these, such as a newer version's.

        Returns:
            Whether it was not there.

        Raises:
            TableSchemaMismatch: if the table is there with other columns.
            LocationNotWritable: if it cannot be created.
        """
        missing = not self.exists(spark)
        if missing:
            self._require_names(schema)
            columns = columns_of(schema.fields)
            layout = "".join(
                f" {words} ({listed(names)})"
                for words, names in (("CLUSTER BY", tuple(cluster_by)), ("PARTITIONED BY", tuple(partition_by)))
                if names
            )
            assignments = ", ".join(
                f"{literal(key)} = {literal(value)}" for key, value in sorted((properties or {}).items())
            )
            options = f" TBLPROPERTIES ({assignments})" if assignments else ""
            self._make_room()
            spark.sql(f"CREATE TABLE IF NOT EXISTS {self.reference} ({columns}) USING delta{layout}{options}")
        existing = self.read(spark).schema
        if grows:
            existing = self._grown(spark, existing, schema, lenient=lenient)
        if lenient:
            existing = StructType([one for one in existing.fields if one.name in schema.names])
        actual, wanted = shape(existing), shape(schema)
        if actual != wanted and not (grows and same_columns(actual, wanted)):
            message = f"table {self.name} has other columns than the pipeline writes\n{difference(actual, wanted)}"
            raise TableSchemaMismatch(message, where=self.path or self.reference)
        return missing

    def _grown(self, spark: SparkSession, existing: StructType, schema: StructType, *, lenient: bool) -> StructType:
        """The table's columns after those that it lacks were added; nothing is added if anything else differs."""
        have = dict(columns_of_shape(shape(existing)))
        want = dict(columns_of_shape(shape(schema)))
        have = {name: kind for name, kind in have.items() if name in want} if lenient else have
        if not set(have) < set(want) or any(want[name] != kind for name, kind in have.items()):
            return existing
        self._require_names(schema)
        added = columns_of(one for one in schema.fields if one.name not in have)
        spark.sql(f"ALTER TABLE {self.reference} ADD COLUMNS ({added})")
        return self.read(spark).schema

    def _require_names(self, schema: StructType) -> None:
        """Refuses names that a table cannot carry, which `check` does for those of a pipeline."""
        for name in schema.names:
            fault = name_fault(name)
            if fault is not None:
                raise InvalidName(fault, hint=NAME_HINT, where=self.path or self.reference)

    def _make_room(self) -> None:
        if self.path is None:
            return
        try:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            probe = Path(self.path).parent / f".{Path(self.path).name}.probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            message = f"cannot write to {Path(self.path).parent}: {error.strerror or error}"
            raise LocationNotWritable(message) from None


def _at_first(write: Callable[[], None]) -> bool:
    """Writes to a table, until no other writer comes in between: whether the first attempt went through."""
    attempts = 0

    def attempt() -> None:
        nonlocal attempts
        attempts += 1
        write()

    again(attempt)
    return attempts == 1
