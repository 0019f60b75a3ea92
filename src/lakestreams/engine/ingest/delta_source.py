"""Delta tables as sources: where they stand, how their commits count as offsets, and what keeps them from being read.

A Delta table has one partition. A record's offset is its commit's version times `ROWS_A_VERSION`, and its place in a total
order of the commit's rows: read again, a commit gives the same records. The lower half of a version's places are for its
change data feed, the upper half for what a comparison of the whole table with bronze finds at that version, so that
whoever has compared reads nothing of that commit's feed (docs/decisions/0014-delta-sources.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.errors import (
    ChangeFeedOff,
    DeltaTableMissing,
    InvalidFormat,
    LakestreamsError,
    UnknownColumn,
)
from lakestreams.errors.places import NodePlace
from lakestreams.kafka.noted import TopicPartition
from lakestreams.sql import quoted
from lakestreams.topology.kinds import DELTA_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.table import Table
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.topology.endpoints import Source

ROWS_A_VERSION = 2**32
_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class TableVersion:
    """The table of a Delta source as it is at one moment.

    Attributes:
        source: the source.
        table: its table.
        version: the newest commit.
        committed_ms: when that was written.
        table_id: Delta's id of the table; another one is another table under the same name.
    """

    source: Source
    table: Table
    version: int
    committed_ms: int
    table_id: str

    @property
    def at(self) -> TopicPartition:
        """The one partition."""
        return (self.source.topic, 0)

    @property
    def end(self) -> int:
        """The offset that says that everything up to the newest commit was read."""
        return (self.version + 1) * ROWS_A_VERSION


def is_delta(topic: str) -> bool:
    """Whether a topic, as ledger and bronze name it, stands for a Delta table."""
    return topic.startswith(DELTA_TOPIC)


def versions(offset: int) -> int:
    """How many commits, the first being version 0, lie below an offset."""
    return offset // ROWS_A_VERSION


class _Look(NamedTuple):
    """A table as it is now."""

    table: Table
    version: int
    committed_ms: int
    table_id: str
    columns: StructType
    is_fed: bool  # its change data feed is on


def examine(
    spark: SparkSession, lake: Lake, sources: Sequence[Source]
) -> tuple[tuple[TableVersion, ...], list[LakestreamsError]]:
    """The tables of the Delta sources among these, and what keeps them from being read as they are declared.

    Each table is looked at once, and several at a time.
    """
    read = [(source, source.delta) for source in sources if source.delta is not None]
    names = list(dict.fromkeys(name for _, name in read))
    looks = dict(
        zip(names, in_parallel(spark, [partial(_looked_up, spark, lake, name) for name in names]), strict=True)
    )
    found: list[TableVersion] = []
    faults: list[LakestreamsError] = []
    for source, name in read:
        look, own = looks[name], list[LakestreamsError]()
        if isinstance(look, str):
            own.append(DeltaTableMissing(look))
        else:
            own += _column_faults(spark, source, look.columns)
            if source.changes == "cdf" and not look.is_fed:
                own.append(_feed_off(source))
            found.append(TableVersion(source, look.table, look.version, look.committed_ms, look.table_id))
        for fault in own:
            fault.where = NodePlace(source.word, source.name)
        faults.extend(own)
    return tuple(found), faults


def _looked_up(spark: SparkSession, lake: Lake, name: str) -> _Look | str:
    """A table as it is now, or why it cannot be read."""
    try:
        table = lake.source(spark, name)
        detail = spark.sql(f"DESCRIBE DETAIL {table.reference}").select("id", "format", "properties").collect()[0]
        if detail["format"] != "delta":
            return f"{name} is no Delta table but {detail['format']}"
        newest = spark.sql(f"DESCRIBE HISTORY {table.reference} LIMIT 1")
        commit = newest.select("version", F.unix_millis("timestamp").alias("committed_ms")).collect()[0]
        columns = table.read(spark).schema
    except LakestreamsError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever Spark, Delta or a catalog says of it
        return f"Delta table {name} cannot be read: {str(error).splitlines()[0]}"
    is_fed = str((detail["properties"] or {}).get(_FEED)).lower() == "true"
    return _Look(table, commit["version"], commit["committed_ms"], detail["id"], columns, is_fed)


def _column_faults(spark: SparkSession, source: Source, columns: StructType) -> list[LakestreamsError]:
    """Columns that the table lacks or has of another type. Types are compared as Spark writes them."""
    there = {one.name.lower(): one.dataType.simpleString() for one in columns.fields}
    read = list(dict.fromkeys((*source.key.fields, *source.value.fields)))
    declared = spark.createDataFrame([], ", ".join(f"{quoted(one.name)} {one.type}" for one in read)).schema.fields
    faults: list[LakestreamsError] = []
    for one in declared:
        has, wanted = there.get(one.name.lower()), one.dataType.simpleString()
        if has is None:
            near = difflib.get_close_matches(one.name, there, n=1)
            hint = f"{f'did you mean {near[0]!r}? ' if near else ''}{source.delta} has: {', '.join(there)}"
            faults.append(UnknownColumn(f"{source.delta} has no column {one.name!r}", hint=hint))
        elif has != wanted:
            message = f"column {one.name!r} of {source.delta} is {has}, declared is {wanted}"
            faults.append(InvalidFormat(message, hint=f"declare it as the table has it: {one.name} {has}"))
    return faults


def _feed_off(source: Source) -> ChangeFeedOff:
    snapshot = "" if source.kind == "stream" else ", or read it with changes: snapshot"
    turn_on = f"ALTER TABLE {source.delta} SET TBLPROPERTIES ({_FEED} = true){snapshot}"
    return ChangeFeedOff(f"Delta table {source.delta} keeps no change data feed", hint=turn_on)


def with_tables(view: ClusterView, tables: Sequence[TableVersion]) -> ClusterView:
    """The cluster's topics with the Delta tables next to them.

    A table that is compared has no id here: what was read of another table under its name is simply compared with it.
    """
    ids = {one.source.topic: one.table_id for one in tables if one.source.changes == "cdf"}
    return replace(view, ends={**view.ends, **{one.at: one.end for one in tables}}, topic_ids={**view.topic_ids, **ids})


def pending(tables: Sequence[TableVersion], positions: Mapping[TopicPartition, int]) -> list[TableVersion]:
    """The tables with commits after these positions."""
    return [one for one in tables if positions.get(one.at, 0) < one.end]
