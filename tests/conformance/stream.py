"""The executor on the real engine: broker, bronze, ledger, cycles, stored state, Delta outputs.

Several kinds share a pipeline, each with topics, steps and an output of its own: a run costs little more for a dozen
than for one. Each case has partitions of its own, and a column in front of every key keeps them apart, as in the other
executors. A case is cut only where its order of arrival is not the engine's order of records; each piece is a run.
Results are read from the outputs' tables, their order from `_lineage`.
"""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.conformance.batch import _COLUMNS, _bytes, small_session
from tests.conformance.cases import Case, Input, Row, Rules
from tests.conformance.executors import Executor, Outcome
from tests.conformance.topologies import OUTPUT, Kind, build, decode, joined_value, kind_of, windows_of
from tests.engine.streaming import Piped, pieces, together

from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Inputs, Results
from lakestreams.evaluate.scopes import Scopes
from lakestreams.topology.endpoints import DeltaSink
from lakestreams.topology.graph import only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams import Topology
    from lakestreams.local.broker import Broker

LATER_MS = 3_600_000
ENDS_AT_ZERO = {"g101-104-stream-stream-left", "g101-391-stream-stream-outer"}
"""What comes out otherwise when it is dated later; a test looks for them among all."""
_AT_ONCE = 12  # kinds in a pipeline: more cost more broker partitions than they spare runs
_numbers = itertools.count(1)


def left_out(case: Case) -> str | None:
    """Why a case that can be run is not run here; None if it is."""
    if case.id in ENDS_AT_ZERO:
        return "its window would end before time 0, and ends there"
    if case.compares_old:
        return "it compares the value before, which tables do not hold"
    if case.fails:
        return "it stops the run, which other cases share"
    return None


def _later(case: Case) -> int:
    """How much later its records are than it says: the producer takes a time of 0 for none.

    Nothing follows from that, but of a window that lies wholly before its record: one that would end before time 0 ends
    there in Kafka Streams, and so here, and finds the records of that time.
    """
    return LATER_MS if any(one.ts == 0 for one in case.inputs) else 0


def takes(case: Case) -> bool:
    """Whether a case can be run here."""
    return case.not_claimed is None and case.fault is None and left_out(case) is None


def topology_of(kind: Kind) -> Topology:
    """The kind's topology, a table written as its change log."""
    topology = build(kind)
    *others, sink = topology.nodes
    assert isinstance(sink, DeltaSink)
    return replace(topology, nodes=(*others, replace(sink, mode="changes" if sink.is_table else "append")))


def cut(topology: Topology, case: Case) -> list[list[Input]]:
    """A case's records, cut where they do not arrive in the engine's order."""
    found = pieces(topology, [Piped(one.topic, None, None, one.ts, one.partition) for one in case.inputs])
    rest = iter(case.inputs)
    return [list(itertools.islice(rest, len(piece))) for piece in found]


class Stream:
    """Runs cases on the engine.

    Args:
        broker: a running one; by default one is started for the run.
    """

    def __init__(self, broker: Broker | None = None) -> None:
        self._broker = broker

    def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
        kinds: dict[Kind, list[Case]] = defaultdict(list)
        outcomes: dict[str, Outcome] = {}
        for case in cases:
            why = left_out(case)
            if why is None:
                kinds[kind_of(case, rules)].append(case)
            else:
                outcomes[case.id] = Outcome(left_out=why)
        if not kinds:
            return outcomes
        with small_session() as spark, self._running() as broker:
            for group in _groups(kinds):
                outcomes |= _run(spark, broker, group)
        return outcomes

    @contextmanager
    def _running(self) -> Iterator[Broker]:
        from lakestreams.local.broker import Broker

        with nullcontext(self._broker) if self._broker is not None else Broker() as broker:
            yield broker


def _groups(kinds: Mapping[Kind, list[Case]]) -> Iterator[dict[Kind, list[Case]]]:
    """Kinds that are to share a pipeline: those of as many runs, and lookups, whose state is kept otherwise, apart."""

    def sort(kind: Kind) -> tuple[bool, int]:
        topology = topology_of(kind)
        return only_looks_up(topology.nodes), max(len(cut(topology, case)) for case in kinds[kind])

    sorts = {kind: sort(kind) for kind in kinds}
    for looks_up in (False, True):
        own = sorted((kind for kind in kinds if sorts[kind][0] == looks_up), key=lambda kind: sorts[kind][1])
        size = math.ceil(len(own) / max(1, math.ceil(len(own) / _AT_ONCE)))  # alike, so that none is left alone
        for start in range(0, len(own), size or 1):
            yield {kind: kinds[kind] for kind in own[start : start + size]}


def _run(spark: SparkSession, broker: Broker, group: Mapping[Kind, list[Case]]) -> dict[str, Outcome]:
    """The outcomes of a group's cases; of what stops a run, of each kind by itself."""
    try:
        return _Group(spark, broker, group).run()
    except Exception as error:  # noqa: BLE001 - these cases have failed, the others go on
        if len(group) > 1:
            materialise = [_run(spark, broker, {kind: cases}) for kind, cases in group.items()]
            return {id_: outcome for found in materialise for id_, outcome in found.items()}
        return {
            case.id: Outcome(error=f"{type(error).__name__}: {error}") for cases in group.values() for case in cases
        }


