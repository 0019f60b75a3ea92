"""Where tables live: catalog names on Databricks, folders on a laptop; and the few ways the engine writes to them."""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lakestreams.engine.runtime import schemas
from lakestreams.errors import InvalidName, LocationNotWritable, TableNameCollision, TableSchemaMismatch
from lakestreams.sql import NAME_HINT, columns_of, listed, literal, name_fault, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.topology import Topology

INDEXED = "delta.dataSkippingNumIndexedCols"
"""Of how many columns, from the first one on, a table keeps the statistics by which files are skipped."""

MARK = "lakestreams "
"""How the text begins that our commits carry (Delta's `userMetadata`)."""
OWNER = "lakestreams.owner"
"""The property that says whose table it is."""

_GONE = "_gone"
_SMALL = 8 << 20
# How Delta says that another statement has committed to the table in between.
_CONFLICT = re.compile(
    r"DELTA_CONCURRENT_|Concurrent(?:Append|DeleteRead|DeleteDelete|Transaction|Write)Exception|"
    r"DELTA_METADATA_CHANGED|MetadataChangedException"  # as a seal does
)
_DELETED = "numTargetRowsDeleted"
_ATTEMPTS, _PAUSE_S, _LONGEST_PAUSE_S = 12, 0.05, 2.0

_T = TypeVar("_T")


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
        attempts = 0

        def write() -> None:
            nonlocal attempts
            attempts += 1
            if self.path is not None:
                writer.save(self.path)
            else:
                writer.saveAsTable(self.reference)

        again(write)
        return attempts == 1

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
            up_to: no row of the table has a greater number; told by the commit (`may_have_deleted`).
        """
        told = "" if up_to is None else f"t.{newer} <= {up_to}L AND "
        same = " AND ".join(f"t.{path} <=> s.{path}" for path in key)
        columns, values = listed(rows.columns), listed(rows.columns, "s.")
        replaced = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in rows.columns)
        with self._named(spark, rows.withColumn(_GONE, F.expr(gone)), "changes") as view:
            statement = (
                f"MERGE INTO {self.reference} t USING {view} s ON {same} "
                f"WHEN MATCHED AND {told}t.{newer} < s.{newer} AND s.{_GONE} THEN DELETE "
                f"WHEN MATCHED AND t.{newer} < s.{newer} THEN UPDATE SET {replaced} "
                f"WHEN NOT MATCHED AND NOT s.{_GONE} THEN INSERT ({columns}) VALUES ({values})"
            )
            again(lambda: spark.sql(statement))

    def may_have_deleted(self, spark: SparkSession, newer: str, number: int) -> bool:
        """Whether a merge of this number (its `up_to`) may have deleted rows; numbers ascend from commit to commit.

        Deletions leave no row that tells of them, but the table's history does: Delta keeps the conditions of a merge, and
        how many rows it deleted. What is not told there counts as yes.
        """
        number_told = re.compile(rf"\.{newer.rpartition('.')[2]} <= (\d+)L?\)")
        history = spark.sql(f"DESCRIBE HISTORY {self.reference}")
        for one in history.select("version", "operation", "operationParameters", "operationMetrics").toLocalIterator():
            if one["operation"] == "MERGE":
                found = number_told.search((one["operationParameters"] or {}).get("matchedPredicates") or "")
                if found is not None and int(found[1]) < number:
                    return False
                if (one["operationMetrics"] or {}).get(_DELETED) != "0":
                    return True
            if one["version"] == 0:
                return False
        return True

    def seal(self, spark: SparkSession, pipeline: str, epoch: int) -> None:
        """Makes every statement that is on its way to this table fail, and begin anew if it is tried again.

        A statement looks at the ledger's fence while it runs and commits later. One that has begun before this change of
        the table's properties cannot commit after it (Delta's metadata conflict); one that begins after it finds the
        fence of the epoch that seals.
        """
        self.set_properties(spark, {f"lakestreams.sealed.{pipeline}": str(epoch)})

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Sets table properties, in one commit."""
        told = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        again(lambda: spark.sql(f"ALTER TABLE {self.reference} SET TBLPROPERTIES ({told})"))

    def overwrite(self, rows: DataFrame, properties: Mapping[str, str] | None = None, *, mark: str = "") -> None:
        """Replaces the whole content and schema in one commit; for caches.

        Args:
            rows: the content.
            properties: Delta's table properties, of a table that is not there yet.
            mark: by which the commit is known (`commits.holds`).
        """
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer = writer.option("userMetadata", mark) if mark else writer
        writer = writer.options(**(properties or {}))
        if self.path is not None:
            writer.save(self.path)
        else:
            writer.saveAsTable(self.reference)

    # --- upkeep ----------------------------------------------------------------------------------------------------

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
        found = spark.sql(f"VACUUM {self.reference}{retain}{' DRY RUN' if dry_run else ''}").collect()
        return len(found) if dry_run else None

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
            lenient: leave columns alone that it has beside these, such as a newer version's.

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
            given = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in sorted((properties or {}).items()))
            options = f" TBLPROPERTIES ({given})" if given else ""
            self._make_room()
            spark.sql(f"CREATE TABLE IF NOT EXISTS {self.reference} ({columns}) USING delta{layout}{options}")
        there = self.read(spark).schema
        if grows:
            there = self._grown(spark, there, schema, lenient=lenient)
        if lenient:
            there = StructType([one for one in there.fields if one.name in schema.names])
        found, wanted = _shape(there), _shape(schema)
        if found != wanted and not (grows and _same_columns(found, wanted)):
            message = f"table {self.name} has other columns than the pipeline writes\n{_difference(found, wanted)}"
            raise TableSchemaMismatch(message, where=self.path or self.reference)
        return missing

    def _grown(self, spark: SparkSession, there: StructType, schema: StructType, *, lenient: bool) -> StructType:
        """The table's columns after those that it lacks were added; nothing is added if anything else differs."""
        have = dict(_columns(_shape(there)))
        want = dict(_columns(_shape(schema)))
        have = {name: kind for name, kind in have.items() if name in want} if lenient else have
        if not set(have) < set(want) or any(want[name] != kind for name, kind in have.items()):
            return there
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


