"""The executor on the real engine: broker, bronze, ledger, cycles, stored state, Delta outputs.

The cases of a kind share a pipeline: each has partitions of its own, and a column in front of every key keeps them apart,
as in the other executors. A case is cut only where its order of arrival is not the engine's order of records; each piece
is a run. Results are read from the output's table, their order from `_lineage`.

Not taken: cases that compare the value before (tables do not hold it), and records at time 0, which librdkafka cannot
write.
"""

from __future__ import annotations

import itertools
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
from tests.engine.streaming import Piped, pieces

from lakestreams.engine.driver import Driver
from lakestreams.engine.lake import Lake
from lakestreams.engine.settings import RunSettings
from lakestreams.flow import dataflow
from lakestreams.flow.dataflow import Inputs, Results, Scopes
from lakestreams.topology.graph import only_looks_up
from lakestreams.topology.nodes import DeltaSink, Source, is_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams import Topology
    from lakestreams.local.broker import Broker

_numbers = itertools.count(1)


def takes(case: Case) -> bool:
    """Whether a case can be run here."""
    readable = case.not_claimed is None and case.fault is None
    return readable and not case.compares_old and not case.fails and all(one.ts > 0 for one in case.inputs)


def topology_of(kind: Kind) -> Topology:
    """The kind's topology, a table written as its change log."""
    topology = build(kind)
    *others, sink = topology.nodes
    assert isinstance(sink, DeltaSink)
    return replace(topology, nodes=(*others, replace(sink, mode="changes" if is_table(sink) else "append")))


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
            if takes(case):
                kinds[kind_of(case, rules)].append(case)
            else:
                outcomes[case.id] = Outcome(error="the executor stream does not take it (see its module)")
        with small_session() as spark, self._running() as broker:
            for kind, of_kind in kinds.items():
                try:
                    outcomes |= _Group(spark, broker, kind, of_kind).run()
                except Exception as error:  # noqa: BLE001 - these cases have failed, the others go on
                    outcomes |= {case.id: Outcome(error=f"{type(error).__name__}: {error}") for case in of_kind}
        return outcomes

    @contextmanager
    def _running(self) -> Iterator[Broker]:
        from lakestreams.local.broker import Broker

        with nullcontext(self._broker) if self._broker is not None else Broker() as broker:
            yield broker


class _Group:
    """The cases of one kind, on topics and in tables of their own."""

    def __init__(self, spark: SparkSession, broker: Broker, kind: Kind, cases: Sequence[Case]) -> None:
        self._spark, self._broker, self._cases = spark, broker, cases
        number = next(_numbers)
        topology = topology_of(kind)
        self._cuts = [cut(topology, case) for case in cases]
        self._stride = 1 + max((one.partition for case in cases for one in case.inputs), default=0)
        self._topics = {source.topic: f"{source.topic}-{number}" for source in topology.sources}
        self._topology = _on(topology, self._topics, f"conformance_{number}")
        times: dict[str, dict[int, tuple[int, int, int]]] = defaultdict(dict)
        for place, case in enumerate(cases):
            for join, windows in windows_of(case).items():
                times[join][place] = windows
        self._scopes = Scopes(
            self._stride, times, {n: case.params.history_retention_ms or 0 for n, case in enumerate(cases)}
        )
        self._orders: dict[tuple[str, int, int], int] = {}  # coordinates to `offset_order`

    def run(self) -> dict[str, Outcome]:
        root = Path(tempfile.mkdtemp(prefix="lakestreams-conformance-"))
        real = dataflow.run

        def apart(topology: Topology, inputs: Inputs) -> Results:
            own = dict.fromkeys(inputs.partitions, self._stride)  # as many partitions as a case has
            return real(topology, replace(inputs, scopes=self._scopes, partitions=own))

        try:
            for topic in self._topics.values():
                self._broker.create_topic(topic, self._stride * len(self._cases))
            settings = RunSettings(
                kafka={"kafka.bootstrap.servers": self._broker.bootstrap_servers},
                # snapshots of sources go by the key alone, which several cases have; what nodes keep is told apart
                snapshot_every=10_000 if only_looks_up(self._topology.nodes) else 2,
            )
            driver = Driver(self._spark, self._topology, Lake(str(root)), settings)
            with mock.patch.object(dataflow, "run", apart):
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
            for one in of_case[number] if number < len(of_case) else ():
                partition = place * self._stride + one.partition
                records[one.topic].append((_bytes(one.key), _bytes(one.value), one.ts, partition))
                places[one.topic, partition].append(one.offset_order)
        for topic, given in records.items():
            written = self._broker.produce(self._topics[topic], given)
            for produced in written:
                order = places[topic, produced.partition].pop(0)
                self._orders[self._topics[topic], produced.partition, produced.offset] = order

    def _outcomes(self, lake: Lake) -> dict[str, Outcome]:
        rows: dict[int, list[Row]] = defaultdict(list)
        frame = lake.output(OUTPUT).read(self._spark)
        present = [name for name in _COLUMNS if name in frame.columns]
        lineage = [f"_lineage.{name}" for name in ("trigger", "kind")]
        ordered = frame.orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
        for row in ordered.select("k", "event_time_ms", *lineage, *present).collect():
            trigger = row["trigger"]
            place = trigger["partition"] // self._stride
            key = decode(row["k"])
            columns = [row[name] if name in present else None for name in _COLUMNS]
            value = None if row["kind"] == "tombstone" else joined_value(self._cases[place], key, columns)
            after = self._orders[trigger["source"], trigger["partition"], trigger["offset"]]
            rows[place].append(Row(key, value, row["event_time_ms"], after))
        late: dict[int, set[int]] = defaultdict(set)
        table = lake.control("quarantine").read(self._spark).where(F.col("code") == "LATE")
        for row in table.select("topic", "partition", "offset").collect():
            late[row["partition"] // self._stride].add(self._orders[row["topic"], row["partition"], row["offset"]])
        return {
            case.id: Outcome(tuple(rows[place]), tuple(sorted(late[place]))) for place, case in enumerate(self._cases)
        }


def executor(seed: int) -> Executor:
    """Nothing is left to chance."""
    del seed
    return Stream()


def _on(topology: Topology, topics: Mapping[str, str], name: str) -> Topology:
    from tests.engine.streaming import renamed

    assert all(isinstance(source, Source) for source in topology.sources)
    return replace(renamed(topology, dict(topics)), name=name)
