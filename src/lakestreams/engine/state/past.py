"""What a cycle needs of the cycles before it, in one of two ways, whichever the topology needs.

`OfTables`: where streams only look tables up, the past is the tables' rows: a snapshot of each source and the bronze rows
behind it. `OfNodes`: where windows, aggregations or tables made of tables remember something, it is what the nodes keep,
stored as of some finished cycle, and the cycles since then, which are evaluated again (decision 0012). Both are caches.
Where bronze is trimmed, they are made anew from what it keeps of tables, and from the base (decision 0015).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger import fingerprint as fingerprints
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan, StoredState
from lakestreams.engine.protocol import decisions
from lakestreams.engine.runtime.tuning import FEW
from lakestreams.engine.state import policy as pace
from lakestreams.engine.state import snapshots
from lakestreams.engine.state import store as state
from lakestreams.engine.state.bronze import planned_rows, row_cycle
from lakestreams.engine.state.snapshots import Snapshot
from lakestreams.errors import BronzeTrimmed
from lakestreams.evaluate.walk import Inputs, Results
from lakestreams.expectations.rules import kept
from lakestreams.operators.records import ORDER, ORDER_TYPE, STREAM_SIDE, TABLE_SIDE, records
from lakestreams.operators.versions import TableSide
from lakestreams.topology.graph import only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

# Stored rows that are held in memory while a cycle reads them; of more, filters leave most where they lie.
_WORTH_HOLDING = 1_000_000
# A global table is there before anything else: its rows come first in their cycle.
_FIRST_OF_ALL = -2
# Of a clock that moves on by itself; a record's attempts begin at 0.
_NO_ATTEMPT = -1


class Past(Protocol):
    """What earlier cycles left behind."""

    def resume(self, history: History) -> None:
        """Finds what is stored, and the finished plans behind it."""

    def inputs(self, plan: Plan) -> Inputs:
        """What a cycle is evaluated over."""

    def held(self, plan: Plan) -> int:
        """About how many rows `inputs` keeps in memory; how they are read is decided when it is called."""

    def executed(self, plan: Plan, results: Results) -> None:
        """Takes note of what a cycle has given; its inputs are needed no more."""

    def abandoned(self) -> None:
        """Takes note of a cycle that failed; its inputs are needed no more."""

    def finished(self, plan: Plan) -> None:
        """Takes note of a plan that is finished."""

    def refresh(self) -> list[tuple[str, int]]:
        """Stores what is due: what was stored, and how many rows it has."""

    @property
    def rows(self) -> int:
        """About how many rows `refresh` would work on."""


def of(spark: SparkSession, ledger: Ledger, topology: Topology, fingerprint: str, every: int) -> Past:
    """The past as this topology needs it.

    Args:
        ledger: of the running epoch.
        fingerprint: of what decides what the nodes keep (`fingerprint.of_state`).
        every: the most cycles that may lie behind what is stored.
    """
    if only_looks_up(topology.nodes):
        return OfTables(spark, ledger, topology, every)
    return OfNodes(spark, ledger, topology, fingerprint, every)


class Held:
    """Frames that are kept in memory while a cycle reads them in several places.

    A plan that reads a Delta table in ten places looks ten times for the files that it needs, which is most of what a
    small cycle costs. Where compute refuses to keep frames (serverless) they are read as often as they are needed.
    """

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __call__(self, rows: DataFrame) -> DataFrame:
        """The frame, kept from its first use on."""
        with contextlib.suppress(Exception):
            rows = rows.persist()
            self._frames.append(rows)
        return rows

    def release(self) -> None:
        """Keeps them no longer."""
        while self._frames:
            self._frames.pop().unpersist()


@dataclass
class OfTables:
    """Snapshots of the table sources and the plans behind them."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    every: int
    tail: list[Plan] = field(default_factory=list)  # finished, with table records that some snapshot does not cover
    standing: dict[str, Snapshot] = field(default_factory=dict)
    _held: Held = field(default_factory=Held)

    @property
    def _tables(self) -> list[Source]:
        return [source for source in self.topology.sources if source.kind != "stream"]

    def resume(self, history: History) -> None:
        """Finds the snapshots, and the finished plans that they do not cover."""
        self.standing = {source.name: self._found(source) for source in self._tables}
        if history.plan is not None and self._tables:
            behind = {source.topic: self.standing[source.name].cycle for source in self._tables}
            plans = self.ledger.plans_behind(self.spark, behind)
            self.tail = [plan for plan in plans if plan.cycle <= history.done_cycle]

    def inputs(self, plan: Plan) -> Inputs:
        """The stream records of the cycle; tables with all that is known of them."""
        streams, tables, counts, changes = {}, {}, {}, {}
        for source in self.topology.sources:
            if source.kind == "stream":
                rows = _readable(self.spark, self.ledger, self.topology, source, [plan]).where(F.col("v").isNotNull())
                counts[source.name] = plan.records(source.topic)
                one = records(rows, source.topic, STREAM_SIDE, F.lit(plan.cycle))
                streams[source.name] = self._few(one, counts[source.name])
            else:
                snapshot = self.standing.get(source.name, Snapshot())
                side, rows_about, changed = snapshots.side(
                    self.spark, self.ledger, source, snapshot, [*self.tail, plan], self.topology.expectations
                )
                if side.changes is not None:
                    side = replace(side, changes=self._few(side.changes, changed))
                tables[source.name] = side.each(_first) if source.kind == "global_table" else side
                counts[source.name], changes[source.name] = rows_about, changed
        return Inputs(streams, tables, plan.cycle, counts, changes, partitions_of([plan]), hold=self._held)

    def _few(self, rows: DataFrame, count: int) -> DataFrame:
        """Records out of bronze, held if they are few: beside a large table the statement is planned and compiled for many.

        Held, they are found and read once and as suits few, and the statement's code no longer has their offsets in it,
        which differ from cycle to cycle.
        """
        return self._held(rows) if 0 < count <= FEW else rows

    def held(self, plan: Plan) -> int:  # noqa: ARG002 - as every past
        """Only few, whatever the plan has."""
        return 0

    def executed(self, plan: Plan, results: Results) -> None:  # noqa: ARG002 - as every past
        """Holds nothing any more."""
        self._held.release()

    def abandoned(self) -> None:
        """Holds nothing any more."""
        self._held.release()

    def finished(self, plan: Plan) -> None:
        """Keeps a plan with table records."""
        if any(plan.records(source.topic) for source in self._tables):
            self.tail.append(plan)

    def refresh(self) -> list[tuple[str, int]]:
        """Folds finished cycles into the snapshots that are due, and forgets plans that none of them lacks."""
        stored = []
        for source in self._tables:
            standing = self.standing.get(source.name, Snapshot())
            if self.tail and snapshots.due(source, standing, self.tail, self.every):
                snapshots.refresh(self.spark, self.ledger, source, standing, self.tail, self.topology.expectations)
                self.standing[source.name] = self._found(source, own=True)
                stored.append((source.name, self.standing[source.name].rows))
        self.tail = [plan for plan in self.tail if any(self._lacks(source, plan) for source in self._tables)]
        return stored

    def _found(self, source: Source, *, own: bool = False) -> Snapshot:
        return snapshots.find(self.spark, self.ledger, source, self.topology.expectations, own=own)

    def _lacks(self, source: Source, plan: Plan) -> bool:
        """Whether a plan has taken rows of a table that its snapshot does not have."""
        return plan.cycle > self.standing.get(source.name, Snapshot()).cycle and plan.records(source.topic) > 0

    @property
    def rows(self) -> int:
        """Those of the snapshots, and what came since."""
        return sum(snapshot.rows for snapshot in self.standing.values()) + sum(map(_records, self.tail))


