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
    accepted  the operator goes on with a changed pipeline, or with tables that were changed: what changed
    stopped a cycle ended with an error before the first record of it went to a topic
    publishing  such a cycle is executed again, and its first topic is written from here on
    loss    records that expired before they were read, accepted by the operator

Plans and ingests are what every result is a function of; nothing here is ever changed or removed by the engine.
What rows say is handed on as plain values, those of `plans`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import Row, StructType

from lakestreams.engine.ledger import fence
from lakestreams.engine.ledger.plans import Accepted, Claim, History, Ingest, KnownTable, Plan, Range, StoredState
from lakestreams.engine.protocol import commands, decisions
from lakestreams.engine.publish.events import Closing
from lakestreams.engine.runtime.failpoints import failpoint
from lakestreams.engine.runtime.lake import Lake, Table
from lakestreams.engine.runtime.write_metrics import Observed
from lakestreams.engine.takeover.claiming import Claiming
from lakestreams.errors import Fenced, LedgerInconsistent
from lakestreams.kafka.noted import Noted, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration

RANGE_TYPE = (
    "struct<topic: string, partition: int, from_offset: bigint, to_offset: bigint, end_offset: bigint, "
    "records: bigint, bad: bigint, null_keys: bigint, null_values: bigint, stream_time_ms: bigint, lag_ms: bigint>"
)
SCHEMA = (
    "pipeline string, kind string, epoch bigint, run_id string, cycle bigint, seq bigint, seq_from bigint, "
    "fingerprint string, written_at_ms bigint, "
    f"ranges array<{RANGE_TYPE}>, clocks array<struct<task: int, clock_ms: bigint>>, "
    "attempts array<struct<topic: string, partition: int, offset: bigint, attempt: int>>, "
    "topic_ids map<string, string>, options map<string, string>, config string, "
    "ticks array<struct<topic: string, partition: int, time_ms: bigint>>, details string"
)
# What of a range is told in the JSON text `details`: numbers that later versions may add to without another schema.
_TOLD = ("failed", "lateness")
_PROPERTIES = {"delta.dataSkippingStatsColumns": "pipeline,kind,epoch,cycle,seq"}
_EPOCH: Final = "epoch"  # the role of drivers
_MAINTAIN: Final = "maintain"
_REQUEST, _MEANING, _RESULTS, _FORMER = "request", "meaning", "results", "former"
_ROWS = "rows"
_TOPICS, _MEAN_BYTES = "topics", "mean_bytes"
_MARKED = "marked"
TABLES = "tables"


