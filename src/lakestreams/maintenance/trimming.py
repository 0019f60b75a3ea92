"""Trimming: what bronze keeps of cycles that are long finished (decision 0015).

Of streams nothing, of tables the row of each key that is there after the last of these cycles. What joins and aggregates
remember of the records is stored first, as of the end of that cycle, exactly: the base. So nothing that a later cycle
needs is lost, whatever caches are deleted.

It runs beside a running driver. It takes no epoch: an order of its own keeps two maintenances apart. It trims up to what
the driver builds on and no further, which the driver says in the ledger (`past_of_nodes`); up to where is said there before
anything is deleted, so a trim that was begun is finished by the next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan, StoredState
from lakestreams.engine.protocol import decisions
from lakestreams.engine.runtime.conflicts import lost_to_others
from lakestreams.engine.runtime.failpoints import failpoint
from lakestreams.engine.state import store as state
from lakestreams.engine.state.bronze import row_cycle
from lakestreams.engine.state.held import Held
from lakestreams.engine.state.inputs import over
from lakestreams.engine.state.reach import tables_before
from lakestreams.engine.takeover.claiming import Claiming
from lakestreams.evaluate import walk
from lakestreams.expectations.rules import dropped
from lakestreams.topology.graph import longest_wait_ms, only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.window import WindowSpec

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

# Records that are evaluated at once for the base: it is stored in between, so that a long backlog is not one long plan.
_AT_ONCE: Final = 5_000_000
_PLACE: Final = ("partition", "offset", "attempt")


@dataclass
class Trimmed:
    """What was trimmed.

    Attributes:
        cycle: bronze is trimmed up to the end of this cycle; 0: it never was.
        rows: topic to how many rows were deleted, or would be.
        notes: why no more was.
    """

    cycle: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trimming:
    """One trimming of a pipeline.

    Attributes:
        spark: the session.
        ledger: of the pipeline.
        topology: the pipeline.
        fingerprint: of what decides what its nodes keep, as it is configured now (`fingerprint.of_state`).
    """

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    fingerprint: str

    def run(self, ingested_before_ms: int) -> Trimmed:
        """Trims the cycles all of whose records were ingested before a moment.

        Raises:
            Fenced: if another maintenance of the pipeline came after this one.
        """
        history = self.ledger.history(self.spark)
        found = Trimmed(decisions.cycle_of(history.trim))
        if self._target(history, ingested_before_ms, found) is None and self._unfinished(history) is None:
            return found
        claiming = Claiming(self.spark, replace(self.ledger, run_id=str(uuid.uuid4())))
        history = claiming.maintain(history)  # no other maintenance changes it from here on
        mine = claiming.ledger
        found.notes.clear()
        target = self._target(history, ingested_before_ms, found)
        if target is not None:
            if only_looks_up(self.topology.nodes) or self._based(mine, history, target, found):
                failpoint("trim.before")
                mine.record_trim(self.spark, target, done=False)
                failpoint("trim.after")
            history = mine.history(self.spark)
        target = self._unfinished(history)
        found.cycle = decisions.cycle_of(history.trim)
        if target is not None and self._allowed(history, target, found) and self._delete(history, target, found):
            failpoint("trimmed.before")
            mine.record_trim(self.spark, target, done=True)
        return found

    def planned(self, ingested_before_ms: int) -> Trimmed:
        """What `run` would do; changes nothing."""
        history = self.ledger.history(self.spark)
        found = Trimmed(decisions.cycle_of(history.trim))
        target = self._target(history, ingested_before_ms, found) or self._unfinished(history)
        if target is not None:
            found.cycle = target.cycle
            for source in self._there():
                found.rows[source.topic] = self._outdated(source, history, target).count()
        return found

    # --- up to where -------------------------------------------------------------------------------------------------

    def _target(self, history: History, ingested_before_ms: int, found: Trimmed) -> Plan | None:
        """Everything that is to be trimmed, as one plan; None if nothing is that is not yet."""
        seq = self.ledger.ingested_before(self.spark, ingested_before_ms)
        to_cycle = history.done_cycle
        if not only_looks_up(self.topology.nodes):
            to_cycle = min(to_cycle, decisions.cycle_of(history.state))
        topics = [source.topic for source in self.topology.sources]
        plans = self.ledger.plans(self.spark, decisions.cycle_of(history.trim) + 1, topics)
        old = [plan for plan in plans if plan.seq <= seq and plan.cycle <= history.done_cycle]
        reached = decisions.trim_target([plan.cycle for plan in old], history.done_cycle, to_cycle)
        last = next((plan for plan in old if plan.cycle == reached), None)
        if old and (last is None or last.cycle < old[-1].cycle):
            found.notes.append(
                f"cycles {to_cycle + 1} to {old[-1].cycle} are not trimmed: what joins and aggregates remember is stored "
                f"as of cycle {to_cycle}" + ("" if to_cycle else ", that is not yet")
            )
        if last is None:
            return None
        if not self._same_configuration(history):
            found.notes.append("the configuration is not that of the last run: run the pipeline once before trimming")
            return None
        begun = tuple(
            replace(part, from_offset=0, records=0, bad=0, null_keys=0, null_values=0) for part in last.ranges
        )
        return Plan(last.cycle, "", begun, last.clocks, 0, last.seq)

    def _same_configuration(self, history: History) -> bool:
        """Whether what ran last is what the files say now, as far as it decides what may go."""
        if not only_looks_up(self.topology.nodes):
            return history.state is not None and history.state.fingerprint == self.fingerprint
        ran = history.plan.fingerprint if history.plan is not None else ""
        return fingerprint.describes(self.ledger.configuration(self.spark, ran), self.topology)

    def _allowed(self, history: History, target: Plan, found: Trimmed) -> bool:
        """Whether the driver builds on nothing that lies before."""
        if only_looks_up(self.topology.nodes):
            return True
        stands = decisions.cycle_of(history.state)
        may = decisions.may_delete(target.cycle, stands)
        if not may:
            found.notes.append(f"nothing is deleted yet: the running driver builds on cycle {stands}")
        return may

    @staticmethod
    def _unfinished(history: History) -> Plan | None:
        return history.trim if decisions.unfinished(history) else None

    # --- the base ----------------------------------------------------------------------------------------------------

    def _based(self, mine: Ledger, history: History, target: Plan, found: Trimmed) -> bool:
        """Stores what the nodes keep as of the target's cycle; whether that was done.

        From the last base on, which stays valid until the next one is complete.
        """
        base = history.base
        if not state.there(self.spark, mine, base, self.fingerprint):
            base = None if history.trim is None else self._saved(mine, history)
            if base is None and history.trim is not None:
                found.notes.append("no more is trimmed: the base is missing, and nothing was stored since")
                return False
        topics = [source.topic for source in self.topology.sources]
        plans = mine.plans(self.spark, decisions.cycle_of(base) + 1, topics)
        for part in _parts([plan for plan in plans if plan.cycle <= target.cycle]):
            base = self._next(mine, base, part)
            # a driver may have begun to build on the base before
            if not decisions.may_delete(base.cycle, decisions.cycle_of(mine.history(self.spark).state)):
                return False
        return decisions.cycle_of(base) >= target.cycle

    def _saved(self, mine: Ledger, history: History) -> StoredState | None:
        """A base in the place of one that is missing: what the driver has stored, copied while it is valid."""
        last = history.state
        if last is None or not state.there(self.spark, mine, last, self.fingerprint):
            return None
        kept = state.load(self.spark, mine, last)
        made = state.write(self.spark, mine, kept, last.cycle, last.fingerprint, _other(history.base))
        if mine.history(self.spark).state != last:
            return None  # its slot may have been overwritten while it was read
        mine.record_base(self.spark, made)
        return made

    def _next(self, mine: Ledger, base: StoredState | None, plans: Sequence[Plan]) -> StoredState:
        held = Held()
        retained = state.load(self.spark, mine, base) if base is not None else {}
        rows = base.rows if base is not None else 0
        inputs = over(self.spark, mine, self.topology, plans, retained, rows, keeps=True, hold=held)
        kept = walk.run(self.topology, inputs).kept
        failpoint("base.before")
        made = state.write(self.spark, mine, kept, plans[-1].cycle, self.fingerprint, _other(base))
        held.release()
        mine.record_base(self.spark, made)
        failpoint("base.after")
        return made

    # --- deleting ----------------------------------------------------------------------------------------------------

    def _there(self) -> list[Source]:
        lake, name = self.ledger.lake, self.ledger.pipeline
        return [one for one in self.topology.sources if lake.bronze(name, one.topic).exists(self.spark)]

    def _delete(self, history: History, target: Plan, found: Trimmed) -> bool:
        """Deletes what is not needed any more; whether all of it."""
        whole = True
        for source in self._there():
            table = self.ledger.lake.bronze(self.ledger.pipeline, source.topic)
            try:
                if source.kind == "stream":
                    deleted = table.delete(self.spark, self._gone(source, target))
                else:
                    outdated = self._outdated(source, history, target)
                    deleted = table.delete_these(self.spark, outdated, _PLACE, _taken(source, target, of="t."))
                found.rows[source.topic] = deleted
            except Exception as error:
                if not lost_to_others(error):
                    raise
                found.notes.append(f"bronze of {source.topic} is too busy: the next maintenance continues there")
                whole = False
        return whole

    def _outdated(self, source: Source, history: History, target: Plan) -> DataFrame:
        """The bronze rows that nothing after the target's cycle needs."""
        rows = self.ledger.lake.bronze(self.ledger.pipeline, source.topic).read(self.spark)
        if source.kind == "stream":
            return rows.where(self._gone(source, target)).select(*_PLACE)
        taken = rows.where(_taken(source, target))
        plans = tables_before(self.spark, self.ledger, self.topology, replace(history, trim=target))
        broken = dropped(source, self.topology.expectations)
        readable = F.col("error").isNull() & F.col("k").isNotNull()
        if broken is not None:
            readable = readable & ~broken
        placed = taken.where(readable).withColumn("_cycle", _cycle_of(source, plans))
        judged = placed.withColumn("_needed", _is_live() | _is_history(source))
        return taken.where(~readable).select(*_PLACE).unionByName(judged.where("not _needed").select(*_PLACE))

    def _gone(self, source: Source, target: Plan) -> str:
        """Which of a stream's records nothing needs any more, as SQL: all that were taken, but for what may be refused yet.

        A record that is refused only when its time is over goes to quarantine with its raw bytes, and bronze has them.
        """
        waits = _refusable_ms(self.topology)
        if not (waits and target.clocks):
            return _taken(source, target)
        over = min(target.clocks.values()) - waits
        return f"({_taken(source, target)}) AND (`event_time_ms` IS NULL OR `event_time_ms` < {over})"


