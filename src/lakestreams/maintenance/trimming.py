"""Trimming: what bronze keeps of cycles that are long finished (decision 0015).

Of streams nothing, of tables the row of each key that is there after the last of these cycles. What joins and aggregates
remember of the records is stored first, as of the end of that cycle, exactly: the base. So nothing that a later cycle
needs is lost, whatever caches are deleted.

It runs at the same time as a driver. It takes no epoch: an order of its own keeps two maintenances apart. It trims up to what
the driver builds on and no further, which the driver says in the ledger (`operator_state`); up to where is said there before
anything is deleted, so a trim that was begun is finished by the next one.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger import fence, fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan, StoredState
from lakestreams.engine.protocol import commands, decisions, machines, maintenance
from lakestreams.engine.runtime.conflicts import lost_to_others
from lakestreams.engine.state import snapshots
from lakestreams.engine.state import store as state
from lakestreams.engine.state.cached_frames import CachedFrames
from lakestreams.engine.state.inputs import over, reopens
from lakestreams.engine.state.reach import tables_before
from lakestreams.engine.takeover.claiming import Claiming
from lakestreams.errors import Fenced
from lakestreams.evaluate import walk
from lakestreams.expectations.rules import dropped
from lakestreams.maintenance.needed import (
    CITED,
    SAID,
    STAYS,
    cycle_of,
    deletes,
    is_history,
    is_live,
    is_said,
    may_refuse_later,
    taken_by,
    with_earlier,
)
from lakestreams.operators.records import CONTRIBUTORS
from lakestreams.topology.graph import only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        ledger: of the pipeline.
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
        hands = _Hands(self, ingested_before_ms)
        own = machines.Pipeline((), (), remembers=self.remembers, semantics=self.fingerprint)
        try:
            commands.carry_out(maintenance.trim(own, self.ledger.table), hands)
        except commands.Stop as stop:
            raise Fenced(hands.claiming.beaten()) from stop
        return hands.outcome()

    def planned(self, ingested_before_ms: int) -> Trimmed:
        """What `run` would do; changes nothing."""
        history = self.ledger.history(self.spark)
        outcome = Trimmed(decisions.cycle_of(history.trim))
        plans = self.old(history, ingested_before_ms)
        reached, outcome.notes = self.target(history, plans)
        target = up_to(plans[reached]) if reached else history.trim if self.may_finish(history) else None
        if target is not None:
            outcome.cycle = target.cycle
            for source in self._existing():
                outcome.rows[source.topic] = self._outdated(source, history, target).count()
        return outcome

    # --- up to where -------------------------------------------------------------------------------------------------

    @property
    def remembers(self) -> bool:
        """Whether nodes keep anything that is made of bronze."""
        return not only_looks_up(self.topology.nodes)

    def old(self, history: History, ingested_before_ms: int) -> dict[int, Plan]:
        """The finished cycles that are not trimmed, all of whose records were ingested before a moment."""
        seq = self.ledger.ingested_before(self.spark, ingested_before_ms)
        topics = [source.topic for source in self.topology.sources]
        plans = self.ledger.plans(self.spark, decisions.cycle_of(history.trim) + 1, topics)
        return {plan.cycle: plan for plan in plans if plan.seq <= seq and plan.cycle <= history.done_cycle}

    def target(self, history: History, plans: Mapping[int, Plan]) -> tuple[int, list[str]]:
        """Up to which of these cycles may be trimmed, and why no more is; 0: none."""
        stored = decisions.cycle_of(history.state) if self.remembers else history.done_cycle
        done = decisions.trim_target([*plans], history.done_cycle, stored)
        cycles = sorted(plans)  # there may be a million; topics only grow, so all behind the first one that is fit are
        fit = bisect_left(cycles, True, key=lambda cycle: not self.reopened_since(plans[cycle], history))
        reached = decisions.trim_target(cycles[fit:], history.done_cycle, stored)
        notes = []
        if reached < done:
            notes.append(
                f"cycles {max(reached, decisions.cycle_of(history.trim)) + 1} to {done} are not trimmed yet: a topic has grown "
                "since, and windows that had closed by then are open again"
            )
        if plans and done < max(plans):
            to_cycle = min(history.done_cycle, stored)
            notes.append(
                f"cycles {to_cycle + 1} to {max(plans)} are not trimmed: what joins and aggregates remember is stored "
                f"as of cycle {to_cycle}" + ("" if to_cycle else ", that is not yet")
            )
        if reached and not self._same_configuration(history):
            notes.append("the configuration is not that of the last run: run the pipeline once before trimming")
            reached = 0
        return reached, notes

    def reopened_since(self, plan: Plan, history: History) -> bool:
        """Whether windows that had closed behind a plan's cycle are open again: a base as of its end would lack them."""
        return self.remembers and history.plan is not None and reopens(self.topology, plan, history.plan)

    def streams(self, history: History, target: Plan) -> frozenset[str]:
        """The topics of which nothing stays, now or since an earlier trim; what was never read as a stream is not among them."""
        read = {one.topic for one in self.topology.sources if one.kind == "stream"}
        return history.trimmed_streams | {part.topic for part in target.ranges if part.topic in read and part.to_offset}

    def may_finish(self, history: History) -> bool:
        """Whether a trim was begun and not finished, and what is to go is what these files say."""
        return bool(decisions.unfinished(history)) and self._same_configuration(history)

    def _same_configuration(self, history: History) -> bool:
        """Whether what ran last is what the files say now, as far as it decides what may go."""
        if self.remembers:
            return history.state is not None and history.state.fingerprint == self.fingerprint
        ran = history.plan.fingerprint if history.plan is not None else ""
        return fingerprint.describes(self.ledger.configuration(self.spark, ran), self.topology)

    # --- deleting ----------------------------------------------------------------------------------------------------

    def _existing(self) -> list[Source]:
        lake, name = self.ledger.lake, self.ledger.pipeline
        return [one for one in self.topology.sources if lake.bronze(name, one.topic).exists(self.spark)]

    def delete(self, history: History, target: Plan, outcome: Trimmed) -> bool:
        """Deletes what is not needed any more; whether all of it."""
        whole = True
        for source in self._existing():
            table = self.ledger.lake.bronze(self.ledger.pipeline, source.topic)
            if source.kind == "stream" and source.topic not in history.trimmed_streams:
                continue  # it was a table when the trim began, which does not name it: the next one does
            try:
                if source.kind == "stream" and not may_refuse_later(self.topology):
                    deleted = table.delete(self.spark, taken_by(source, target))
                else:
                    outdated = self._outdated(source, history, target)
                    self._forget_snapshot(source, history)
                    deleted = table.delete_these(self.spark, outdated, _PLACE, taken_by(source, target, of="t."))
                outcome.rows[source.topic] = deleted
            except Exception as error:
                if not lost_to_others(error):
                    raise
                outcome.notes.append(f"bronze of {source.topic} is too busy: the next maintenance continues there")
                whole = False
        return whole

    def _outdated(self, source: Source, history: History, target: Plan) -> DataFrame:
        """The bronze rows that nothing after the target's cycle needs."""
        rows = self.ledger.lake.bronze(self.ledger.pipeline, source.topic).read(self.spark)
        rows = rows.withColumn(SAID, is_said(source))
        taken = self._with_cited(rows.where(taken_by(source, target)), source, history, target)
        if source.kind == "stream":
            return taken.where(~F.col(CITED)).select(*_PLACE)
        plans = tables_before(self.spark, self.ledger, self.topology, replace(history, trim=target))
        broken = dropped(source, self.topology.expectations)
        readable = F.col("error").isNull() & F.col("k").isNotNull()
        if broken is not None:
            readable = readable & ~broken
        placed = taken.where(readable).withColumn("_cycle", cycle_of(source, plans))
        unused = self.remembers and self._same_configuration(history)
        since = None if unused else snapshots.lacks_from(self.spark, self.ledger, source)
        needed = is_live(source) | is_history(source) | deletes(source, since) | F.col(STAYS)
        judged = with_earlier(source, placed).withColumn("_needed", needed)
        refused = taken.where(~readable & ~F.col(SAID)).select(*_PLACE)
        return refused.unionByName(judged.where("not _needed").select(*_PLACE))

    def _forget_snapshot(self, source: Source, history: History) -> None:
        """Makes a snapshot unfit that nobody builds on now and that would be wrong later: of other rules, or of no use here."""
        if source.kind != "stream" and self._same_configuration(history):
            whose = None if self.remembers else self.topology.expectations
            snapshots.forget(self.spark, self.ledger, source, whose)

    def _with_cited(self, rows: DataFrame, source: Source, history: History, target: Plan) -> DataFrame:
        """Rows with whether a node remembers them, where a step may refuse them yet: then quarantine wants their bytes."""
        if not may_refuse_later(self.topology):
            return rows.withColumn(CITED, F.lit(False))
        remembered = self._remembered(source, history, target).withColumn("_remembered", F.lit(True))
        cited = F.coalesce("_remembered", F.lit(False))
        return rows.join(remembered, on=list(_PLACE), how="left").withColumn(CITED, cited)

    def _remembered(self, source: Source, history: History, target: Plan) -> DataFrame:
        """Where the records lie that nodes remember as of the target."""
        stored = history.base if decisions.cycle_of(history.base) >= target.cycle else history.state
        found = self.spark.createDataFrame([], f"source string, {', '.join(f'{name} bigint' for name in _PLACE)}")
        for own in state.load(self.spark, self.ledger, stored).values() if stored is not None else ():
            for frame in own.values():
                if CONTRIBUTORS in frame.columns:  # a group has none: what it gives later is caused by a later record
                    one = frame.select(F.explode(CONTRIBUTORS).alias("one")).select(
                        "one.source", *(F.col(f"one.{name}").cast("bigint").alias(name) for name in _PLACE)
                    )
                    found = found.unionByName(one)
        return found.where(F.col("source") == source.topic).select(*_PLACE).distinct()