@dataclass
class OfNodes:
    """What the nodes keep, stored as of some cycle, and the plans since."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    fingerprint: str
    every: int
    stored: StoredState | None = None
    tail: list[Plan] = field(default_factory=list)
    _again: int = 0  # records that were evaluated once more because they lie behind what is stored
    _held: Held = field(default_factory=Held)
    _kept: tuple[int, state.Frames] | None = None  # a cycle, and what the nodes keep after it

    def resume(self, history: History) -> None:
        """Finds the stored state and the finished plans since; without one all plans are since."""
        self.stored = self._standing(history)
        if history.plan is None:
            return
        after = self.stored.cycle if self.stored else 0
        plans = self.ledger.plans(self.spark, after + 1, [source.topic for source in self.topology.sources])
        self.tail = [plan for plan in plans if plan.cycle <= history.done_cycle]

    def _standing(self, history: History) -> StoredState | None:
        """What can be built on: what was stored last, else the base; None where nothing was ever stored.

        Maintenance beside this run trims up to what the newest `state` row has and no further. So whatever else is
        built on is said there first, and only then it is looked once more whether that still holds.
        """
        last = history.state
        if last is None and history.trim is None:
            return None
        if _reaches(history, last) and state.there(self.spark, self.ledger, last, self.fingerprint):
            return last
        while True:
            history = self.ledger.history(self.spark)
            found = self._base(history)
            self.ledger.record_state(self.spark, found)
            after = self.ledger.history(self.spark)
            if decisions.holds_still(history, after):
                return found

    def _base(self, history: History) -> StoredState:
        """The base, or the beginning where nothing is trimmed.

        Raises:
            BronzeTrimmed: if the base is missing or of another topology or configuration.
        """
        if history.trim is None:
            return StoredState(0, self.fingerprint, "", 0, ())
        base = history.base
        if (
            base is not None
            and _reaches(history, base)
            and state.there(self.spark, self.ledger, base, self.fingerprint)
        ):
            return base
        what = "is missing" if base is None or base.fingerprint == self.fingerprint else "is of another configuration"
        message = (
            f"what {self.topology.name} remembers of the cycles up to {history.trim.cycle} {what}, and cannot be made "
            "anew: bronze is trimmed up to there"
        )
        hint = "run the former configuration, or give the changed pipeline another name: it then reads Kafka anew"
        raise BronzeTrimmed(message, hint)

    def inputs(self, plan: Plan) -> Inputs:
        """All records since the stored state; only the cycle's own results are wanted, and what to store if that is due."""
        self._again += sum(_records(one) for one in self.tail)
        return self._since([*self.tail, plan], results_from=plan.cycle, keeps=self._due(plan))

    def held(self, plan: Plan) -> int:
        """All that the cycle looks at."""
        return self.rows + _records(plan)

    def executed(self, plan: Plan, results: Results) -> None:
        """Notes what the nodes keep now, if it is to be stored when the cycle is finished."""
        if results.kept:
            self._kept = plan.cycle, results.kept
        else:
            self._held.release()

    def abandoned(self) -> None:
        """Holds nothing any more: every plan that the session makes later would be compared with what is held."""
        self._kept = None
        self._held.release()

    def finished(self, plan: Plan) -> None:
        """Keeps the plan."""
        self.tail.append(plan)

    def refresh(self) -> list[tuple[str, int]]:
        """Stores what the nodes keep after the last finished cycle, if that was found to be due when it began."""
        if self._kept is None or not self.tail or self._kept[0] != self.tail[-1].cycle:
            return []
        cycle, kept = self._kept
        self.stored = state.store(self.spark, self.ledger, kept, cycle, self.fingerprint, self.stored)
        self.tail, self._again, self._kept = [], 0, None
        self._held.release()
        return [("state", self.stored.rows)]

    @property
    def rows(self) -> int:
        """Those that are stored, and what came since."""
        return (self.stored.rows if self.stored else 0) + sum(map(_records, self.tail))

    def _due(self, plan: Plan) -> bool:
        """Whether evaluating the cycles since has cost about as much as storing does."""
        rows = self.stored.rows if self.stored else 0
        return pace.nodes_due(len(self.tail) + 1, self._again, _records(plan), rows, self.every)

    def _since(self, plans: Sequence[Plan], *, results_from: int, keeps: bool) -> Inputs:
        retained = state.load(self.spark, self.ledger, self.stored) if self.stored else {}
        known = self.stored.rows if self.stored else 0
        self._held.release()
        if known <= _WORTH_HOLDING:
            retained = {node: {name: self._held(rows) for name, rows in own.items()} for node, own in retained.items()}
        return over(
            self.spark, self.ledger, self.topology, plans, retained, known, results_from, keeps=keeps, hold=self._held
        )