def _refusable_ms(topology: Topology) -> int:
    """How far a clock must pass a record's time, at most, until no step can refuse it any more; 0: none does so later.

    What gives up waiting for a row does, and so do rules over a step's rows, of which some come out long after their records.
    """
    sources = {source.name for source in topology.sources}
    ruled = any(
        rule.action == "drop"
        for node in topology.nodes
        if node.name not in sources
        for rule in topology.expectations.rules_of(node.name)
    )
    gives_up = any(node.gives_up for node in topology.nodes)
    return longest_wait_ms(topology.nodes) if ruled or gives_up else 0


def _is_live() -> Column:
    """Whether a row is what its key's row is after the last cycle."""
    return (F.row_number().over(_newest_first("k")) == 1) & F.col("v").isNotNull()


def _is_history(source: Source) -> Column:
    """Whether a versioned table still looks at a row: it lies in its history, or is the one valid at its beginning."""
    if source.history_ms is None:
        return F.lit(False)
    begins = F.max("event_time_ms").over(Window.partitionBy("partition")) - source.history_ms
    within = F.col("event_time_ms") >= begins
    by_time = _newest_first("k", within, newest=("event_time_ms",))
    return within | ((F.row_number().over(by_time) == 1) & F.col("v").isNotNull())


def _newest_first(*by: str | Column, newest: Sequence[str] = ()) -> WindowSpec:
    order = (*newest, "_cycle", "stream_time_ms", *_PLACE)
    return Window.partitionBy(*by).orderBy(*(F.desc(name) for name in order))