def up_to(last: Plan) -> Plan:
    """Everything that the cycles up to one took, as one plan."""
    begun = tuple(replace(part, from_offset=0, records=0, bad=0, null_keys=0, null_values=0) for part in last.ranges)
    return Plan(last.cycle, "", begun, last.clocks, 0, last.seq)


class _Hands:
    """The hands of `maintenance.trim`; what came of it."""

    def __init__(self, trimming: Trimming, ingested_before_ms: int) -> None:
        self._own, self._before_ms = trimming, ingested_before_ms
        self._spark = trimming.spark
        self.claiming = Claiming(self._spark, replace(trimming.ledger, run_id=str(uuid.uuid4())))
        self._history = History()
        self._old: dict[int, Plan] = {}  # that may be trimmed
        self._behind: list[Plan] = []  # the last base
        self._target = 0
        self._notes: list[str] = []
        self._wrote = False  # a base, or a `trim` row
        self._deleted: Trimmed | None = None

    def outcome(self) -> Trimmed:
        """What was trimmed, and why no more was."""
        outcome = self._deleted or Trimmed()
        outcome.cycle = decisions.cycle_of(self._history.trim)
        notes = [*self._notes]
        if self._target and not self._wrote:
            notes.append("no more is trimmed: the base is missing, and nothing was stored since")
        if self._deleted is None and decisions.unfinished(self._history):
            builds_on = f"the running driver builds on cycle {decisions.cycle_of(self._history.state)}"
            why = builds_on if self._own.may_finish(self._history) else "the last run had another configuration"
            notes.append(f"nothing is deleted yet: {why}")
        outcome.notes[:0] = notes
        return outcome

    def __call__(self, command: commands.Command) -> Any:
        """Does what a command says, and gives the answer."""
        own, mine = self._own, self.claiming.ledger
        match command:
            case commands.Read(commands.LEDGER):
                self._history = self._newest(mine)
                return self._history
            case commands.Read("plans"):
                self._old = own.old(self._history, self._before_ms)
                self._target, self._notes = own.target(self._history, self._old)
                return [cycle for cycle in self._old if cycle <= self._target]
            case commands.Read("holds", stored):
                return not self._lacks_windows(stored) and state.is_usable(self._spark, mine, stored, own.fingerprint)
            case commands.Read("bronze", (since, target)):
                topics = [source.topic for source in own.topology.sources]
                plans = mine.plans(self._spark, since + 1, topics)
                self._behind = [plan for plan in plans if plan.cycle <= target]
                return _portions(self._behind, lambda plan: not own.reopened_since(plan, self._history))
            case commands.Overwrite(stored, since):
                return self._kept(mine, stored, since)
            case commands.Append(row=("base", *_)):
                mine.append_stored(self._spark, command)
                self._wrote = True
                mine.failpoint("base.after")
            case commands.Append(row=("trim", target, _)):
                mine.failpoint("trim.before")
                whole = up_to(self._old[target])
                mine.record_trim(self._spark, whole, own.streams(self._history, whole), done=False)
                self._wrote = True
                mine.failpoint("trim.after")
            case commands.Delete() if own.may_finish(self._history):
                self._deleted = Trimmed()
                return own.delete(self._history, _said(self._history), self._deleted)
            case commands.Delete():
                return False
            case commands.Append(row=("trimmed", *_)):
                mine.failpoint("trimmed.before")
                mine.record_trim(self._spark, _said(self._history), done=True)
            case _:
                return self.claiming.hands(command)
        return None

    def _lacks_windows(self, base: StoredState) -> bool:
        """Whether a trim that never came has left a base, and windows are open again since, which drivers have from before it."""
        plan = self._old.get(base.cycle) if self._history.trim is None else None
        return plan is not None and self._own.reopened_since(plan, self._history)

    def _newest(self, ledger: Ledger) -> History:
        """The ledger's history; of maintenances before there were rows of them fences alone know."""
        history = ledger.history(self._spark)
        last = history.maintenance or fence.newest(self._spark, ledger.lake, ledger.pipeline, "maintain")
        return replace(history, maintenance=last)

    def _kept(self, mine: Ledger, stored: StoredState, since: StoredState | None) -> StoredState:
        """Writes what the nodes keep as of a cycle: what is stored before, or what the cycles behind that make of it."""
        own, cached = self._own, CachedFrames()
        plans = [plan for plan in self._behind if decisions.cycle_of(since) < plan.cycle <= stored.cycle]
        kept = state.load(self._spark, mine, since) if since is not None else {}
        if plans:
            rows = since.rows if since is not None else 0
            inputs = over(self._spark, mine, own.topology, plans, kept, rows, keeps=True, hold=cached)
            kept = walk.run(own.topology, inputs).kept
        mine.failpoint("base.before")
        written = state.write(self._spark, mine, kept, stored)
        cached.release()
        return written


def _said(history: History) -> Plan:
    """The trim that was begun."""
    if history.trim is None:
        message = "nothing says up to where bronze is trimmed"
        raise RuntimeError(message)
    return history.trim


def _portions(plans: Sequence[Plan], may_end: Callable[[Plan], bool]) -> list[int]:
    """The last cycle of each range of plans of not too many records, or of more where none may end before."""
    ends: list[Plan] = []
    records = 0
    for plan in plans:
        own = sum(part.records for part in plan.ranges)
        if ends and (records + own <= _AT_ONCE or not may_end(ends[-1])):
            ends[-1], records = plan, records + own
        else:
            ends.append(plan)
            records = own
    return [plan.cycle for plan in ends]
