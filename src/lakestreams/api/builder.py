"""StreamsBuilder collects what the user declares; `build()` makes the immutable, checked Topology of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from lakestreams.api.kafka_names import unknown_method
from lakestreams.api.streams import KStream
from lakestreams.api.tables import GlobalKTable, KTable
from lakestreams.errors import InvalidFormat, InvalidName, InvalidOption, TopologyInvalid
from lakestreams.errors.phrases import Option, OptionValue, Phrase
from lakestreams.errors.places import NodePlace
from lakestreams.formats.base import Format
from lakestreams.formats.table import TableColumns
from lakestreams.formats.time import EventTime
from lakestreams.topology import validate
from lakestreams.topology.durations import Duration, to_ms
from lakestreams.topology.endpoints import Source
from lakestreams.topology.expectations import Expectations, Invariant, Rule
from lakestreams.topology.kinds import DAY_MS, DELTA_TOPIC, ExpectationAction, NullValues, SourceKind, TableChanges
from lakestreams.topology.topology import Topology

if TYPE_CHECKING:
    from lakestreams.topology.node import Node

_TEXTS: Final = ("topic", "delta", "bronze", "name")  # options of nodes that are texts


class StreamsBuilder:
    """Collects sources, steps and outputs of one pipeline.

    Args:
        name: the pipeline's name; it names its tables and its place in the ledger.

    Raises:
        InvalidName: if the name is no text.
    """

    def __init__(self, name: str) -> None:
        _require_text("name", name)
        self._name = name
        self._nodes: list[Node] = []
        self._rules: list[Rule] = []
        self._invariants: list[tuple[str, Invariant]] = []

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._name

    if not TYPE_CHECKING:  # type checkers know the methods

        def __getattr__(self, name: str) -> object:
            """Refuses a method that there is not, and says what to write instead."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise unknown_method(self, "a StreamsBuilder", name)

    def stream(
        self,
        topic: str,
        *,
        key: Format | str,
        value: Format | str,
        name: str | None = None,
        event_time: EventTime | str | None = None,
        max_future: Duration = "1 day",
        null_values: NullValues = "quarantine",
        keys_not_null: ExpectationAction = "off",
        delta: str | None = None,
        ignore_changes: bool = False,
        bronze: str | None = None,
    ) -> KStream:
        """A topic, or a Delta table that is appended to, as a stream of records.

        Args:
            topic: the Kafka topic; with `delta` the source's own name.
            key, value: formats of the bytes; with `delta` the table's columns, such as `"id bigint, name string"`.
            name: the source's name; by default the topic.
            event_time: a value column (bigint ms or timestamp) with the record's own timestamp as fallback, or an
                `EventTime`; by default the record's own timestamp.
            max_future: a record dated further past its ingest is quarantined and does not move stream time.
            null_values: `quarantine` (default) or `ignore` records with a null value; they never give a result.
            keys_not_null: expectation on null keys: `off`, `warn`, `drop` (to quarantine) or `fail`.
            delta: a Delta table with a change data feed in place of the topic: `catalog.schema.table`, `schema.table`
                or a path. Its commits' time stands in for the record's own timestamp.
            ignore_changes: of a Delta table, whether updates and deletes are passed over; by default they end the run.
            bronze: what its bronze table is called behind the pipeline's name; by default as the topic, each sign that a
                table cannot have being `_`.
        """
        source = self._source(
            "stream", topic, key, value, name, event_time, max_future, null_values, keys_not_null, delta
        )
        return KStream(self, self.add(replace(source, ignore_changes=ignore_changes, bronze=bronze)))

    def table(
        self,
        topic: str,
        *,
        key: Format | str,
        value: Format | str,
        name: str | None = None,
        event_time: EventTime | str | None = None,
        max_future: Duration = "1 day",
        as_of: bool = False,
        history: Duration | None = None,
        delta: str | None = None,
        changes: TableChanges = "cdf",
        bronze: str | None = None,
    ) -> KTable:
        """A topic as a table: the newest record of a key is its row, a null value deletes it. Or a Delta table as one.

        Args:
            topic: the Kafka topic; with `delta` the source's own name.
            key, value: formats of the bytes; with `delta` the table's columns, such as `"id bigint, name string"`.
            name: the source's name; by default the topic.
            event_time: as for `stream`.
            max_future: as for `stream`.
            as_of: whether the table is versioned, as Kafka's versioned stores are (KIP-889 and KIP-914). Stream
                records then meet the row that was valid at their own time, not the newest one.
            history: of a versioned table, how far back rows are kept; by default 1 day. A row that comes later than
                this is dropped, and a stream record older than this meets the newest row alone.
            delta: a Delta table in place of the topic, as for `stream`; the key's columns are unique in it.
            changes: how a Delta table's changes are found. `cdf` reads its change data feed, commit by commit;
                `snapshot` compares its rows with those that were read before.
            bronze: as for `stream`.

        Raises:
            InvalidOption: if a history is given without `as_of`.
        """
        if history is not None and not as_of:
            msg = Phrase(OptionValue("history", history), " without as_of=True: only a versioned table keeps one")
            where = NodePlace("source", name or topic)
            raise InvalidOption(msg, hint="add as_of=True, or leave history out", where=where)
        source = self._source("table", topic, key, value, name, event_time, max_future, "ignore", "drop", delta)
        source = replace(source, changes=changes, bronze=bronze)
        if as_of:
            source = replace(source, history_ms=DAY_MS if history is None else to_ms(history, "history"))
        return KTable(self, self.add(source))

    def global_table(
        self,
        topic: str,
        *,
        key: Format | str,
        value: Format | str,
        name: str | None = None,
        event_time: EventTime | str | None = None,
        max_future: Duration = "1 day",
        delta: str | None = None,
        changes: TableChanges = "cdf",
        bronze: str | None = None,
    ) -> GlobalKTable:
        """A topic as a table that every task holds whole: streams join it by any key, whatever the partitions.

        It is read to its end before a stream record meets it, and its time plays no part (Kafka's GlobalKTable).
        It cannot be versioned.

        Args:
            topic: the Kafka topic; with `delta` the source's own name.
            key, value: formats of the bytes; with `delta` the table's columns.
            name: the source's name; by default the topic.
            event_time: as for `stream`.
            max_future: as for `stream`.
            delta, changes: as for `table`.
            bronze: as for `stream`.
        """
        source = self._source("global_table", topic, key, value, name, event_time, max_future, "ignore", "drop", delta)
        return GlobalKTable(self, self.add(replace(source, changes=changes, bronze=bronze)))

    def add(self, node: Node) -> Node:
        """Takes a node into the topology; the handles call this.

        Raises:
            InvalidName: if its name, topic or table is no text.
        """
        for option in _TEXTS:
            _require_text(option, getattr(node, option, None), node.where)
        self._nodes.append(node)
        return node

    def expect(self, node: Node, what: Rule | Invariant) -> None:
        """Takes what is expected of a node's rows; the handles call this."""
        if isinstance(what, Rule):
            self._rules.append(what)
        else:
            self._invariants.append((node.name, what))

    def build(self) -> Topology:
        """The topology, immutable.

        Raises:
            TopologyInvalid: with every fault that can be seen without a session. Such faults are unnamed and doubled
                nodes, names that tables cannot carry, options outside their choices, and no output.
        """
        expectations = Expectations(tuple(self._rules), tuple(self._invariants))
        faults = [*validate.structure(self._name, self._nodes), *validate.expected(self._nodes, expectations)]
        if faults:
            raise TopologyInvalid(faults, self._name)
        return Topology(self._name, tuple(self._nodes), expectations)

    @staticmethod
    def _source(
        kind: SourceKind,
        topic: str,
        key: Format | str,
        value: Format | str,
        name: str | None,
        event_time: EventTime | str | None,
        max_future: Duration,
        null_values: NullValues,
        keys_not_null: ExpectationAction,
        delta: str | None,
    ) -> Source:
        where = NodePlace("source", name or topic)
        read_as = _format if delta is None else _columns
        for option, chosen, choices in (
            ("null_values", null_values, get_args(NullValues)),
            ("keys_not_null", keys_not_null, get_args(ExpectationAction)),
        ):
            if chosen not in choices:
                raise InvalidOption.none_of(option, chosen, choices, where)
        time = event_time if isinstance(event_time, EventTime) else EventTime(event_time)
        return Source(
            name=topic if name is None else name,
            topic=topic if delta is None else f"{DELTA_TOPIC}{topic}",
            kind=kind,
            key=read_as("key", key, where),
            value=read_as("value", value, where),
            event_time=time,
            max_future_ms=to_ms(max_future, "max_future"),
            null_values=null_values,
            keys_not_null=keys_not_null,
            delta=delta,
        )


def _require_text(option: str, value: object, where: str | None = None) -> None:
    """Refuses another thing than a text; users without a type checker pass anything. `build()` reports names that lack."""
    if value is not None and not isinstance(value, str):
        hint = "write it as a text; of a path give str(path)"
        raise InvalidName(Phrase(OptionValue(option, value), " is no text"), hint=hint, where=where)


def _format(side: str, value: object, where: str) -> Format:
    """The format of a topic's bytes; users without a type checker pass anything."""
    if not isinstance(value, Format) or isinstance(value, TableColumns | type):
        msg = Phrase(OptionValue(side, value), " is not a format")
        raise InvalidFormat(msg, hint='such as Text("user") or Json("ms int, page string")', where=where)
    return value


def _columns(side: str, value: object, where: str) -> Format:
    """The columns of a Delta table."""
    if isinstance(value, TableColumns):
        return value
    if not isinstance(value, str):
        msg = Phrase(OptionValue(side, value), " is not a list of columns")
        hint = Phrase("a Delta table has typed columns: ", Option(side, "id bigint"))
        raise InvalidFormat(msg, hint=hint, where=where)
    try:
        return TableColumns(value)
    except InvalidFormat as error:
        error.where = error.where or where
        raise
