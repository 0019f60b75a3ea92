"""Histories that share a job are distinguished by a column in front of every key, which nobody else sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lakestreams.evaluate.stateless import names
from lakestreams.operators.records import KEY, ORDER, RIGHT_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.operators.versions import TableSide

SCOPE: Final = "_scope"


@dataclass(frozen=True)
class Scopes:
    """Many small histories of one topology in one job; their records never meet.

    Attributes:
        stride: how many partitions a history has; its number is the partition divided by it.
        times: windowed join to history to (before, after, grace) in ms, where they differ from the node's.
        retention: history to the ms that its versioned tables keep, where they differ from the sources'.
    """

    stride: int
    times: Mapping[str, Mapping[int, tuple[int, int, int]]] = field(default_factory=dict)
    retention: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ScopeKeys:
    """Puts that column into keys, and takes it out; of one history alone it does neither.

    Attributes:
        scopes: the histories; None: there is one.
    """

    scopes: Scopes | None

    def rows(self, rows: DataFrame, *further: str) -> DataFrame:
        """Rows whose key, and further columns that are keys, have it."""
        for column in (KEY, *further):
            rows = self.column(rows, column)
        return rows

    def table(self, table: TableSide) -> TableSide:
        """The same of a table."""
        return table.each(self.rows)

    def column(self, rows: DataFrame, column: str) -> DataFrame:
        """The same of one column."""
        if self.scopes is None or SCOPE in names(rows, column):
            return rows
        scope = F.floor(F.col(ORDER)["partition"] / self.scopes.stride).cast("int").alias(SCOPE)
        inner = F.struct(scope, *(F.col(column)[name].alias(name) for name in names(rows, column)))
        return rows.withColumn(column, F.when(F.col(column).isNotNull(), inner))

    def undone(self, rows: DataFrame) -> DataFrame:
        """Rows whose keys do not have it."""
        if self.scopes is None:
            return rows
        for column in (KEY, RIGHT_KEY):
            if column in rows.columns and SCOPE in names(rows, column):
                inner = F.struct(*(F.col(column)[name].alias(name) for name in names(rows, column) if name != SCOPE))
                rows = rows.withColumn(column, F.when(F.col(column).isNotNull(), inner))
        return rows


def types(rows: DataFrame, column: str) -> list[str]:
    """The SQL types of a key's columns."""
    fields = rows.schema[column].dataType.fields  # type: ignore[attr-defined]
    return [one.dataType.simpleString() for one in fields if one.name != SCOPE]


def own_key_names(rows: DataFrame) -> list[str]:
    """The names of a key's columns, but for what keeps histories apart."""
    return [name for name in names(rows, KEY) if name != SCOPE]
