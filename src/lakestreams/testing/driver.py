"""TopologyTestDriver: records in, results out, no broker, no tables."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakestreams.engine.runtime.tuning import Tuning
from lakestreams.errors import InvalidOption, TopologyInvalid, WrongKind
from lakestreams.evaluate import walk
from lakestreams.operators.workers import coded_errors
from lakestreams.testing.encode import encode
from lakestreams.testing.histories import CLOCK, Histories, Piped
from lakestreams.testing.results import Refused, Result, outputs, refused, to_result
from lakestreams.topology.partitions import co_partitioning
from lakestreams.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.endpoints import Source


class TopologyTestDriver:
    """Runs a topology on records that a test pipes in, in exactly that order.

    Each record is processed completely before the next, as Kafka Streams' driver of that name does. Work is done when
    results are read: all records piped since the last reading go through in one batch. When you read does not change
    the results. What only a run can judge is not judged: `max_future` (there is no time of ingest) and
    `max_bad_share`. A null key that `keys_not_null="fail"` would stop the run for is refused, as with `drop`.

    Args:
        topology: any topology.
        partitions: topic to partition count; 1 where not said. Records are piped to a partition by name.

    Raises:
        TopologyInvalid: with every fault that `check` finds, unequal partition counts among them.
        InvalidOption: if `partitions` names a topic that no source reads.
    """

    def __init__(self, topology: Topology, spark: SparkSession, *, partitions: Mapping[str, int] | None = None) -> None:
        given: object = topology  # users without a type checker pass anything
        if not isinstance(given, Topology):
            hint = (
                "a StreamsBuilder gives its topology by build(), lakestreams.config.load_pipeline(...) has one of files"
            )
            raise InvalidOption(f"the driver takes a Topology, not {given!r}", hint=hint)
        self._tuning = Tuning(spark)
        with self._tuning.utc():
            require_sound(topology, spark, partitions or {})
        self._sources = {source.name: source for source in topology.sources}
        self._sinks = {sink.name: sink for sink in topology.outputs}
        self._partitions = dict(partitions or {})
        self._histories = Histories(topology, spark, partitions=partitions)
        self._pending: list[Piped] = []
        self._unread: dict[str, list[Result]] = {name: [] for name in self._sinks}
        self._tables: dict[str, dict[Any, dict[str, Any]]] = {name: {} for name in self._sinks}
        self._refused: list[Refused] = []

    def pipe(self, source: str, key: Any, value: Any, timestamp: int, *, partition: int = 0) -> None:
        """Adds a record.

        Args:
            source: the source's name.
            key, value: what its formats can hold (text, an int, a dict for JSON), or bytes as they are.
            timestamp: the record's own timestamp, ms.
            partition: of the source's topic.

        Raises:
            InvalidOption: if there is no such source or partition, or the format cannot hold the key or value.
        """
        if source not in self._sources:
            raise InvalidOption(*unknown("source", source, self._sources))
        node: Source = self._sources[source]
        for option, number in (("timestamp", timestamp), ("partition", partition)):
            if not hasattr(number, "__index__"):
                raise InvalidOption(
                    f"{option}={number!r} is no whole number", hint="timestamps are milliseconds since 1970"
                )
        if not 0 <= partition < self._partitions.get(node.topic, 1):
            msg = f"{node.topic} has no partition {partition}"
            raise InvalidOption(msg, hint="TopologyTestDriver(..., partitions={topic: count})")
        self._pending.append(Piped(source, encode(key, node.key), encode(value, node.value), timestamp, partition))

    def advance(self, timestamp: int) -> None:
        """Moves time to this point without a record, as `idle_timeout` does, so that waiting rows come out.

        Args:
            timestamp: to which every task's clock moves, ms. A clock that is further stays where it is. Behind a step
                that waits, it moves by as much less. What comes out has this call's place as its `cause`.
        """
        self._pending.append(Piped(CLOCK, None, None, timestamp))

    def read(self, output: str | None = None) -> list[Result]:
        """The results of an output since it was last read, in order.

        Args:
            output: its name; may be left out if there is one only.

        Raises:
            InvalidOption: if there is no such output, or none is named and there are several.
        """
        name = self._output(output)
        self._process()
        found, self._unread[name] = self._unread[name], []
        return found

    def table(self, output: str | None = None) -> dict[Any, dict[str, Any]]:
        """The rows of an output that is a table, by key, after everything piped so far.

        A key of several columns is a tuple of (name, value) pairs, sorted by name.

        Raises:
            InvalidOption: as for `read`.
            WrongKind: if the output is a stream, which has no rows that replace each other.
        """
        name = self._output(output)
        if not self._sinks[name].is_table:
            msg = f"the output {name} is a stream"
            raise WrongKind(msg, hint="read() gives its records")
        self._process()
        return dict(self._tables[name])

    def refused(self) -> list[Refused]:
        """The records that some step has refused so far: unreadable, late, or with a null that it cannot use."""
        self._process()
        return sorted(self._refused, key=lambda one: (one.cause, one.node, one.code))

    def _output(self, name: str | None) -> str:
        if name is None and len(self._sinks) == 1:
            return next(iter(self._sinks))
        if name is None:
            msg = "there are several outputs"
            raise InvalidOption(msg, hint=f"name one of them: {', '.join(self._sinks)}")
        if name not in self._sinks:
            raise InvalidOption(*unknown("output", name, self._sinks))
        return name

    def _process(self) -> None:
        if not self._pending:
            return
        pieces, self._pending = self._pending, []
        with self._tuning.utc(), coded_errors():
            self._step(pieces)

    def _step(self, pieces: list[Piped]) -> None:
        results, unreadable = self._histories.step(pieces)
        for name, frame in outputs(results, self._sinks.values()).items():
            for row in frame.orderBy("cycle", "n").collect():
                result = to_result(row)
                self._unread[name].append(result)
                if result.value is None:
                    self._tables[name].pop(hashable(result.key), None)
                else:
                    self._tables[name][hashable(result.key)] = result.value
        self._refused += refused(self._histories, [*results.rejected, *unreadable])


def require_sound(topology: Topology, spark: SparkSession, partitions: Mapping[str, int]) -> None:
    """Checks a topology as `check` does.

    Args:
        partitions: topic to partition count; 1 where not said.

    Raises:
        TopologyInvalid: with every fault.
        InvalidOption: if `partitions` names a topic that no source reads.
    """
    topics = [source.topic for source in topology.sources]
    for topic in partitions:
        if topic not in topics:
            raise InvalidOption(*unknown("topic", topic, topics))
    _, faults = walk.check(topology, spark)
    faults += co_partitioning(topology.nodes, {topic: partitions.get(topic, 1) for topic in topics})[0]
    if faults:
        raise TopologyInvalid(faults, topology.name)


def unknown(what: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """The message and the hint for a name that is not there."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no {what} is named {name!r}", f"{hint}there are: {', '.join(known)}"


def hashable(key: Any) -> Any:
    """A key that a dict can hold: of several columns, their (name, value) pairs."""
    if isinstance(key, dict):
        return tuple(sorted((name, hashable(value)) for name, value in key.items()))
    return tuple(map(hashable, key)) if isinstance(key, list) else key