def _cycle_of(source: Source, plans: Sequence[Plan]) -> Column:
    own = [plan for plan in plans if plan.of(source.topic)]
    return row_cycle(source.topic, own) if own else F.lit(None).cast("bigint")


def _taken(source: Source, target: Plan, of: str = "") -> str:
    """What the target took of a topic, as SQL."""
    parts = [
        f"({of}`attempt` > 0 AND {of}`seq` < {part.to_offset})"
        if part.of_attempts
        else f"({of}`attempt` = 0 AND {of}`partition` = {part.partition} AND {of}`offset` < {part.to_offset})"
        for part in target.of(source.topic)
    ]
    return " OR ".join(parts) or "false"


def _parts(plans: Sequence[Plan]) -> Iterator[list[Plan]]:
    """Plans in stretches of not too many records."""
    stretch: list[Plan] = []
    records = 0
    for plan in plans:
        own = sum(part.records for part in plan.ranges)
        if stretch and records + own > _AT_ONCE:
            yield stretch
            stretch, records = [], 0
        stretch.append(plan)
        records += own
    if stretch:
        yield stretch


def _other(base: StoredState | None) -> str:
    """The base's slot that is not valid."""
    return state.BASES[1] if base is not None and base.slot == state.BASES[0] else state.BASES[0]