class _Group:
    """The cases of some kinds, on topics and in tables of their own. A case's number is its place among all of them."""

    def __init__(self, spark: SparkSession, broker: Broker, group: Mapping[Kind, list[Case]]) -> None:
        self._spark, self._broker = spark, broker
        number = next(_numbers)
        self._cases = [case for cases in group.values() for case in cases]
        self._prefixes: list[str] = []  # of each case's kind
        self._cuts: list[list[list[Input]]] = []
        self._stride = 1 + max((one.partition for case in self._cases for one in case.inputs), default=0)
        self._partitions: dict[str, int] = {}  # by topic
        topologies: dict[str, Topology] = {}
        times: dict[str, dict[int, tuple[int, int, int]]] = defaultdict(dict)
        for kind, cases in group.items():
            prefix = f"k{number}_{len(topologies)}"
            topologies[prefix] = topology_of(kind)
            for case in cases:
                for join, windows in windows_of(case).items():
                    times[f"{prefix}_{join}"][len(self._cuts)] = windows
                self._prefixes.append(prefix)
                self._cuts.append(cut(topologies[prefix], case))
            for source in topologies[prefix].sources:
                self._partitions[f"{prefix}_{source.topic}"] = self._stride * len(self._cuts)
        self._outputs = {f"{prefix}_{OUTPUT}" for prefix in topologies}
        self._topology = together(f"conformance_{number}", topologies, lambda prefix, one: f"{prefix}_{one.topic}")
        retention = {place: case.params.history_retention_ms or 0 for place, case in enumerate(self._cases)}
        self._scopes = Scopes(self._stride, times, retention)
        self._orders: dict[tuple[str, int, int], int] = {}  # coordinates to `offset_order`

    def run(self) -> dict[str, Outcome]:
        root = Path(tempfile.mkdtemp(prefix="lakestreams-conformance-"))
        real = walk.run

        def materialise(topology: Topology, inputs: Inputs) -> Results:
            own = dict.fromkeys(inputs.partitions, self._stride)  # as many partitions as a case has
            return real(topology, replace(inputs, scopes=self._scopes, partitions=own))

        try:
            for topic, count in self._partitions.items():
                self._broker.create_topic(topic, count)
            settings = RunSettings(
                kafka={"kafka.bootstrap.servers": self._broker.bootstrap_servers},
                # snapshots of sources go by the key alone, which several cases have; what nodes keep is told apart
                snapshot_every=10_000 if only_looks_up(self._topology.nodes) else 2,
            )
            driver = Driver(self._spark, self._topology, Lake(str(root)), settings)
            with mock.patch.object(walk, "run", materialise):
                driver.start()
                for number in range(max(map(len, self._cuts))):
                    self._produce(number)
                    driver.round()
            return self._outcomes(Lake(str(root)))
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _produce(self, number: int) -> None:
        records: dict[str, list[Any]] = defaultdict(list)
        places: dict[tuple[str, int], list[int]] = defaultdict(list)
        for place, of_case in enumerate(self._cuts):
            later = _later(self._cases[place])
            for one in of_case[number] if number < len(of_case) else ():
                topic, partition = f"{self._prefixes[place]}_{one.topic}", place * self._stride + one.partition
                records[topic].append((_bytes(one.key), _bytes(one.value), one.ts + later, partition))
                places[topic, partition].append(one.offset_order)
        for topic, given in records.items():
            for produced in self._broker.produce(topic, given):
                order = places[topic, produced.partition].pop(0)
                self._orders[topic, produced.partition, produced.offset] = order

    def _outcomes(self, lake: Lake) -> dict[str, Outcome]:
        rows: dict[int, list[Row]] = defaultdict(list)
        for output in self._outputs:
            for place, row in self._rows(lake, output):
                rows[place].append(row)
        late: dict[int, set[int]] = defaultdict(set)
        table = lake.control("quarantine").read(self._spark).where(F.col("code") == "LATE")
        for row in table.select("topic", "partition", "offset").collect():
            late[row["partition"] // self._stride].add(self._orders[row["topic"], row["partition"], row["offset"]])
        return {
            case.id: Outcome(tuple(rows[place]), tuple(sorted(late[place]))) for place, case in enumerate(self._cases)
        }

    def _rows(self, lake: Lake, output: str) -> Iterator[tuple[int, Row]]:
        """An output's rows in their order, each with the place of its case."""
        frame = lake.output(output).read(self._spark)
        present = [name for name in _COLUMNS if name in frame.columns]
        lineage = [f"_lineage.{name}" for name in ("trigger", "kind")]
        ordered = frame.orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
        for row in ordered.select("k", "event_time_ms", *lineage, *present).collect():
            trigger = row["trigger"]
            place = trigger["partition"] // self._stride
            case, key = self._cases[place], decode(row["k"])
            columns = [row[name] if name in present else None for name in _COLUMNS]
            value = None if row["kind"] == "tombstone" else joined_value(case, key, columns)
            after = self._orders[trigger["source"], trigger["partition"], trigger["offset"]]
            yield place, Row(key, value, row["event_time_ms"] - _later(case), after)


def executor(seed: int) -> Executor:
    """Nothing is left to chance."""
    del seed
    return Stream()
