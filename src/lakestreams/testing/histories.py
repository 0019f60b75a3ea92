"""Runs histories of records through a topology: one of them, or hundreds in the same jobs.

Each record is a cycle of its own, so that it is processed completely before the next, in the order of arrival. What
the joins keep of the past is taken from step to step; so every further step is an incremental run, as in the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakestreams.engine.ingest.bronze_rows import typed_rows
from lakestreams.engine.ingest.reading import MALFORMED_KEY, MALFORMED_VALUE, NO_TIMESTAMP
from lakestreams.engine.publish.quarantine import NULL_KEY
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import EXPECTATION, Inputs, Rejected, Results
from lakestreams.evaluate.scopes import Scopes
from lakestreams.expectations.rules import any_of, fields_of
from lakestreams.operators.records import ORDER_TYPE, STREAM_SIDE, TABLE_SIDE, records
from lakestreams.operators.versions import TableSide
from lakestreams.sql import quoted
from lakestreams.topology.graph import passes_null_values, refuses_null_values
from lakestreams.topology.partitions import most_partitions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

CLOCK = ""  # no source has this name
_RAW = pa.schema(
    [
        ("cycle", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("attempt", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Piped:
    """One record.

    Attributes:
        source: the name of the source it goes to; `CLOCK`: of none, all clocks move on to `timestamp_ms`.
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
        partitions: topic to partition count; 1 where not said.
        many: whether there are several histories.
        times, retention: what differs by history (see `Scopes`).
        send_old_values: whether a table's results say what was there before.
    """

    def __init__(
        self,
        topology: Topology,
        spark: SparkSession,
        *,
        partitions: Mapping[str, int] | None = None,
        many: bool = False,
        times: Mapping[str, Mapping[int, tuple[int, int, int]]] | None = None,
        retention: Mapping[int, int] | None = None,
        send_old_values: bool = False,
    ) -> None:
        self._topology = topology
        self._spark = spark
        self._partitions = dict(partitions or {})
        counts = [self._partitions.get(source.topic, 1) for source in topology.sources]
        self._stride = max([1, *counts, most_partitions(topology.nodes)])
        self._scopes = Scopes(self._stride, times or {}, retention or {}) if many else None
        self._send_old_values = send_old_values
        self._offsets: dict[tuple[str, int], int] = {}
        self._coordinates: list[tuple[int, int]] = []
        self._places: dict[tuple[str, int, int], int] = {}
        self._last = 0
        self._retained: dict[str, dict[str, DataFrame]] = {}
        self._nulls: dict[str, list[int]] = {}
        self.piped: list[Piped] = []

    def step(self, pieces: Sequence[Piped], *, keeps: bool = True) -> tuple[Results, list[Rejected]]:
        """Processes further records, in this order.

        Args:
            pieces: the records.
            keeps: whether a further step may follow; then what the joins need of the past is kept in memory.

        Returns:
            What comes out, and the records that could not be read. A result's `o.cycle` is 1 + the place of the
            record that caused it in `piped`.
        """
        self._last = len(self.piped)
        since = self._last + 1
        self.piped += pieces
        self._place(pieces)
        streams, tables, unreadable = {}, {}, []
        for source in self._topology.sources:
            judged = self._materialised(self._judged(source))
            self._nulls[source.name] = _null_values(judged) if source.kind == "stream" else []
            unreadable += self._bad(source, judged)
            good = judged.where(F.col("reason").isNull())
            if source.kind == "stream":
                streams[source.name] = records(good, source.topic, STREAM_SIDE, F.col("cycle"))
            else:
                rows = records(good, source.topic, TABLE_SIDE, F.col("cycle"))
                tables[source.name] = TableSide(None, rows)
        inputs = Inputs(
            streams, tables, since, partitions=self._partitions, retained=self._retained, keeps=keeps,
            send_old_values=self._send_old_values, scopes=self._scopes, raw=True, ticks=self._ticks(pieces),
            hold=self._materialised, materialise=self._materialised,
        )  # fmt: skip
        results = walk.run(self._topology, inputs)
        if keeps:
            self._retained = self._remembered(results.kept)
        return results, unreadable

    def place_of(self, topic: str, partition: int, offset: int) -> int:
        """Where in `piped` the record of these coordinates is; of many histories the job's partition is meant."""
        return self._places[topic, partition, offset]

    def null_values(self) -> list[int]:
        """The places of the last step's records that a source refuses for their null value."""
        refuse = [one for one in self._topology.sources if refuses_null_values(one, self._topology.nodes)]
        return [place for source in refuse for place in self._nulls[source.name]]

    def silent_null_values(self) -> frozenset[int]:
        """The places of the last step's null values of which no step tells: the source refuses or ignores them."""
        silent = [one for one in self._topology.sources if not passes_null_values(one, self._topology.nodes)]
        return frozenset(place for source in silent for place in self._nulls[source.name])

    def _remembered(self, kept: Mapping[str, Mapping[str, DataFrame]]) -> dict[str, dict[str, DataFrame]]:
        """What the nodes keep, taken out of its plan, so that the next step's plan is no longer than this one's."""
        # one after the other: they share parts of their plans, and Spark computes some of what is in memory while it plans,
        # where an expression such as `to_json` has one buffer for all threads
        return {
            node: {side: self._materialised(frame) for side, frame in sides.items()} for node, sides in kept.items()
        }

    def _materialised(self, frame: DataFrame) -> DataFrame:
        relaxed = frame.select(*(F.col(quoted(one.name)).cast(_relaxed(one.dataType)) for one in frame.schema.fields))
        return self._spark.createDataFrame(relaxed.toArrow(), relaxed.schema)

    def _ticks(self, pieces: Sequence[Piped]) -> dict[str, DataFrame]:
        """What moves the clocks of every task, of each stream."""
        moved = [(place, piece) for place, piece in enumerate(pieces, self._last) if piece.source == CLOCK]
        if not moved:
            return {}

        def rows(topic: str) -> list[tuple[int, tuple[object, ...]]]:
            return [
                (piece.timestamp_ms, (place + 1, piece.timestamp_ms, STREAM_SIDE, topic,
                                      piece.history * self._stride + partition, place, -1))
                for place, piece in moved
                for partition in range(self._stride)
            ]  # fmt: skip

        streams = [source for source in self._topology.sources if source.kind == "stream"]
        types = f"ts bigint, o {ORDER_TYPE}"
        return {source.name: self._spark.createDataFrame(rows(source.topic), types) for source in streams}

    def _place(self, pieces: Sequence[Piped]) -> None:
        """Gives records their partitions in the job, and offsets."""
        topics = {source.name: source.topic for source in self._topology.sources}
        for place, piece in enumerate(pieces, self._last):
            if piece.source == CLOCK:
                self._coordinates.append((piece.history * self._stride, -1))
                continue
            at = topics[piece.source], piece.history * self._stride + piece.partition
            offset = self._offsets.get(at, 0)
            self._offsets[at] = offset + 1
            self._places[*at, offset] = place
            self._coordinates.append((at[1], offset))

    def _judged(self, source: Source) -> DataFrame:
        """A source's new records, typed, with times and the `reason` why one is refused.

        The old ones are read again for the stream time of their partition, which goes on from them.
        """
        rows: list[tuple[object, ...]] = [
            (place + 1, *self._coordinates[place], 0, piece.timestamp_ms, piece.key, piece.value)
            for place, piece in enumerate(self.piped)
            if piece.source == source.name
        ]
        columns: list[tuple[object, ...]] = list(zip(*rows, strict=True)) or [()] * len(_RAW)
        table = pa.table([pa.array(column, field.type) for column, field in zip(columns, _RAW, strict=True)], _RAW)
        raw = self._spark.createDataFrame(table)
        judged = typed_rows(raw, source).withColumn("reason", self._reason(source))
        in_order = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
        moves = F.when(F.col("reason").isNull() | F.col("reason").isin(NULL_KEY, EXPECTATION), F.col("event_time_ms"))
        timed = judged.withColumn("stream_time_ms", F.coalesce(F.max(moves).over(in_order), F.lit(0)))
        return timed.where(F.col("cycle") > self._last)

    def _codes(self, source: Source) -> dict[str, Column]:
        """Reason code to the condition under which a source refuses a record; the first one that holds counts."""
        found = {
            MALFORMED_KEY: F.col("key_error").isNotNull(),
            MALFORMED_VALUE: F.col("value_error").isNotNull(),
            NO_TIMESTAMP: F.col("event_time_ms").isNull(),
        }
        rules = self._topology.expectations.rules_of(source.name)
        broken = any_of([rule for rule in rules if rule.action != "warn"], fields_of(source))
        if source.kind != "stream":
            found[NULL_KEY] = F.col("k").isNull()
        elif source.keys_not_null in ("drop", "fail"):
            broken = F.col("k").isNull() | broken
        found[EXPECTATION] = broken
        return found

    def _reason(self, source: Source) -> Column:
        return F.coalesce(*(F.when(condition, F.lit(code)) for code, condition in self._codes(source).items()))

    def _bad(self, source: Source, judged: DataFrame) -> list[Rejected]:
        coordinates = [F.lit(source.topic).alias("source"), *map(F.col, ("partition", "offset", "attempt"))]
        return [
            Rejected(source.name, code, judged.where(F.col("reason") == code).select(*coordinates))
            for code in self._codes(source)
        ]


def _null_values(judged: DataFrame) -> list[int]:
    """The places of readable records with a null value."""
    found = judged.where(F.col("reason").isNull() & F.col("v").isNull()).select("cycle").collect()
    return [row["cycle"] - 1 for row in found]


def _relaxed(of: DataType) -> DataType:
    """The type with all fields of structs nullable: Arrow takes a null struct for one whose fields are null."""
    if isinstance(of, StructType):
        return StructType([StructField(one.name, _relaxed(one.dataType), nullable=True) for one in of.fields])
    if isinstance(of, ArrayType):
        return ArrayType(_relaxed(of.elementType), of.containsNull)
    if isinstance(of, MapType):
        return MapType(_relaxed(of.keyType), _relaxed(of.valueType), of.valueContainsNull)
    return of
