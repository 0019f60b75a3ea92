"""The cycles of a run: each is planned, executed and closed; the last one may be left open for the plan of the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lakestreams.engine import settling
from lakestreams.engine.ingest import unseen
from lakestreams.engine.protocol import commands, machines
from lakestreams.engine.publish import cycle
from lakestreams.engine.runtime.parallel import concurrently
from lakestreams.engine.runtime.progress import wall_clock_ms
from lakestreams.engine.state import retained
from lakestreams.engine.takeover import running, tables
from lakestreams.operators.workers import coded_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.engine.ingest.ingesting import Ingesting
    from lakestreams.engine.ledger.last_cycle import LastCycle
    from lakestreams.engine.ledger.pending_append import PendingAppend
    from lakestreams.engine.ledger.plans import Plan
    from lakestreams.engine.ledger.settle import Frontier
    from lakestreams.engine.ledger.stopped import Topics
    from lakestreams.engine.publish.event_log import EventLog
    from lakestreams.engine.publish.events import CycleSummary
    from lakestreams.engine.publish.expectations import ExpectationChecker
    from lakestreams.engine.run import Run
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.kafka.noted import TopicPartition
    from lakestreams.topology.endpoints import Source


@dataclass
class Cycles:
    """Plans, executes and closes cycles, one after another.

    Attributes:
        run: the pipeline that was taken over.
        ingesting: has what cycles take.
        last: how far the last cycle has come.
        retained: what cycles need of those before.
        checker: judges what is expected.
        topics: what is known of topics that are written.
        events: the event log.
        unseen: sources whose fields are still to be looked for.
        counts: how many records were planned.
    """

    run: Run
    ingesting: Ingesting
    last: LastCycle
    retained: retained.RetainedState
    checker: ExpectationChecker
    topics: Topics
    events: EventLog
    unseen: list[Source]
    counts: cycle.RunCounts = field(default_factory=cycle.RunCounts)
    _left: CycleSummary | None = None  # of a cycle that was left, and that a pending plan closes

    @property
    def _pending(self) -> PendingAppend:
        """Rows of the ledger that need not be there yet."""
        return self.ingesting.handed.pending

    # --- plan ------------------------------------------------------------------------------------------------------

    def process(self, ends: Mapping[TopicPartition, int], view: ClusterView) -> Frontier | None:
        """Plans and executes one cycle over what is settled.

        Args:
            ends: the ends below which a partition holds the others back; none when ingest has come to its end.
            view: the cluster at the round's start.

        Returns:
            What the settling `event_time` went by, of which time may not ask again: a partition may be silent by then.
        """
        bronze = self.ingesting.bronze
        with self.run.reporter.timed("settle"):
            self.ingesting.take_note()
            frontier = settling.frontier_of(self.run, bronze, view)
            plan = settling.settled_plan(self.run, bronze, self.checker.rules, ends, view, frontier)
            if plan is None:
                self._pending.begin()
                return frontier
            self.ingesting.require_unchanged(view)
            plan = self._record(plan, view)
        self._refresh()
        self.execute(plan)
        return frontier

    def pass_time(self, view: ClusterView, frontier: Frontier | None) -> None:
        """Plans and executes a cycle without records where time has passed.

        Args:
            view: the cluster at the round's start.
            frontier: what the last plan went by.
        """
        if isinstance(self.retained, retained.TableState):
            return  # nothing waits
        plan = settling.idle_plan(self.run, self.ingesting.bronze, frontier)
        if plan is not None:
            plan = self._record(plan, view)
            self._refresh()
            self.execute(plan)

    def _record(self, plan: Plan, view: ClusterView) -> Plan:
        """Appends a plan to the ledger, which closes the cycle before: the plan as it is there, or will be.

        Nothing of the cycle is published before it is (`machines.execute`), and nothing of the past is stored (`_refresh`).
        """
        run = self.run
        plan = replace(plan, ranges=tuple(replace(part, end_offset=view.ends.get(part.at)) for part in plan.ranges))
        summary = self._summary() if self.last.open_plan is not None else None
        self._left = summary if self.last.state == "left" else None
        closes = None if summary is None else summary.as_dict()
        self._pending.append(partial(run.ledger.record, run.spark), run.ledger.plan_row(plan, closes))
        if summary is not None:
            self._closed(summary)
        self.last.planned(plan, run.reporter.summary.seconds, run.now_ms())
        self.ingesting.bronze.planned(plan)
        run.reporter.tell("planned", cycle=plan.cycle, records=sum(part.records for part in plan.ranges))
        return plan

    # --- execute ---------------------------------------------------------------------------------------------------

    def repeat(self) -> None:
        """Executes a cycle that was begun and not finished, if there is one."""
        plan = self.last.open_plan
        if plan is None:
            return
        if plan.cycle != self.topics.stopped:  # else it has written no topic
            self.run.reporter.warn(*tables.repeated(self.run.topology, plan))
        plan = self.checker.recounted(plan)
        self.last.revised(plan)
        self.execute(plan, repeated=True)

    def execute(self, plan: Plan, *, repeated: bool = False) -> None:
        """Publishes a plan's results.

        Args:
            repeated: whether a driver before may have published some of it.
        """
        run = self.run
        self.counts.add(plan)
        with (
            run.reporter.timed("join"),
            self.topics.watched(plan, repeated=repeated),
            self._recorded(),
            self._pending.at_once(),
            coded_errors(),
        ):
            self.counts.require_share(run.settings.max_bad_share)
            executed, without = self._evaluated(plan, repeated=repeated)
            self.retained.executed(plan, executed.results)
        self.last.executed(executed.cycle_metrics)
        self._warn_of(plan, executed, without)
        records = sum(part.records for part in plan.ranges)
        bad = sum(part.bad for part in plan.ranges)
        run.reporter.summary.records += records
        run.reporter.summary.bad += bad
        run.reporter.tell("published", cycle=plan.cycle, records=records, bad=bad)

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """What the block fails with is raised when what is pending of the ledger is there; if that fails, it instead."""
        try:
            yield
        except Exception:
            self._pending.settled()
            self._left = None
            raise
        self._left = None

    def _evaluated(self, plan: Plan, *, repeated: bool) -> tuple[cycle.Executed, list[str]]:
        """Evaluates a cycle and publishes it. What can run meanwhile does: to store what nodes keep, and to look for fields.

        Returns:
            What the cycle has given, and warnings of declared fields that no record has.
        """
        run = self.run
        with run.tuning.rows(self.retained.rows_in_memory(plan)):
            inputs = replace(self.retained.inputs(plan), record_bytes=run.tuning.record_bytes)
        extract = inputs.extract

        def computed(*frames: DataFrame) -> list[tuple[DataFrame, int | None]]:
            with run.tuning.lookup():
                return extract(*frames)

        with run.tuning.rows(inputs.rows):  # frames that are kept are planned here, and some are computed
            evaluated = cycle.evaluate(
                run.ledger, run.topology, plan, replace(inputs, extract=computed), self.checker, repeated=repeated
            )
        with run.tuning.rows(evaluated.results.rows(inputs)), concurrently(run.spark) as begin:
            storing = partial(self.retained.begin, begin, plan, evaluated.results)
            looking = [begin(partial(unseen.fields, run.spark, run.ledger, one, plan)) for one in self._unseen(plan)]
            executed = cycle.execute(
                run.spark, run.ledger, run.topology, plan, evaluated, run.endpoints.target, self.checker,
                recorded=self._pending.settled,
                storing=storing if evaluated.results.kept and not run.tuning.is_small else None,
                before_topics=partial(self.topics.begin, plan),
                merging=partial(run.tuning.rows, evaluated.results.rows(inputs) + self._merged(plan)),
            )  # fmt: skip
        return executed, [text for one in looking for text in one.result()]

    def _unseen(self, plan: Plan) -> list[Source]:
        """The sources whose fields a plan's records show for the first time."""
        shown = [one for one in self.unseen if plan.records(one.topic) >= unseen.LEAST]
        self.unseen = [one for one in self.unseen if one not in shown]
        return shown

    def _merged(self, plan: Plan) -> int:
        """How many rows the tables that are merged into may have."""
        merged = [sink for sink in self.run.topology.sinks if sink.mode == "merge" and cycle.causes(plan, sink)]
        return sum(plan.positions.values()) if merged else 0

    def _warn_of(self, plan: Plan, executed: cycle.Executed, without: list[str]) -> None:
        """Tells of event times that cannot be meant, and of declared fields that no record has."""
        run = self.run
        for text in running.in_the_future(run.topology, executed.cycle_metrics, wall_clock_ms()):
            run.reporter.warn(f"cycle {plan.cycle}: {text}")
        run.reporter.warn_once(*running.in_seconds(run.topology, plan))
        run.reporter.warn(*without)

    # --- close -----------------------------------------------------------------------------------------------------

    def finish(self, *, logs: bool = True) -> None:
        """Closes the last cycle, if it is open and has been executed; and `logs` it, if that is due."""
        at = machines.At(self.last.plan, self.last.state, ())
        commands.carry_out(machines.close(self.run.ledger.turn, at), lambda _: self._finish(logs=logs))

    def _finish(self, *, logs: bool) -> None:
        summary = self._summary()
        with self.run.reporter.timed("finish"):
            self.run.ledger.record_done(self.run.spark, summary.cycle, summary.as_dict())
            self._closed(summary)
            with concurrently(self.run.spark) as begin:
                logged = begin(self.write_events) if logs and self.events.due else None
                self._refresh()
            if logged is not None:
                logged.result()

    def leave_open(self) -> None:
        """Ends a round whose last cycle is closed by the next plan."""
        self.last.left_open(self._summary())

    def close_left(self) -> None:
        """Closes a cycle that an earlier round has left, if that is not in the ledger: the plan may not be there that says so."""
        if self.last.state == "left":
            self.finish(logs=False)
        elif self._left is not None:
            self.run.ledger.record_done(self.run.spark, self._left.cycle, self._left.as_dict())

    def write_events(self) -> None:
        """Writes to the event log what it lacks."""
        with self.run.reporter.timed("events"):
            self.events.write()

    def _summary(self) -> CycleSummary:
        """What is reported of the open cycle, which is about to be closed."""
        return self.last.summary(self.run.ledger.run_id, self.run.reporter.summary.seconds, self.run.now_ms())

    def _closed(self, summary: CycleSummary) -> None:
        """Goes on from a cycle of which the ledger says that it is done."""
        plan = self.last.closed()
        self.checker.closed(plan, summary.cycle_metrics)
        self.events.closed(plan, summary)
        self.run.reporter.summary.cycles += 1
        self.retained.finished(plan)
        self.run.reporter.tell("finished", cycle=plan.cycle)

    def _refresh(self) -> None:
        """Stores of the past what is due, when the ledger has all that it is of."""
        with self.run.reporter.timed("snapshot"):
            if self.retained.is_due:
                self._pending.settled()
            with self.run.tuning.rows(self.retained.rows):
                stored = self.retained.refresh()
            for name, rows in stored:
                self.run.reporter.tell("snapshot", source=name, rows=rows)


__all__ = ["Cycles"]
