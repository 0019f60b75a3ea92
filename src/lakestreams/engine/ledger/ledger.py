"""The ledger: one Delta table in which every driver writes down what it is about to do before it does it.

Kinds of rows:
    epoch   a driver has taken the pipeline over; the newest epoch is the only one that may write
    config  the full text of topology and configuration, once a fingerprint; and the fingerprint of what results follow from
    ingest  a bronze batch is complete: offsets per topic-partition, counts, clocks
    plan    a cycle: which offsets it takes, what the clocks are; appended before anything derived is written
    taken   a cycle of which nothing is out is executed under another configuration from now on
    done    a cycle is published that no plan follows at once (otherwise the next plan says so)
    state   what the nodes keep of the past is stored, as of a finished cycle
    maintain  the newest one is the only maintenance that may write what follows; drivers do not care
    base    what the nodes keep is stored once more, as of the cycle up to which bronze is trimmed
    trim    up to which cycle bronze is trimmed; appended before anything is deleted
    trimmed the same, when it is done
    schema  what a registry says of an id, before the first record is read by it; one row an id (decision 0038)
    accepted  the operator goes on with a changed pipeline, or with tables that were changed: what changed
    stopped a cycle ended with an error before the first record of it went to a topic
    publishing  such a cycle is executed again, and its first topic is written from here on
    ended   a run has ended well; behind all that it wrote, so the next driver of its configuration has nobody to stop
    loss    records that expired before they were read, accepted by the operator

Plans and ingests are what every result is a function of; nothing here is ever changed or removed by the engine.
What rows say is handed on as plain values, those of `plans`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger import fence
from lakestreams.engine.ledger.plans import Ingest, Plan, Range, StoredState
from lakestreams.engine.ledger.reading import LedgerReader
from lakestreams.engine.ledger.rows import (
    FORMER,
    MARKED,
    REQUEST,
    RESULTS,
    SCHEMA_OF_ID,
    SEMANTICS,
    clocks_of,
    details_of,
    frame_of,
    row_of,
    schema_details,
    streams_option,
)
from lakestreams.engine.protocol import commands, decisions, machines
from lakestreams.engine.runtime.failpoints import Failpoints
from lakestreams.engine.runtime.write_metrics import WriteMetrics
from lakestreams.errors import Fenced
from lakestreams.formats.writers import SchemaName, Written
from lakestreams.kafka.noted import Noted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration

_ROWS = "rows"


@dataclass(frozen=True)
class OwnRow:
    """A row of which there is one a number, for all drivers.

    Attributes:
        kind, number: a batch or a plan, and which one.
        counted_by: the column that has the number.
        columns: the row.
    """

    kind: Literal["ingest", "plan"]
    number: int
    counted_by: str
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class Ledger(LedgerReader):
    """One pipeline's rows of the ledger, read and appended under one epoch.

    A frozen value: a claim gives the ledger of the claimed epoch.

    Attributes:
        epoch, run_id: of whoever appends.
        role: the kind of rows whose newest one may write: `epoch` of drivers, `maintain` of maintenance at the same time.
        noted: what the driver last saw of the topics; it stands in the rows of claims and of ingest batches.
        failpoint: where a test can make whoever appends fail.
    """

    epoch: int = 0
    run_id: str = ""
    role: commands.Role = "epoch"
    noted: Noted = field(default_factory=Noted, compare=False)
    failpoint: Failpoints = field(default_factory=Failpoints, compare=False, repr=False)

    @property
    def turn(self) -> commands.Turn:
        """Who appends."""
        return commands.Turn(self.role, self.epoch)

    def append_claim(self, spark: SparkSession, options: Mapping[str, str], config: Configuration | None) -> bool:
        """Appends this ledger's epoch, unfenced, and a configuration that the ledger has not seen.

        Returns:
            Whether the append itself tells that the epoch is this run's.
        """
        ids, details = dict(self.noted.ids), details_of((), noted=self.noted)
        rows = [self._row(self.role, options=dict(options), topic_ids=ids, details=details)]
        if config is not None:  # in the same commit: one is never there without the other
            semantics = {SEMANTICS: config.semantics, RESULTS: config.results}
            rows.append(self._row("config", fingerprint=config.whole, config=config.text, options=semantics))
        written = self._written(f"{self.role} {self.run_id}")
        known = decisions.of_claim(self.turn).of(self.pipeline)
        once = self.table.append(written.of(frame_of(spark, rows)), *known)
        return once and written.counts() == {_ROWS: len(rows)}

    def is_newest(self, spark: SparkSession) -> bool:
        """Whether this ledger's epoch is the newest and of this run: of two equal ones Delta took one."""
        row = (
            self.rows(spark)
            .where((F.col("kind") == self.role) & (F.col("epoch") >= self.epoch))
            .select("epoch", "run_id")
            .orderBy(F.desc("epoch"))
            .limit(1)
            .collect()
        )
        return [tuple(one) for one in row] == [(self.epoch, self.run_id)]

    def record_loss(self, spark: SparkSession, ranges: Iterable[Range], seq: int | None = None, nth: int = 1) -> None:
        """Writes down records that expired unread: the run's nth such row, or of one topic before the batch behind it."""
        parts = list(ranges)
        known = decisions.of_loss(self.epoch, nth) if seq is None else decisions.of_loss_before(parts[0].topic, seq)
        self._append(spark, [self._row("loss", ranges=[row_of(part) for part in parts])], known)

    def record_schema(self, spark: SparkSession, name: SchemaName, schema: Written) -> None:
        """Writes down the schema of an id or a GUID, unless it is there."""
        number = name if isinstance(name, int) else None
        row = self._row(SCHEMA_OF_ID, seq=number, details=schema_details(name, schema))
        self._append(spark, [row], decisions.of_schema(name))

    def ingest_row(self, ingest: Ingest) -> OwnRow:
        """What closes a bronze batch."""
        row = self._row(
            "ingest",
            seq=ingest.seq,
            seq_from=ingest.seq_from,
            ranges=[row_of(part) for part in ingest.ranges],
            options={REQUEST: str(ingest.request)} if ingest.request else {},
            topic_ids=dict(self.noted.ids),
            details=details_of(ingest.ranges, noted=self.noted, mean_bytes=ingest.mean_bytes),
        )
        return OwnRow("ingest", ingest.seq, "seq", row)

    def plan_row(self, plan: Plan, summary: Mapping[str, Any] | None = None) -> OwnRow:
        """What plans a cycle.

        Args:
            summary: what is reported of the cycle before, which this row closes.
        """
        row = self._row(
            "plan",
            cycle=plan.cycle,
            seq=plan.seq,
            seq_from=plan.seq_from,
            fingerprint=plan.fingerprint,
            ranges=[row_of(part) for part in plan.ranges],
            clocks=clocks_of(plan),
            attempts=[],
            topic_ids=dict(plan.topic_ids),
            ticks=[{"topic": at[0], "partition": at[1], "time_ms": ms} for at, ms in sorted(plan.ticks.items())],
            details=details_of(plan.ranges, summary),
        )
        return OwnRow("plan", plan.cycle, "cycle", row)

    def record(self, spark: SparkSession, *rows: OwnRow) -> None:
        """Appends such rows in one commit, and makes sure that it is this run that does (`machines.record`).

        Raises:
            Fenced: if a newer driver is there, or another one has a row with the number of the last.
        """
        for one in rows:
            self.failpoint(f"{one.kind}.before")
        last = rows[-1]

        def hands(command: commands.Command) -> bool:
            if isinstance(command, commands.Append):
                written = self._written(" ".join(f"{one.kind} {one.number}" for one in rows))
                once = self._append(spark, [one.columns for one in rows], command.transaction, written)
                return once and written.counts() == {_ROWS: len(rows)}
            there = self.rows(spark).where((F.col("kind") == last.kind) & (F.col(last.counted_by) == last.number))
            return [one["run_id"] for one in there.select("run_id").limit(2).collect()] == [self.run_id]

        try:
            commands.carry_out(machines.record(self.turn, last.kind, last.number, last), hands)
        except commands.Stop as stop:
            done = {"ingest": "closed batch", "plan": "planned cycle"}[last.kind]
            message = f"another driver {done} {last.number} of pipeline {self.pipeline}"
            raise Fenced(message) from stop
        for one in rows:
            self.failpoint(f"{one.kind}.after")

    def record_taken(self, spark: SparkSession, cycle: int, fingerprint: str) -> None:
        """Says that a cycle, of which nothing is out, is executed under this configuration from now on."""
        self.failpoint("taken.before")
        self._append(spark, [self._row("taken", cycle=cycle, fingerprint=fingerprint)], decisions.of_taken(self.epoch))
        self.failpoint("taken.after")

    def record_accepted(
        self,
        spark: SparkSession,
        cycle: int,
        fingerprint: str,
        former: str,
        changes: Sequence[str],
        what: str = "topology",
    ) -> None:
        """Writes down that the operator goes on although something has changed, once a run and thing.

        Args:
            cycle: the last finished one.
            fingerprint: of this run's configuration.
            former: of that before, if that is what changed.
            changes: in words, one a change.
            what: has changed, such as `topology` or `tables`.
        """
        details = json.dumps({"changes": list(changes)})
        row = self._row("accepted", cycle=cycle, fingerprint=fingerprint, options={FORMER: former}, details=details)
        self._append(spark, [row], decisions.of_said(f"accepted/{what}", self.epoch))
        self.failpoint("accepted.after")

    def record_said(self, spark: SparkSession, kind: Literal["stopped", "publishing", "ended"], cycle: int = 0) -> None:
        """Appends what is said once a run: of a cycle without records in topics, or that the run is over."""
        self._append(spark, [self._row(kind, cycle=cycle)], decisions.of_said(kind, self.epoch))

    def record_done(self, spark: SparkSession, cycle: int, summary: Mapping[str, Any] | None = None) -> None:
        """Closes a cycle that no plan follows, with what is reported of it."""
        self.failpoint("finish.before")
        row = self._row("done", cycle=cycle, details=details_of((), summary))
        self._append(spark, [row], decisions.of_row("done", cycle))
        self.failpoint("finish.after")

    def record_trim(self, spark: SparkSession, whole: Plan, streams: Iterable[str] = (), *, done: bool) -> None:
        """Says up to where bronze is being trimmed, or that this is done.

        Args:
            whole: everything that the cycles up to it took, as one plan.
            streams: topics of which nothing stays, as they are or were read as streams.
            done: whether everything is deleted that is to be.
        """
        kind = "trimmed" if done else "trim"
        ranges = [row_of(part) for part in whole.ranges]
        row = self._row(kind, cycle=whole.cycle, seq=whole.seq, seq_from=whole.seq_from, fingerprint="", ranges=ranges,
                        clocks=clocks_of(whole), options=streams_option(streams))  # fmt: skip
        self._append(spark, [row], decisions.of_row(kind, whole.cycle))

    def append_stored(self, spark: SparkSession, append: commands.Append) -> None:
        """Appends what `keeping.say` says: where what the nodes keep lies from now on."""
        state: StoredState
        kind, cycle, state = append.row
        options = {"slot": state.slot, "rows": str(state.rows), "frames": json.dumps(state.frames)}
        options |= {MARKED: "true"} if state.marked else {}
        row = self._row(kind, cycle=cycle, fingerprint=state.fingerprint, options=options)
        self._append(spark, [row], append.transaction)

    def fence(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """The rows, which can be written only while this epoch is the newest."""
        return fence.fenced(spark, rows, self.lake, self.pipeline, self.role, self.epoch)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _written(self, what: str) -> WriteMetrics:
        """Tells whether an append wrote rows: one that Delta skips, as another driver's has its number, does not run."""
        return WriteMetrics(f"{self.pipeline} {self.epoch} ledger {what}", {_ROWS: F.count(F.lit(1))})

    def _append(
        self,
        spark: SparkSession,
        rows: Sequence[Mapping[str, Any]],
        known: commands.Transaction,
        written: WriteMetrics | None = None,
    ) -> bool:
        frame = frame_of(spark, rows)
        frame = self.fence(spark, frame if written is None else written.of(frame))
        with fence.translated(self.pipeline):
            return self.table.append(frame, *known.of(self.pipeline))

    def _row(self, kind: str, **columns: Any) -> dict[str, Any]:
        stamp = time.time_ns() // 1_000_000
        own = {"pipeline": self.pipeline, "kind": kind, "epoch": self.epoch, "run_id": self.run_id}
        return own | {"written_at_ms": stamp} | columns
