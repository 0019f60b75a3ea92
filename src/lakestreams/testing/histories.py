"""Runs histories of records through a topology: one of them, or hundreds in the same jobs.

Each record is a cycle of its own, so that it is processed completely before the next, in the order of arrival. What
the joins keep of the past is taken from step to step; so every further step is an incremental run, as in the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine import dataflow
from lakestreams.engine.dataflow import Inputs, Results, Scopes
from lakestreams.engine.ingest import MALFORMED_KEY, MALFORMED_VALUE, NO_TIMESTAMP
from lakestreams.joins.order import STREAM_SIDE, TABLE_SIDE, records
from lakestreams.joins.stream_table import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Source

_RAW = pa.schema(
    [
        ("cycle", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("attempt", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("stream_time_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Piped:
    """One record.

    Attributes:
        source: the name of the source it goes to.
        key, value: its bytes, or None.
        timestamp_ms: its own timestamp.
        partition: of the topic.
        history: which history it belongs to.
    """

    source: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    partition: int = 0
    history: int = 0


class Histories:
    """The state of a topology over one or many histories, which never meet.

    Args:
        topology: what they go through.
        spark: a session.
        partitions: topic to partition count; 1 where not said.
        many: whether there are several histories.
        times: of windowed joins whose windows differ by history (see `Scopes`).
        olds: whether a table's results say what was there before.
    """

    def __init__(
        self,
        topology: Topology,
        spark: SparkSession,
        *,
        partitions: Mapping[str, int] | None = None,
        many: bool = False,
        times: Mapping[str, Mapping[int, tuple[int, int, int]]] | None = None,
        olds: bool = False,
    ) -> None:
        self._topology = topology
        self._spark = spark
        self._partitions = dict(partitions or {})
        self._stride = max((self._partitions.get(source.topic, 1) for source in topology.sources), default=1)
        self._scopes = Scopes(self._stride, times or {}) if many else None
        self._olds = olds
        self._offsets: dict[tuple[str, int], int] = {}
        self._stream_times: dict[int, int] = {}
        self._retained: dict[str, dict[str, DataFrame]] = {}
        self.piped: list[Piped] = []

    def step(self, pieces: Sequence[Piped], *, keeps: bool = True) -> tuple[Results, list[dataflow.Rejected]]:
        """Processes further records, in this order.

        Args:
            pieces: the records.
            keeps: whether a further step may follow; then what the joins need of the past is kept in memory.

        Returns:
            What comes out, and the records that could not be read. A result's `o.cycle` is 1 + the place of the
            record that caused it in `piped`.
        """
        since = len(self.piped) + 1
        self.piped += pieces
        times = self._times(pieces)
        streams, tables, unreadable = {}, {}, []
        for source in self._topology.sources:
            good, bad = self._rows(source, pieces, since, times)
            unreadable += bad
            if source.kind == "stream":
                streams[source.name] = records(good, source.topic, STREAM_SIDE, F.col("cycle"))
            else:
                rows = records(good, source.topic, TABLE_SIDE, F.col("cycle"))
                tables[source.name] = TableSide(None, rows)
        inputs = Inputs(
            streams, tables, since, partitions=self._partitions, retained=self._retained, keeps=keeps,
            olds=self._olds, scopes=self._scopes,
        )  # fmt: skip
        results = dataflow.run(self._topology, inputs)
        if keeps:
            self._retained = {
                node: {side: self._materialised(frame) for side, frame in sides.items()}
                for node, sides in results.kept.items()
            }
        return results, unreadable

    def _materialised(self, frame: DataFrame) -> DataFrame:
        return self._spark.createDataFrame(frame.toArrow(), frame.schema)

    def _rows(
        self, source: Source, pieces: Sequence[Piped], since: int, times: Sequence[int]
    ) -> tuple[DataFrame, list[dataflow.Rejected]]:
        rows: list[tuple[object, ...]] = []
        for place, piece in enumerate(pieces):
            if piece.source != source.name:
                continue
            partition = piece.history * self._stride + piece.partition
            offset = self._offsets.get((source.name, partition), 0)
            self._offsets[source.name, partition] = offset + 1
            rows.append((since + place, partition, offset, 0, piece.timestamp_ms, times[place], piece.key, piece.value))
        columns: list[tuple[object, ...]] = list(zip(*rows, strict=True)) or [()] * len(_RAW)
        table = pa.table([pa.array(column, field.type) for column, field in zip(columns, _RAW, strict=True)], _RAW)
        return self._parsed(source, self._spark.createDataFrame(table))

    def _times(self, pieces: Sequence[Piped]) -> list[int]:
        """The greatest time of the record's history so far: no task's clock is ever past it."""
        found = []
        for piece in pieces:
            self._stream_times[piece.history] = max(self._stream_times.get(piece.history, 0), piece.timestamp_ms)
            found.append(self._stream_times[piece.history])
        return found

    def _parsed(self, source: Source, raw: DataFrame) -> tuple[DataFrame, list[dataflow.Rejected]]:
        read = raw.select("*", source.key.read(F.col("key")).alias("key_read"),
                          source.value.read(F.col("value")).alias("value_read"))  # fmt: skip
        key = source.key.parse(F.col("key"), F.col("key_read"))
        value = source.value.parse(F.col("value"), F.col("value_read"))
        parsed = read.select("*", key.value.alias("k"), key.error.alias("key_error"), value.value.alias("v"),
                             value.error.alias("value_error"))  # fmt: skip
        types = {one.name: one.type for one in source.value.fields}
        field_type = types.get(source.event_time.field) if source.event_time.field else None
        time = source.event_time.extract(F.col("v"), field_type, F.col("timestamp_ms"))
        if source.kind != "stream":  # a tombstone has no field to take its time from
            own = F.when(F.col("timestamp_ms") >= 0, F.col("timestamp_ms"))
            time = F.when(F.col("value").isNull(), own).otherwise(time)
        reason = (
            F.when(F.col("key_error").isNotNull(), F.lit(MALFORMED_KEY))
            .when(F.col("value_error").isNotNull(), F.lit(MALFORMED_VALUE))
            .when(F.col("event_time_ms").isNull(), F.lit(NO_TIMESTAMP))
        )
        judged = parsed.withColumn("event_time_ms", time).withColumn("reason", reason)
        coordinates = [F.lit(source.topic).alias("source"), *map(F.col, ("partition", "offset", "attempt"))]
        bad = [
            dataflow.Rejected(source.name, code, judged.where(F.col("reason") == code).select(*coordinates))
            for code in (MALFORMED_KEY, MALFORMED_VALUE, NO_TIMESTAMP)
        ]
        return judged.where(F.col("reason").isNull()), bad
