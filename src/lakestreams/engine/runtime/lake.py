"""Where tables live: catalog names on Databricks, folders on a laptop."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakestreams.engine.runtime import schemas
from lakestreams.engine.runtime.table import Table
from lakestreams.errors import TableNameCollision
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakestreams.topology.topology import Topology


OWNER = "lakestreams.owner"
"""The property that says whose table it is."""

_SMALL = 8 << 20


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
        """Refuses a root that is no folder, what statements cannot name, and one schema for two of them.

        Raises:
            InvalidName, InvalidOption
        """
        schemas.require_folder(self.root)
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
        """The folder of a pipeline's checkpoint generations (a local folder or a mounted volume).

        It is absolute: the JVM keeps the working directory that it started in, and Python may change its own.
        """
        root = Path(self.root).absolute()
        return root / pipeline if self.catalog is not None else root / self.control_schema / "checkpoints" / pipeline

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
