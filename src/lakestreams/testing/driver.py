"""TopologyTestDriver: records in, results out, no broker, no tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine import dataflow
from lakestreams.errors import InvalidOption
from lakestreams.joins.order import CONTRIBUTORS, KEY, KIND, ORDER, PLACE, TIME, VALUE
from lakestreams.testing.encode import encode
from lakestreams.testing.histories import Histories, Piped

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Source


@dataclass(frozen=True)
class Result:
    """One record of an output.

    Attributes:
        key: the key's only column, or a dict of its columns; None is a null key.
        value: the value's columns; None is a tombstone.
        timestamp: event time, ms.
        kind: record, matched, unmatched or tombstone.
        cause: which piped record it came out after: 0 is the first one.
        contributors: (source topic, partition, offset) of the records it was made of.
    """

    key: Any
    value: dict[str, Any] | None
    timestamp: int
    kind: str
    cause: int
    contributors: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class Refused:
    """A piped record that some step had no use for: the place it was piped at, the step, the reason code."""

    cause: int
    node: str
    code: str


class TopologyTestDriver:
    """Runs a topology on records that a test pipes in, in exactly that order.

    Each record is processed completely before the next, as Kafka Streams' driver of that name does. Work is done when
    results are read: all records piped since the last reading go through in one batch, and what they give does not
    depend on where the readings are.

    Args:
        topology: any topology, also one that no job runs yet.
        spark: a session.
        partitions: topic to partition count; 1 where not said. Records are piped to a partition by name.

    Raises:
        TopologyInvalid: with every fault that `check` finds.
    """

    def __init__(self, topology: Topology, spark: SparkSession, *, partitions: Mapping[str, int] | None = None) -> None:
        dataflow.require_valid(topology, spark)
        self._sources = {source.name: source for source in topology.sources}
        self._partitions = dict(partitions or {})
        self._outputs = [sink.name for sink in topology.sinks]
        self._histories = Histories(topology, spark, partitions=partitions)
        self._pending: list[Piped] = []
        self._unread: dict[str, list[Result]] = {name: [] for name in self._outputs}
        self._tables: dict[str, dict[Any, dict[str, Any]]] = {name: {} for name in self._outputs}
        self._refused: list[Refused] = []

    def pipe(self, source: str, key: Any, value: Any, timestamp: int, *, partition: int = 0) -> None:
        """One more record.

        Args:
            source: the source's name.
            key, value: what its formats can hold (see `testing.encode`), or bytes as they are.
            timestamp: the record's own timestamp, ms.
            partition: of the source's topic.
        """
        if source not in self._sources:
            msg = f"no source is named {source!r}"
            raise InvalidOption(msg, hint=f"there are: {', '.join(self._sources)}")
        node: Source = self._sources[source]
        if not 0 <= partition < self._partitions.get(node.topic, 1):
            msg = f"{node.topic} has no partition {partition}"
            raise InvalidOption(msg, hint="TopologyTestDriver(..., partitions={topic: count})")
        self._pending.append(Piped(source, encode(key, node.key), encode(value, node.value), timestamp, partition))

    def read(self, output: str | None = None) -> list[Result]:
        """What came out of an output since it was last read, in order.

        Args:
            output: its name; may be left out if there is one only.
        """
        name = self._output(output)
        self._process()
        found, self._unread[name] = self._unread[name], []
        return found

    def table(self, output: str | None = None) -> dict[Any, dict[str, Any]]:
        """The rows of an output that is a table, by key, after everything piped so far."""
        name = self._output(output)
        self._process()
        return dict(self._tables[name])

    def refused(self) -> list[Refused]:
        """The records that some step had no use for, so far: unreadable, late, or with a null where it matters."""
        self._process()
        return sorted(self._refused, key=lambda one: (one.cause, one.node, one.code))

    def _output(self, name: str | None) -> str:
        if name is None and len(self._outputs) == 1:
            return self._outputs[0]
        if name not in self._unread:
            msg = f"no output is named {name!r}"
            raise InvalidOption(msg, hint=f"there are: {', '.join(self._outputs)}")
        return name

    def _process(self) -> None:
        if not self._pending:
            return
        pieces, self._pending = self._pending, []
        results, unreadable = self._histories.step(pieces)
        for name, frame in results.records.items():
            for row in in_order(frame).collect():
                result = to_result(row)
                self._unread[name].append(result)
                if result.value is None:
                    self._tables[name].pop(hashable(result.key), None)
                else:
                    self._tables[name][hashable(result.key)] = result.value
        self._note_refused([*results.rejected, *unreadable])

    def _note_refused(self, rejected: list[dataflow.Rejected]) -> None:
        frames = [
            one.records.select(F.lit(one.node).alias("node"), F.lit(one.code).alias("code"), "*") for one in rejected
        ]
        if not frames:
            return
        places: dict[tuple[str, int, int], int] = {}
        counts: dict[tuple[str, int], int] = {}
        for place, piece in enumerate(self._histories.piped):
            at = (self._sources[piece.source].topic, piece.partition)
            places[*at, counts.setdefault(at, 0)] = place
            counts[at] += 1
        for row in reduce(DataFrame.unionByName, frames).collect():
            cause = places[row["source"], row["partition"], row["offset"]]
            self._refused.append(Refused(cause, row["node"], row["code"]))


def in_order(records: DataFrame) -> DataFrame:
    """An output's records in their order."""
    columns = [F.col(name) for name in (KEY, VALUE, TIME, KIND, CONTRIBUTORS, PLACE)]
    return records.select(*columns, F.col(ORDER)["cycle"].alias("cycle")).orderBy("cycle", PLACE)


def to_result(row: Row) -> Result:
    """A row of `in_order` as a result."""
    return Result(
        key=plain_key(row[KEY]),
        value=None if row[VALUE] is None else row[VALUE].asDict(recursive=True),
        timestamp=row[TIME],
        kind=row[KIND],
        cause=row["cycle"] - 1,
        contributors=tuple((one["source"], one["partition"], one["offset"]) for one in row[CONTRIBUTORS]),
    )


def plain_key(key: Row | None) -> Any:
    """A key's only column, or a dict of them."""
    if key is None:
        return None
    columns = key.asDict(recursive=True)
    return next(iter(columns.values())) if len(columns) == 1 else columns


def hashable(key: Any) -> Any:
    """A key that a dict can hold."""
    return tuple(sorted(key.items())) if isinstance(key, dict) else key