def over(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    plans: Sequence[Plan],
    retained: Mapping[str, Mapping[str, DataFrame]],
    retained_rows: int = 0,
    results_from: int | None = None,
    *,
    before: Sequence[Plan] = (),
    keeps: bool = False,
    hold: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> Inputs:
    """The records that some plans take, in one evaluation.

    Args:
        plans: ascending, at least one; all after what is retained.
        retained: what the nodes keep of the cycles before.
        retained_rows: about how many rows that is.
        results_from: the first cycle whose results are wanted; by default all.
        before: earlier plans, of which tables' rows are wanted as what is known from before.
        keeps: whether what the nodes keep is wanted.
        hold: keeps a frame that is read several times.
    """
    streams, tables, counts, changes, ticks = {}, {}, {}, {}, {}
    for source in topology.sources:
        known = () if source.kind == "stream" else before
        taken = [plan for plan in (*known, *plans) if plan.of(source.topic)]
        moved = [plan for plan in plans if source.kind == "stream" and plan.ticks_of(source.topic)]
        if moved:
            ticks[source.name] = _ticks(spark, source.topic, moved)
        rows = _readable(spark, ledger, topology, source, taken or plans[-1:])
        cycle = row_cycle(source.topic, taken) if taken else F.lit(plans[-1].cycle)
        count = sum(plan.records(source.topic) for plan in taken)
        if source.kind == "stream":
            streams[source.name] = hold(records(rows, source.topic, STREAM_SIDE, cycle))
            counts[source.name] = count
        else:
            made = records(rows, source.topic, TABLE_SIDE, cycle)
            tables[source.name] = TableSide(None, hold(_first(made) if source.kind == "global_table" else made))
            counts[source.name], changes[source.name] = retained_rows + count, count
    return Inputs(
        streams,
        tables,
        plans[0].cycle,
        counts,
        changes,
        partitions_of(plans),
        retained,
        keeps=keeps,
        raw=True,
        results_from=results_from,
        ticks=ticks,
        clock_ms=min(plans[-1].clocks.values(), default=None),
        hold=hold,
        retained_rows=retained_rows,
        fewer=grown(plans),
    )


def everything(
    spark: SparkSession, ledger: Ledger, topology: Topology, history: History, plans: Sequence[Plan]
) -> Inputs:
    """All that bronze still holds of some finished cycles, in one evaluation; what is trimmed counts as past.

    Args:
        plans: those after the cycle of `reach`, ascending, at least one.
    """
    if history.trim is None:
        return over(spark, ledger, topology, plans, {})
    if only_looks_up(topology.nodes):
        return over(spark, ledger, topology, plans, {}, before=tables_before(spark, ledger, topology, history))
    if history.base is None:
        msg = "reach() tells a base that is missing"
        raise ValueError(msg)
    return over(spark, ledger, topology, plans, state.load(spark, ledger, history.base), history.base.rows)


def reach(spark: SparkSession, ledger: Ledger, topology: Topology, history: History, meaning: str | None = None) -> int:
    """The cycle from behind which everything can be evaluated: 0 where nothing is trimmed.

    Args:
        meaning: of the configuration (`fingerprint.of_state`), if what was kept must be of that, too.

    Raises:
        BronzeTrimmed: if what nodes keep is needed as of that cycle, and is missing or of another topology.
    """
    if history.trim is None:
        return 0
    if only_looks_up(topology.nodes):
        return history.trim.cycle
    base = history.base
    usable = base is not None and _reaches(history, base) and fingerprints.is_of(base.fingerprint, topology)
    if (
        base is None
        or not usable
        or meaning not in (None, base.fingerprint)
        or not state.there(spark, ledger, base, base.fingerprint)
    ):
        message = (
            f"what {topology.name} remembered of the cycles up to {history.trim.cycle} is missing or of another "
            "topology, and bronze is trimmed up to there"
        )
        raise BronzeTrimmed(message, "run the pipeline as it was, then lakestreams maintain")
    return base.cycle


def tables_before(spark: SparkSession, ledger: Ledger, topology: Topology, history: History) -> list[Plan]:
    """Plans that took the rows that bronze keeps of tables up to where it is trimmed."""
    if history.trim is None:
        return []
    done = [history.trimmed] if history.trimmed is not None else []
    # trimming may have been begun and not finished: then the rows between are as they were
    plans = ledger.plans(spark, done[0].cycle + 1 if done else 1, [source.topic for source in topology.sources])
    return [*done, *(plan for plan in plans if plan.cycle <= history.trim.cycle)]


def _reaches(history: History, stored: StoredState | None) -> bool:
    return decisions.reaches(history.trim, stored)


def partitions_of(plans: Sequence[Plan]) -> dict[str, int]:
    """Topic to partition count, as the last plan knows it."""
    counts: dict[str, int] = {}
    for part in plans[-1].ranges:
        counts[part.topic] = max(counts.get(part.topic, 0), part.partition + 1)
    return counts


def grown(plans: Sequence[Plan]) -> list[tuple[int, dict[str, int]]]:
    """Where plans know other partitions than the ones before: the first cycle that does, and the counts until then.

    A record's task is that of its own cycle, whichever cycle evaluates it again: else clocks of the past would change.
    """
    counts = [(plan.cycle, partitions_of([plan])) for plan in plans]
    return [(cycle, before) for (_, before), (cycle, now) in pairwise(counts) if before != now]


def _readable(
    spark: SparkSession, ledger: Ledger, topology: Topology, source: Source, plans: Sequence[Plan]
) -> DataFrame:
    rows = kept(planned_rows(spark, ledger, source, plans), source, topology.expectations)
    return rows.where(F.col("k").isNotNull()) if source.kind != "stream" or source.keys_not_null == "drop" else rows


def _first(rows: DataFrame) -> DataFrame:
    return rows.withColumn(ORDER, F.col(ORDER).withField("stream_time_ms", F.lit(_FIRST_OF_ALL).cast("bigint")))


def _ticks(spark: SparkSession, topic: str, plans: Sequence[Plan]) -> DataFrame:
    """What moves the clocks of a stream's tasks: `ts, o`, behind the records that its plan takes of the partition."""
    rows = [
        {
            "ts": time,
            "o": {
                "cycle": plan.cycle, "stream_time_ms": time, "side": STREAM_SIDE, "source": topic,
                "partition": partition, "offset": plan.positions.get((topic, partition), 0), "attempt": _NO_ATTEMPT,
            },
        }
        for plan in plans
        for partition, time in plan.ticks_of(topic).items()
    ]  # fmt: skip
    text = F.from_json(F.lit(json.dumps(rows)), f"array<struct<ts: bigint, o: {ORDER_TYPE}>>")
    return spark.range(0, 1, 1, 1).select(F.inline(text))


def _records(plan: Plan) -> int:
    return sum(part.records for part in plan.ranges)