@dataclass(frozen=True)
class Ledger:
    """One pipeline's rows of the ledger, read and appended under one epoch.

    A frozen value: `claim` returns the ledger of the claimed epoch.

    Attributes:
        role: the kind of rows whose newest one may write: `epoch` of drivers, `maintain` of maintenance beside them.
        noted: what the driver last saw of the topics; it stands in the rows of claims and of ingest batches.
    """

    lake: Lake
    pipeline: str
    epoch: int = 0
    run_id: str = ""
    role: commands.Role = _EPOCH
    noted: Noted = field(default_factory=Noted, compare=False)

    @property
    def table(self) -> Table:
        """The Delta table; shared by the pipelines of a lake."""
        return self.lake.control("ledger")

    # --- reading ---------------------------------------------------------------------------------------------------

    def create(self, spark: SparkSession) -> bool:
        """Creates the table unless it is there: whether it was not."""
        return self.table.create(spark, schema(spark), properties=_PROPERTIES, grows=True, lenient=True)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The pipeline's rows."""
        return self.table.read(spark).where(F.col("pipeline") == self.pipeline)

    def history(self, spark: SparkSession) -> History:
        """The newest row of each kind; the result does not grow with the ledger."""
        newest = (
            self.rows(spark)
            .groupBy("kind")
            .agg(
                F.max_by(F.struct("*"), F.struct("epoch", "cycle", "seq")).alias("row"),
                F.collect_set(_configured()).alias("configured"),
                F.max("written_at_ms").alias("last_ms"),
            )
            .collect()
        )
        rows = {found["kind"]: found["row"] for found in newest}
        epoch = rows["epoch"]["epoch"] if "epoch" in rows else 0
        return History(
            epoch=epoch,
            ingest=_ingest(rows["ingest"]) if "ingest" in rows else None,
            plan=_plan(rows["plan"], rows.get("taken")) if "plan" in rows else None,
            done_cycle=decisions.done_cycle(*(rows[kind]["cycle"] if kind in rows else 0 for kind in ("done", "plan"))),
            meanings={one["fingerprint"]: one["meaning"] for found in newest for one in found["configured"]},
            state=_state(rows["state"]) if "state" in rows else None,
            base=_state(rows["base"]) if "base" in rows else None,
            trim=_plan(rows["trim"]) if "trim" in rows else None,
            trimmed=_plan(rows["trimmed"]) if "trimmed" in rows else None,
            maintenance=rows["maintain"]["epoch"] if "maintain" in rows else 0,
            accepted=_accepted(rows["accepted"]) if "accepted" in rows else None,
            stopped=_stopped(rows.get("stopped"), rows.get("publishing")),
            claim=_claim(rows["epoch"], max(found["last_ms"] for found in newest)) if "epoch" in rows else None,
            noted=_noted(rows),
            tables=_tables(rows["epoch"]) if "epoch" in rows else {},
        )

    def claimed(self, spark: SparkSession) -> Claim | None:
        """Who has the pipeline now; None if nobody ever had."""
        own = self.rows(spark).where(F.col("kind") == self.role)
        found = own.orderBy(F.desc("epoch")).limit(1).collect()
        return _claim(found[0], found[0]["written_at_ms"]) if found else None

    def began(self, spark: SparkSession) -> int:
        """The newest epoch that writes have met; of a ledger that was made anew it is not among its rows."""
        return fence.newest(spark, self.lake, self.pipeline, self.role)

    def ingests(self, spark: SparkSession, seq_from: int) -> list[Ingest]:
        """Ingest batches from one on, ascending; rows at the growing end only."""
        found = (
            self.rows(spark).where((F.col("kind") == "ingest") & (F.col("seq") >= seq_from)).orderBy("seq").collect()
        )
        return [_ingest(row) for row in found]

    def plans(self, spark: SparkSession, cycle_from: int, topics: Sequence[str] | None = None) -> list[Plan]:
        """Plans from a cycle on that take records of one of these topics, or of any, or move its clocks, ascending."""

        def wanted_one(topic: Column) -> Column:
            return F.lit(True) if topics is None else topic.isin(*topics)

        of_these = F.exists("ranges", lambda part: wanted_one(part["topic"]) & (part["records"] > 0))
        of_these |= F.coalesce(F.exists("ticks", lambda one: wanted_one(one["topic"])), F.lit(False))
        wanted = (F.col("kind") == "taken") | ((F.col("kind") == "plan") & of_these)
        found = self.rows(spark).where(wanted & (F.col("cycle") >= cycle_from)).orderBy("cycle", "epoch").collect()
        taken = {row["cycle"]: row for row in found if row["kind"] == "taken"}
        return [_plan(row, taken.get(row["cycle"])) for row in found if row["kind"] == "plan"]

    def plans_behind(self, spark: SparkSession, standing: Mapping[str, int]) -> list[Plan]:
        """Plans that take records of a topic behind the cycle that is given for it, ascending; at least one topic."""

        def behind(topic: str, cycle: int) -> Column:
            of_it = F.exists("ranges", lambda part: (part["topic"] == topic) & (part["records"] > 0))
            return (F.col("cycle") > cycle) & of_it

        # the least of them by itself, so that Delta skips the files before it
        newer = (F.col("kind") == "plan") & (F.col("cycle") > min(standing.values()))
        wanted = reduce(or_, (behind(*one) for one in standing.items()))
        return [_plan(row) for row in self.rows(spark).where(newer & wanted).orderBy("cycle").collect()]

    def closings(self, spark: SparkSession, cycle_from: int, limit: int = 10_000) -> list[Closing]:
        """What is told of finished cycles from one on, ascending; the newest ones if there are too many."""
        told = F.get_json_object("details", "$.closes")
        found = (
            self.rows(spark)
            .where(F.col("kind").isin("plan", "done") & (F.col("cycle") >= cycle_from) & told.isNotNull())
            .select("cycle", told.alias("closes"))
            .orderBy(F.desc("cycle"))
            .limit(limit)
            .collect()
        )
        closed = (Closing.from_dict(json.loads(row["closes"])) for row in reversed(found))
        return [one for one in closed if one.cycle >= cycle_from]

    def arrivals(self, spark: SparkSession) -> dict[TopicPartition, int]:
        """When the last records of each topic-partition were ingested, ms; one row a partition."""
        found = (
            self.rows(spark)
            .where(F.col("kind") == "ingest")
            .select("written_at_ms", F.explode("ranges").alias("part"))
            .where(F.col("part.records") > 0)
            .groupBy("part.topic", "part.partition")
            .agg(F.max("written_at_ms").alias("at"))
            .collect()
        )
        return {(row["topic"], row["partition"]): row["at"] for row in found}

    def losses(self, spark: SparkSession) -> dict[TopicPartition, int]:
        """Up to where the records of each partition expired unread, as the operator has accepted."""
        found = (
            self.rows(spark)
            .where(F.col("kind") == "loss")
            .select(F.explode("ranges").alias("part"))
            .groupBy("part.topic", "part.partition")
            .agg(F.max("part.to_offset").alias("to_offset"))
            .collect()
        )
        return {(row["topic"], row["partition"]): row["to_offset"] for row in found}

    def configuration(self, spark: SparkSession, fingerprint: str) -> str:
        """The full text of topology and configuration that a fingerprint stands for; empty if it is not known."""
        own = self.rows(spark).where((F.col("kind") == "config") & (F.col("fingerprint") == fingerprint))
        found = own.select("config").first()
        return str(found["config"]) if found is not None else ""

    def results(self, spark: SparkSession, fingerprint: str) -> str:
        """What results follow from under a fingerprint (`Configuration.results`); empty if it is not known."""
        own = self.rows(spark).where((F.col("kind") == "config") & (F.col("fingerprint") == fingerprint))
        found = own.select(F.try_element_at("options", F.lit(_RESULTS)).alias("results")).collect()
        return next((str(row["results"]) for row in found if row["results"]), "")

    def executed_under(self, spark: SparkSession, cycle: int) -> str:
        """The fingerprint that a cycle was executed under; empty: there is no such cycle."""
        own = (F.col("cycle") == cycle) & F.col("kind").isin("plan", "taken")
        found = self.rows(spark).where(own).select("kind", "fingerprint").orderBy("epoch").collect()
        # `taken` behind `plan`: whoever took it over last has executed it
        return next(
            (row["fingerprint"] for kind in ("taken", "plan") for row in reversed(found) if row["kind"] == kind), ""
        )

    def acceptances(self, spark: SparkSession) -> list[Accepted]:
        """What was accepted, ascending."""
        found = self.rows(spark).where(F.col("kind") == "accepted").orderBy("cycle", "epoch").collect()
        return [_accepted(row) for row in found]

    def ingested_before(self, spark: SparkSession, moment_ms: int) -> int:
        """The last batch that was closed up to a moment; 0 if there is none."""
        closed = self.rows(spark).where((F.col("kind") == "ingest") & (F.col("written_at_ms") <= moment_ms))
        found = closed.agg(F.max("seq")).first()
        return int(found[0]) if found is not None and found[0] is not None else 0

    # --- writing ---------------------------------------------------------------------------------------------------

    def claim_maintenance(self, spark: SparkSession, history: History, run_id: str) -> Ledger:
        """Becomes the only maintenance that may write, beside whichever driver there is.

        Args:
            history: what the ledger says now.
            run_id: an identity that no other run has.

        Raises:
            Fenced: if another maintenance claimed the same epoch at the same time.
        """
        last = history.maintenance or fence.newest(spark, self.lake, self.pipeline, _MAINTAIN)
        mine = Claiming(spark, replace(self, run_id=run_id)).claim(commands.Turn(_MAINTAIN, decisions.next_epoch(last)))
        # an older maintenance writes here what counts
        mine.table.seal(spark, f"{self.pipeline}.{_MAINTAIN}", mine.epoch)
        return mine

    def append_claim(self, spark: SparkSession, options: Mapping[str, str], config: Configuration | None) -> bool:
        """Appends this ledger's epoch, unfenced, and a configuration that the ledger has not seen.

        Returns:
            Whether the append itself tells that the epoch is this run's.
        """
        ids, details = dict(self.noted.ids), _details((), noted=self.noted)
        rows = [self._row(self.role, options=dict(options), topic_ids=ids, details=details)]
        if config is not None:  # in the same commit: one is never there without the other
            meaning = {_MEANING: config.meaning, _RESULTS: config.results}
            rows.append(self._row("config", fingerprint=config.whole, config=config.text, options=meaning))
        written = self._written(f"{self.role} {self.run_id}")
        known = decisions.of_claim(commands.Turn(self.role, self.epoch)).of(self.pipeline)
        once = self.table.append(written.of(self._frame(spark, rows)), *known)
        return once and written.counts() == {_ROWS: len(rows)}

    def is_newest(self, spark: SparkSession) -> bool:
        """Whether this ledger's epoch is the newest and of this run: of two equal ones Delta took one."""
        found = (
            self.rows(spark)
            .where((F.col("kind") == self.role) & (F.col("epoch") >= self.epoch))
            .select("epoch", "run_id")
            .orderBy(F.desc("epoch"))
            .limit(1)
            .collect()
        )
        return [tuple(one) for one in found] == [(self.epoch, self.run_id)]

    def record_loss(self, spark: SparkSession, ranges: Iterable[Range], seq: int | None = None, nth: int = 1) -> None:
        """Writes down records that expired unread: the run's nth such row, or of one topic before the batch behind it."""
        parts = list(ranges)
        known = decisions.of_loss(self.epoch, nth) if seq is None else decisions.of_loss_before(parts[0].topic, seq)
        self._append(spark, self._row("loss", ranges=[_as_row(part) for part in parts]), known)

    def record_ingest(self, spark: SparkSession, ingest: Ingest) -> None:
        """Closes a bronze batch, and makes sure that it is this run that does.

        Raises:
            Fenced: if a newer driver is there, or another one closed a batch of this number.
        """
        failpoint("ingest.before")
        row = self._row(
            "ingest",
            seq=ingest.seq,
            seq_from=ingest.seq_from,
            ranges=[_as_row(part) for part in ingest.ranges],
            options={_REQUEST: str(ingest.request)} if ingest.request else {},
            topic_ids=dict(self.noted.ids),
            details=_details(ingest.ranges, noted=self.noted, mean_bytes=ingest.mean_bytes),
        )
        if not self._append_own(spark, row, "seq", ingest.seq):
            message = f"another driver closed batch {ingest.seq} of pipeline {self.pipeline}"
            raise Fenced(message)
        failpoint("ingest.after")

    def record_plan(self, spark: SparkSession, plan: Plan, closing: Mapping[str, Any] | None = None) -> None:
        """Appends a plan, and makes sure that it is ours: with two drivers, one of them stops here.

        Args:
            closing: what is told of the cycle before, which this row closes.

        Raises:
            Fenced: if a newer driver is there, or another one planned this cycle.
        """
        failpoint("plan.before")
        row = self._row(
            "plan",
            cycle=plan.cycle,
            seq=plan.seq,
            seq_from=plan.seq_from,
            fingerprint=plan.fingerprint,
            ranges=[_as_row(part) for part in plan.ranges],
            clocks=_clocks(plan),
            attempts=[],
            topic_ids=dict(plan.topic_ids),
            ticks=[{"topic": at[0], "partition": at[1], "time_ms": ms} for at, ms in sorted(plan.ticks.items())],
            details=_details(plan.ranges, closing),
        )
        if not self._append_own(spark, row, "cycle", plan.cycle):
            message = f"another driver planned cycle {plan.cycle} of pipeline {self.pipeline}"
            raise Fenced(message)
        failpoint("plan.after")

    def record_taken(self, spark: SparkSession, cycle: int, fingerprint: str) -> None:
        """Says that a cycle, of which nothing is out, is executed under this configuration from now on."""
        failpoint("taken.before")
        self._append(spark, self._row("taken", cycle=cycle, fingerprint=fingerprint), decisions.of_taken(self.epoch))
        failpoint("taken.after")

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
        row = self._row("accepted", cycle=cycle, fingerprint=fingerprint, options={_FORMER: former}, details=details)
        self._append(spark, row, decisions.of_said(f"accepted/{what}", self.epoch))
        failpoint("accepted.after")

    def record_stopped(self, spark: SparkSession, cycle: int) -> None:
        """Says that a cycle has failed before any topic had a record of it."""
        self._append(spark, self._row("stopped", cycle=cycle), decisions.of_said("stopped", self.epoch))

    def record_publishing(self, spark: SparkSession, cycle: int) -> None:
        """Says that from here on topics may have records of a cycle that was stopped before."""
        self._append(spark, self._row("publishing", cycle=cycle), decisions.of_said("publishing", self.epoch))
        failpoint("publishing.after")

    def record_done(self, spark: SparkSession, cycle: int, closing: Mapping[str, Any] | None = None) -> None:
        """Closes a cycle that no plan follows, with what is told of it."""
        failpoint("finish.before")
        row = self._row("done", cycle=cycle, details=_details((), closing))
        self._append(spark, row, decisions.of_row("done", cycle))
        failpoint("finish.after")

    def record_trim(self, spark: SparkSession, whole: Plan, *, done: bool) -> None:
        """Says up to where bronze is being trimmed, or that this is done.

        Args:
            whole: everything that the cycles up to it took, as one plan.
            done: whether everything is deleted that is to be.
        """
        kind = "trimmed" if done else "trim"
        ranges = [_as_row(part) for part in whole.ranges]
        row = self._row(kind, cycle=whole.cycle, seq=whole.seq, seq_from=whole.seq_from, fingerprint="", ranges=ranges,
                        clocks=_clocks(whole))  # fmt: skip
        self._append(spark, row, decisions.of_row(kind, whole.cycle))

    def record_base(self, spark: SparkSession, state: StoredState) -> None:
        """Says where what the nodes keep lies as of the cycle up to which bronze is trimmed."""
        self._record_stored(spark, "base", state)

    def record_state(self, spark: SparkSession, state: StoredState) -> None:
        """Says where what the nodes keep of the past lies from now on."""
        self._record_stored(spark, "state", state)

    def _record_stored(self, spark: SparkSession, kind: str, state: StoredState) -> None:
        options = {"slot": state.slot, "rows": str(state.rows), "frames": json.dumps(state.frames)}
        options |= {_MARKED: "true"} if state.marked else {}
        row = self._row(kind, cycle=state.cycle, fingerprint=state.fingerprint, options=options)
        self._append(spark, row, decisions.of_stored(kind, self.epoch, state.cycle))

    def fence(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """The rows, which can be written only while this epoch is the newest."""
        return fence.fenced(spark, rows, self.lake, self.pipeline, self.role, self.epoch)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _written(self, what: str) -> Observed:
        """Tells whether an append wrote rows: one that Delta skips, as another driver's has its number, does not run."""
        return Observed(f"{self.pipeline} {self.epoch} ledger {what}", {_ROWS: F.count(F.lit(1))})

    def _append_own(self, spark: SparkSession, row: dict[str, Any], column: str, number: int) -> bool:
        """Appends a row of which there is one a number, for all drivers: whether it is this run's."""
        kind = row["kind"]
        written = self._written(f"{kind} {number}")
        if self._append(spark, row, decisions.of_row(kind, number), written) and written.counts() == {_ROWS: 1}:
            return True
        found = self.rows(spark).where((F.col("kind") == kind) & (F.col(column) == number))
        there = [one["run_id"] for one in found.select("run_id").limit(2).collect()]
        return decisions.is_own(written=False, there=there, mine=[self.run_id])

    def _append(
        self,
        spark: SparkSession,
        row: dict[str, Any],
        known: commands.Transaction,
        written: Observed | None = None,
    ) -> bool:
        frame = self._frame(spark, [row])
        frame = self.fence(spark, frame if written is None else written.of(frame))
        with fence.translated(self.pipeline):
            return self.table.append(frame, *known.of(self.pipeline))

    def _row(self, kind: str, **columns: Any) -> dict[str, Any]:
        stamp = time.time_ns() // 1_000_000
        own = {"pipeline": self.pipeline, "kind": kind, "epoch": self.epoch, "run_id": self.run_id}
        return own | {"written_at_ms": stamp} | columns

    @staticmethod
    def _frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
        """Rows as one literal, read by the optimiser: no Python data travels, no task but one writes."""
        text = F.from_json(F.lit(json.dumps(rows)), f"array<struct<{SCHEMA}>>")
        return spark.range(0, 1, 1, 1).select(F.inline(text))


def schema(spark: SparkSession) -> StructType:
    """The ledger's columns as a Spark type."""
    return spark.createDataFrame([], SCHEMA).schema


def _as_row(part: Range) -> dict[str, Any]:
    return {name: value for name, value in asdict(part).items() if name not in _TOLD}


def _clocks(plan: Plan) -> list[dict[str, int]]:
    return [{"task": task, "clock_ms": clock} for task, clock in sorted(plan.clocks.items())]


def _details(
    ranges: Sequence[Range],
    closing: Mapping[str, Any] | None = None,
    noted: Noted | None = None,
    mean_bytes: Mapping[str, int] | None = None,
) -> str | None:
    """What columns do not say: of each range, in their order, of the cycle that a row closes, of topics and records."""
    told: dict[str, Any] = {}
    more = [{name: getattr(part, name) for name in _TOLD if getattr(part, name)} for part in ranges]
    if any(more):
        told["ranges"] = more
    if closing is not None:
        told["closes"] = closing
    if noted is not None and noted.details():
        told[_TOPICS] = noted.details()
    if mean_bytes:
        told[_MEAN_BYTES] = dict(mean_bytes)
    return json.dumps(told) if told else None


def _ranges(row: Row) -> tuple[Range, ...]:
    told = json.loads(row["details"] or "{}").get("ranges") or [{} for _ in row["ranges"]]
    return tuple(
        Range(**part.asDict(), failed=more.get("failed", {}), lateness=tuple(more.get("lateness", ())))
        for part, more in zip(row["ranges"], told, strict=True)
    )


def _noted(rows: Mapping[str, Row]) -> Noted:
    """What the newest rows say of topics: the later one counts."""
    kinds = [kind for kind in (_EPOCH, "ingest", "plan") if kind in rows]
    if kinds[-2:] == ["ingest", "plan"] and rows["plan"]["seq"] < rows["ingest"]["seq"]:
        kinds[-2:] = ["plan", "ingest"]
    found = Noted()
    for row in (rows[kind] for kind in kinds):
        details = json.loads(row["details"] or "{}").get(_TOPICS) or {}
        found = found.then(Noted.from_details(row["topic_ids"], details))
    return found


def _state(row: Row) -> StoredState:
    options = row["options"]
    frames = tuple((node, name) for node, name in json.loads(options["frames"]))
    return StoredState(
        row["cycle"], row["fingerprint"], options["slot"], int(options["rows"]), frames, _MARKED in options
    )


def _tables(row: Row) -> dict[str, KnownTable]:
    told = json.loads((row["options"] or {}).get(TABLES) or "{}")
    return {key: KnownTable(*known) for key, known in told.items()}


def tables_option(tables: Mapping[str, KnownTable]) -> dict[str, str]:
    """What a claim says of the tables, as an option of it."""
    return {TABLES: json.dumps({key: (one.table_id, one.version) for key, one in sorted(tables.items())})}


def _accepted(row: Row) -> Accepted:
    former = (row["options"] or {}).get(_FORMER, "")
    changes = tuple(json.loads(row["details"] or "{}").get("changes", ()))
    return Accepted(row["cycle"], row["fingerprint"], former, changes, row["epoch"], row["written_at_ms"])


def _stopped(stopped: Row | None, publishing: Row | None) -> int:
    """The cycle that was stopped last, unless somebody has begun to write its topics since."""
    if stopped is None or (publishing is not None and publishing["cycle"] >= stopped["cycle"]):
        return 0
    return int(stopped["cycle"])


def _claim(row: Row, last_ms: int) -> Claim:
    return Claim(row["run_id"], row["epoch"], row["written_at_ms"], last_ms)


def _ingest(row: Row) -> Ingest:
    request = int((row["options"] or {}).get(_REQUEST, 0))
    mean_bytes = json.loads(row["details"] or "{}").get(_MEAN_BYTES, {})
    return Ingest(row["seq"], row["seq_from"], _ranges(row), request, mean_bytes)


def _configured() -> Column:
    """Of a row about a configuration: its fingerprint, and that of what results follow from."""
    meaning = F.try_element_at(
        "options", F.lit(_MEANING)
    )  # rows of older versions do not have it, and are written anew
    of_config = (F.col("kind") == "config") & meaning.isNotNull()
    return F.when(of_config, F.struct("fingerprint", meaning.alias("meaning")))


def _plan(row: Row, taken: Row | None = None) -> Plan:
    """A plan, as it is executed: another configuration than planned it may have taken it over."""
    if row["fingerprint"] is None or row["ranges"] is None:
        message = f"plan {row['cycle']} has no ranges or fingerprint"
        raise LedgerInconsistent(message)
    took = taken if taken is not None and taken["cycle"] == row["cycle"] else None
    return Plan(
        cycle=row["cycle"],
        fingerprint=row["fingerprint"] if took is None else took["fingerprint"],
        ranges=_ranges(row),
        clocks={one["task"]: one["clock_ms"] for one in row["clocks"] or ()},
        seq_from=row["seq_from"],
        seq=row["seq"],
        topic_ids=dict(row["topic_ids"] or {}),
        ticks={(one["topic"], one["partition"]): one["time_ms"] for one in row["ticks"] or ()},
        taken_over=0 if took is None else took["epoch"],
    )