@dataclass(frozen=True)
class Lake:
    """The place of all tables of a deployment: a folder (`root`) or a Unity Catalog catalog.

    Attributes:
        root: the folder for tables; with a catalog, the volume folder for checkpoints alone.
        catalog: the catalog, or None for folders.
        bronze_schema: the schema (or folder) of bronze tables.
        silver_schema: the schema of outputs that name none or `silver`.
        control_schema: the schema of lakestreams' own tables.
        named: pipeline, topic and the name that the pipeline gives to its table, of sources that name theirs.
    """

    root: str
    catalog: str | None = None
    bronze_schema: str = schemas.BRONZE
    silver_schema: str = schemas.SILVER
    control_schema: str = schemas.CONTROL
    named: frozenset[tuple[str, str, str]] = frozenset()

    def __post_init__(self) -> None:
        """Refuses a catalog and schemas that statements cannot name, and one schema for two of them.

        Raises:
            InvalidName, InvalidOption
        """
        if self.catalog is not None:
            schemas.require_catalog(self.catalog)
        schemas.require_usable(
            {"bronze": self.bronze_schema, "silver": self.silver_schema, "control": self.control_schema}
        )

    def is_small(self) -> bool:
        """Whether this is a local folder whose files have 8 MiB at most, all together.

        Worked on as a few rows are (`tuning`), such a lake answers sooner: nothing is compiled for it. What cannot be
        looked at, or is linked from elsewhere, may be large.
        """
        if self.catalog is not None or not Path(self.root).is_dir():
            return False
        left = _SMALL
        try:
            for folder, folders, names in os.walk(self.root):
                if any(Path(folder, name).is_symlink() for name in folders):
                    return False
                left -= sum(Path(folder, name).stat().st_size for name in names)
                if left < 0:
                    return False
        except OSError:  # a job that runs meanwhile removes what it no longer needs: it is not that small then
            return False
        return True

    def control(self, name: str) -> Table:
        """One of lakestreams' own tables, shared by the pipelines of the lake."""
        return self._table(self.control_schema, name)

    def bronze(self, pipeline: str, topic: str) -> Table:
        """The bronze table of a pipeline's topic."""
        return self._table(self.bronze_schema, f"{pipeline}__{self._stem(pipeline, topic)}")

    def snapshot(self, pipeline: str, topic: str) -> Table:
        """The snapshot of a table source."""
        return self._table(self.control_schema, f"snapshot_{pipeline}__{self._stem(pipeline, topic)}")

    def naming(self, *topologies: Topology) -> Lake:
        """The same lake, with the names that these pipelines give to their sources' tables."""
        named = {
            (topology.name, source.topic, source.bronze)
            for topology in topologies
            for source in topology.sources
            if source.bronze is not None
        }
        return replace(self, named=self.named | named)

    def _stem(self, pipeline: str, topic: str) -> str:
        """What a topic's tables are called behind the pipeline's name."""
        return next((name for own, of, name in self.named if (own, of) == (pipeline, topic)), plain(topic))

    def state(self, pipeline: str, name: str) -> Table:
        """One frame of what a pipeline's nodes keep of the past."""
        return self._table(self.control_schema, f"state_{pipeline}__{name}")

    def output(self, name: str) -> Table:
        """An output by its declared name: `table`, `schema.table` or `catalog.schema.table`.

        Pipelines say `silver` whatever its schema is called here; a name of three parts is taken as it stands.

        Raises:
            TableNameCollision: if it lies among lakestreams' own tables.
        """
        schema = name.rpartition(".")[0].lower()
        own = self.control_schema.lower()
        if schema in (own, f"{self.catalog}.{own}".lower()):
            message = f"output {name} would be written among lakestreams' own tables, in {self.control_schema}"
            raise TableNameCollision(message, hint="write it to another schema")
        return self._declared(name)

    def _declared(self, name: str) -> Table:
        """A table by a declared name, whosever it is."""
        *catalog, schema, table = name.split(".") if "." in name else (schemas.SILVER, name)
        if not catalog and schema == schemas.SILVER:
            schema = self.silver_schema
        return self._table(schema, table, catalog[0] if catalog else None)

    def source(self, spark: SparkSession, delta: str) -> Table:
        """A Delta table that a pipeline reads: by its path, or by the name that it would have as an output of this lake.

        Without a catalog a name is that of a folder; one of three parts is a catalog's table if there is no such folder.
        """
        if "/" in delta:
            path = delta if ":" in delta else _folder(Path(delta))
            return Table(delta, f"delta.{quoted(path)}", path)
        table = self._declared(delta)
        if self.catalog is None and delta.count(".") > 1 and not table.exists(spark):
            return Table(delta, quoted(*delta.split(".")), None)
        return replace(table, name=delta)

    def checkpoints(self, pipeline: str) -> Path:
        """The folder of a pipeline's checkpoint generations (a local folder or a mounted volume)."""
        if self.catalog is not None:
            return Path(self.root) / pipeline
        return Path(self.root) / self.control_schema / "checkpoints" / pipeline

    def _table(self, schema: str, name: str, catalog: str | None = None) -> Table:
        shown = f"{schema}.{name}"
        if self.catalog is None:
            folders = [part for part in (catalog, schema, name) if part]
            path = _folder(Path(self.root, *folders))
            return Table(shown, f"delta.{quoted(path)}", path)
        return Table(shown, quoted(catalog or self.catalog, schema, name), None)


