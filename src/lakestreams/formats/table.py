"""The columns of a Delta table as a source's key and value: typed already, kept as JSON text next to that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.formats.json import Json
from lakestreams.formats.json_text import exact_json
from lakestreams.spark import F
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, init=False)
class TableColumns(Json):
    """Columns of a Delta table, by their names and types.

    The engine takes them from the table as they are. Bronze keeps them as a JSON object as well, for quarantine, `why`
    and whoever reads bronze; and in tests a record's bytes are such an object.

    Args:
        schema: Spark DDL of the columns that are read, such as `name string, region string`.
    """

    def __init__(self, schema: str) -> None:
        """Reads the schema once; a table's columns have their own names."""
        super().__init__(schema)

    def typed(self) -> Column:
        """The struct of these columns of a table's row."""
        columns = [F.col(quoted(field.name)).alias(field.name) for field in self.fields]
        return F.struct(*columns)

    @staticmethod
    def raw(typed: Column) -> Column:
        """The JSON text of such a struct as bytes; equal bytes are equal rows. Null where the struct is."""
        return exact_json(typed).cast("binary")

    def describe(self) -> str:
        """The format with its columns."""
        return f"columns({self.columns})"