def _folder(path: Path) -> str:
    """A table's folder; where it is a link, as of one that was moved to another disk, the folder that it leads to.

    Local sessions' file system lists a link as itself and nothing below it, for ever to whoever descends.
    """
    return str(path.resolve() if path.is_symlink() else path.absolute())


def require_distinct(tables: Iterable[tuple[str, Table]]) -> None:
    """Refuses two things that would be written to one table.

    Args:
        tables: what it is for, and the table.

    Raises:
        TableNameCollision: naming both.
    """
    taken: dict[str, str] = {}
    for what, table in tables:
        place = table.reference.lower()  # catalogs do not tell capitals apart
        if place in taken:
            message = f"{taken[place]} and {what} would both be written to {table.name}"
            raise TableNameCollision(message)
        taken[place] = what


def owned_by(pipeline: str, what: str) -> str:
    """What the owner of a table is called."""
    return f"pipeline {pipeline}, {what}"


def plain(topic: str) -> str:
    """A topic's name as part of a table's name."""
    return re.sub(r"[^A-Za-z0-9_]", "_", topic)


def again(statement: Callable[[], _T]) -> _T:
    """Runs a statement, and runs it again if another one has committed to its table in between.

    Delta lets one of two such statements fail even where they do not touch each other's rows: on a laptop a statement
    that reads the table that it writes to fails beside any append. For statements that may be repeated.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return statement()
        except Exception as error:
            if attempt == _ATTEMPTS - 1 or not _CONFLICT.search(str(error)):
                raise
            time.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**attempt))
    msg = "unreachable: the last attempt returns or raises"
    raise AssertionError(msg)


def lost_to_others(error: Exception) -> bool:
    """Whether a statement has failed because others went on committing to its table."""
    return bool(_CONFLICT.search(str(error)))


def _shape(kind: DataType) -> object:
    """A type without nullability, which tables relax; struct columns with their order."""
    if isinstance(kind, StructType):
        return tuple((field.name, _shape(field.dataType)) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return ("array", _shape(kind.elementType))
    if isinstance(kind, MapType):
        return ("map", _shape(kind.keyType), _shape(kind.valueType))
    return kind.simpleString()


def _columns(shape: object) -> tuple[tuple[str, object], ...]:
    return shape if isinstance(shape, tuple) else ()


def _same_columns(found: object, wanted: object) -> bool:
    """Whether both have the same columns, in whatever order; writers go by name."""
    return sorted(map(repr, _columns(found))) == sorted(map(repr, _columns(wanted)))


def _difference(found: object, wanted: object) -> str:
    have = dict(found) if isinstance(found, tuple) else {}
    want = dict(wanted) if isinstance(wanted, tuple) else {}
    lines = [f"  - {name}: {have[name]} (the pipeline does not write it)" for name in have if name not in want]
    lines += [f"  + {name}: {want[name]} (the table lacks it)" for name in want if name not in have]
    lines += [
        f"  ~ {name}: {have[name]} in the table, {want[name]} in the pipeline"
        for name in want
        if name in have and have[name] != want[name]
    ]
    return "\n".join(lines) or "  the order of the columns differs"
