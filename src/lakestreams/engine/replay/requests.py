"""What operators decide on quarantined records, and what has become of it.

Quarantine itself is never changed: decisions are rows of a table beside it, appended under ascending request numbers. A
record's identity is topic, partition, offset and attempt. A replay makes its next attempt, of which the driver ingests
each request as one batch (`replay.ingest`); the newest `ingest` row of the ledger says up to which request that is done. The
state of a row in quarantine follows from these three (decision 0020):
    open         nothing was decided
    requested    a replay was, and no run has come since
    replayed     a run has ingested its next attempt; if that fails, it is in quarantine with its own number
    superseded   it was not ingested, since a later record of its key is in the table
    discarded    somebody has said that it needs nothing
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.batches import HEADERS_TYPE
from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish import quarantine
from lakestreams.engine.replay.edits import Repair
from lakestreams.engine.runtime.lake import Table
from lakestreams.errors import NotInQuarantine

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

State = Literal["open", "requested", "replayed", "superseded", "discarded"]
STATES: Final[tuple[State, ...]] = get_args(State)
OPEN, REQUESTED, REPLAYED, SUPERSEDED, DISCARDED = STATES
REPLAY, DISCARD = "replay", "discard"  # actions, beside `superseded`

RECORD: Final = ("topic", "partition", "offset")
SCHEMA: Final = (
    "pipeline string, request bigint, action string, topic string, partition int, offset bigint, attempt int, "
    f"of_attempt int, key binary, value binary, headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, "
    "source_cycle bigint, code string, repaired boolean, requested_at_ms bigint, reason string, command string"
)
_COLUMNS: Final = tuple(column.split()[0] for column in SCHEMA.replace(HEADERS_TYPE, "headers").split(", "))
_PROPERTIES: Final = {"delta.dataSkippingStatsColumns": "pipeline,request,action,topic,partition,offset"}
# Columns that the quarantine of an older lake lacks.
_LATER: Final = {"rules": "array<string>", "row": "string"}
_TRIES = 20
_SHOWN = 5


def table(ledger: Ledger) -> Table:
    """The table of decisions; shared by the pipelines of a lake."""
    return ledger.lake.control("replays")


# --- looking ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filters:
    """Which rows of the quarantine are meant; what is left empty does not matter.

    Attributes:
        codes, rules, nodes, topics: one of these; of rules one of those that the record broke.
        partition: the partition.
        from_offset, to_offset: offsets, both inclusive.
        cycle: the cycle that refused the record.
        since_ms: ingested at this time or later, ms.
        states: one of these.
    """

    codes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    partition: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    cycle: int | None = None
    since_ms: int | None = None
    states: tuple[State, ...] = ()

    @property
    def condition(self) -> Column:
        """The same over the columns of `standing`."""
        given = [
            F.col(name).isin(*wanted)
            for name, wanted in (
                ("code", self.codes), ("node", self.nodes), ("topic", self.topics), ("state", self.states)
            )
            if wanted
        ]  # fmt: skip
        if self.rules:
            broken = F.arrays_overlap("rules", F.array(*(F.lit(name) for name in self.rules)))
            given.append(F.coalesce(broken, F.lit(False)))
        given += [
            F.col(name) == value
            for name, value in (("partition", self.partition), ("cycle", self.cycle))
            if value is not None
        ]
        if self.from_offset is not None:
            given.append(F.col("offset") >= self.from_offset)
        if self.to_offset is not None:
            given.append(F.col("offset") <= self.to_offset)
        if self.since_ms is not None:
            given.append(F.col("ingest_time_ms") >= self.since_ms)
        return reduce(and_, given, F.lit(True))


def standing(spark: SparkSession, ledger: Ledger) -> DataFrame:
    """The pipeline's quarantine with what was decided.

    Returns:
        The columns of the quarantine and
        state string          see above
        request bigint        the request that decided it, or null
        reason string         what was said of it, or why it was superseded
        newest_attempt int    the record's last attempt that was asked for, 0 if none was
        pending boolean       whether an attempt at the record is requested and not ingested
    """
    rows = _quarantined(spark, ledger)
    if not table(ledger).exists(spark):
        nothing = {"state": F.lit(OPEN), "request": F.lit(None).cast("bigint"), "reason": F.lit(None).cast("string")}
        return rows.withColumns({**nothing, "newest_attempt": F.lit(0), "pending": F.lit(False)})
    decisions = _decisions(spark, ledger)
    ingested = _ingested(spark, ledger)
    is_replay = F.col("action") == REPLAY
    last = F.max_by(
        F.struct("action", "request", "reason"), F.struct("request", (F.col("action") == SUPERSEDED).cast("int"))
    )
    of_row = decisions.groupBy(*RECORD, F.col("of_attempt").alias("attempt")).agg(last.alias("decided"))
    of_record = decisions.groupBy(*RECORD).agg(
        F.max(F.when(is_replay, F.col("attempt"))).alias("asked"),
        F.max(F.when(is_replay, F.col("request"))).alias("asked_by"),
    )
    action = F.col("decided.action")
    state = (
        F.when(action.isNull(), OPEN)
        .when(action == DISCARD, DISCARDED)
        .when(F.col("decided.request") > ingested, REQUESTED)
        .when(action == SUPERSEDED, SUPERSEDED)
        .otherwise(REPLAYED)
    )
    both = rows.join(of_row, [*RECORD, "attempt"], "left").join(of_record, [*RECORD], "left")
    return both.select(
        *rows.columns,
        state.alias("state"),
        F.col("decided.request").alias("request"),
        F.col("decided.reason").alias("reason"),
        F.coalesce("asked", F.lit(0)).alias("newest_attempt"),
        F.coalesce(F.col("asked_by") > ingested, F.lit(False)).alias("pending"),
    )


def groups(rows: DataFrame) -> DataFrame:
    """Rows of `standing` by what is wrong with them, the largest group first; a row of two rules is in two groups.

    Returns:
        Columns `code, node, rule, records, open, first_ms, last_ms` (when the first and the last were ingested).
    """
    return (
        rows.withColumn("rule", F.explode_outer("rules"))
        .groupBy("code", "node", "rule")
        .agg(
            F.count("*").alias("records"),
            F.count_if(F.col("state") == OPEN).alias("open"),
            F.min("ingest_time_ms").alias("first_ms"),
            F.max("ingest_time_ms").alias("last_ms"),
        )
        .orderBy(F.desc("records"), "code", "node", "rule")
    )


def newest(rows: DataFrame, limit: int) -> DataFrame:
    """The rows of `standing` that were ingested last."""
    order = (F.desc("ingest_time_ms"), F.desc("cycle"), "topic", "partition", F.desc("offset"), F.desc("attempt"))
    return rows.orderBy(*order, "node", "code").limit(limit)


# --- deciding --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """Which records a command is about.

    Attributes:
        filters: which rows of the quarantine.
        again: take records, too, that were replayed, superseded or discarded before.
        repairs: of replays, what to change; only records that are named here are meant. None: all, as they are.
    """

    filters: Filters = Filters()
    again: bool = False
    repairs: tuple[Repair, ...] | None = None


@dataclass(frozen=True)
class Request:
    """What one commit of decisions was about: its number, its topic, how many records."""

    number: int
    topic: str
    records: int = 0


def chosen(spark: SparkSession, ledger: Ledger, selection: Selection) -> DataFrame:
    """The records that a command would decide on, one row each: of several rows in quarantine the last attempt's.

    Returns:
        The columns of `standing`, key, value and timestamp repaired; `repaired boolean`, `of_attempt int` (the one in
        quarantine) and `attempt int` (the one that a replay would make).

    Raises:
        NotInQuarantine: if a repair is given for a record that is not among them.
    """
    if selection.repairs is not None:
        _require_there(_candidates(spark, ledger, selection), selection.repairs)
    return _candidates(spark, ledger, selection)


def _candidates(spark: SparkSession, ledger: Ledger, selection: Selection) -> DataFrame:
    """As `chosen`; repairs of records that are not there have no effect."""
    rows = standing(spark, ledger).where(selection.filters.condition & ~F.col("pending"))
    rows = rows.where(F.col("state") != REQUESTED) if selection.again else rows.where(F.col("state") == OPEN)
    last = Window.partitionBy(*RECORD).orderBy(F.desc("attempt"), "node", "code")
    each = rows.withColumn("_place", F.row_number().over(last)).where(F.col("_place") == 1).drop("_place")
    if selection.repairs is not None:
        each = _repaired(spark, each, selection.repairs)
    else:
        each = each.withColumn("repaired", F.lit(False))
    next_attempt = F.greatest("of_attempt", "newest_attempt") + 1
    return each.withColumnRenamed("attempt", "of_attempt").withColumn("attempt", next_attempt)


def left_out(spark: SparkSession, ledger: Ledger, selection: Selection) -> dict[str, int]:
    """How many records fit the filters and are not taken, by their state."""
    rows = standing(spark, ledger).where(selection.filters.condition)
    taken = _candidates(spark, ledger, selection).select(*RECORD)
    last = F.max_by(F.when(F.col("pending"), F.lit(REQUESTED)).otherwise(F.col("state")), "attempt")
    rest = rows.join(taken, [*RECORD], "left_anti").groupBy(*RECORD).agg(last.alias("state"))
    return {row["state"]: row["count"] for row in rest.groupBy("state").count().orderBy("state").collect()}


def request(spark: SparkSession, ledger: Ledger, selection: Selection, reason: str = "") -> list[Request]:
    """Asks for a new attempt at the chosen records: a request a topic, which the pipeline's next run takes.

    Raises:
        NotInQuarantine: if there is nothing to replay.
    """
    return _decide(spark, ledger, selection, REPLAY, reason)


def discard(spark: SparkSession, ledger: Ledger, selection: Selection, reason: str = "") -> list[Request]:
    """Notes that the chosen records need nothing: they stay where they are, and are counted as discarded.

    Raises:
        NotInQuarantine: if there is nothing to discard.
    """
    return _decide(spark, ledger, selection, DISCARD, reason)


def _decide(spark: SparkSession, ledger: Ledger, selection: Selection, action: str, reason: str) -> list[Request]:
    command = str(uuid.uuid4())
    topics = [row[0] for row in chosen(spark, ledger, selection).select("topic").distinct().orderBy("topic").collect()]
    schema = spark.createDataFrame([], SCHEMA).schema
    if topics:
        table(ledger).create(spark, schema, properties=_PROPERTIES, grows=True, lenient=True)

    def rows(number: int, topic: str) -> DataFrame:
        made = _candidates(spark, ledger, selection).where(F.col("topic") == topic)
        raw = action == REPLAY  # who discards wants no second copy of the bytes
        given = {
            "pipeline": F.lit(ledger.pipeline),
            "request": F.lit(number).cast("bigint"),
            "action": F.lit(action),
            "attempt": F.col("attempt") if raw else F.col("of_attempt"),
            **({} if raw else {name: F.lit(None).cast(schema[name].dataType) for name in ("key", "value", "headers")}),
            "source_cycle": F.col("cycle"),
            "repaired": F.col("repaired") if raw else F.lit(False),
            "requested_at_ms": F.lit(time.time_ns() // 1_000_000).cast("bigint"),
            "reason": F.lit(reason or None).cast("string"),
            "command": F.lit(command),
        }
        return made.select(*(given.get(name, F.col(name)).alias(name) for name in _COLUMNS))

    made = [_append(spark, ledger, topic, command, rows) for topic in topics]
    found = [one for one in made if one is not None]
    if not found:
        raise NotInQuarantine(_nothing(spark, ledger, selection, action))
    return found


def _append(
    spark: SparkSession, ledger: Ledger, topic: str, command: str, rows: Callable[[int, str], DataFrame]
) -> Request | None:
    """Appends decisions under the next number that nobody else has; None if nothing is left to decide.

    The number is the commit's transaction: of two commands at once, one is skipped, and decides anew over what the other
    one has left.
    """
    number = 0
    for _ in range(_TRIES):
        own = table(ledger).read(spark).where(F.col("pipeline") == ledger.pipeline)
        newest_number = own.agg(F.coalesce(F.max("request"), F.lit(0))).collect()[0][0]
        number = max(number, newest_number) + 1
        wanted = rows(number, topic)
        if wanted.isEmpty():
            return None
        table(ledger).append(wanted, *decisions.of_request(number).of(ledger.pipeline))
        mine = (F.col("command") == command) & (F.col("request") == number)
        landed = table(ledger).read(spark).where((F.col("pipeline") == ledger.pipeline) & mine).count()
        if landed:
            return Request(number, topic, landed)
    message = f"others went on deciding on records of {ledger.pipeline} at the same moment"
    raise NotInQuarantine(message, hint="try it again")


def _nothing(spark: SparkSession, ledger: Ledger, selection: Selection, action: str) -> str:
    rest = left_out(spark, ledger, selection)
    told = ", ".join(f"{count} {state}" for state, count in rest.items())
    fit = f"of those that fit: {told}" if told else "none fits"
    return f"there is nothing to {action} in the quarantine of {ledger.pipeline}: {fit}"


def _repaired(spark: SparkSession, rows: DataFrame, repairs: Sequence[Repair]) -> DataFrame:
    """The rows that are named, with their repairs."""
    kinds = {"key": "binary", "value": "binary", "timestamp_ms": "bigint"}
    columns = "_topic string, _partition int, _offset bigint, _attempt int, " + ", ".join(
        f"_has_{name} boolean, _{name} {kind}" for name, kind in kinds.items()
    )
    given: list[tuple[Any, ...]] = []
    for one in repairs:
        changes: list[Any] = []
        for name in kinds:
            new = one.changes.get(name)
            changes += [name in one.changes, bytearray(new) if isinstance(new, bytes) else new]
        given.append((one.topic, one.partition, one.offset, one.attempt, *changes))
    named = spark.createDataFrame(given, columns)
    same = reduce(and_, (F.col(name) == F.col(f"_{name}") for name in RECORD))
    both = rows.join(named, same & F.coalesce(F.col("attempt") == F.col("_attempt"), F.col("_attempt").isNull()))
    changed = {
        name: F.when(F.col(f"_has_{name}"), F.col(f"_{name}")).otherwise(F.col(name)).alias(name) for name in kinds
    }
    any_of = reduce(lambda one, other: one | other, (F.col(f"_has_{name}") for name in kinds))
    return both.select(*(changed.get(name, F.col(name)) for name in rows.columns), any_of.alias("repaired"))


def _require_there(candidates: DataFrame, repairs: Sequence[Repair]) -> None:
    """Refuses repairs of records that cannot be replayed."""
    there = {tuple(row) for row in candidates.select(*RECORD).collect()}
    lacking = [one for one in repairs if one.place not in there]
    if lacking:
        shown = ", ".join("{}-{}@{}".format(*one.place) for one in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        message = f"repairs are given for records that are not open in quarantine with this attempt: {shown}{more}"
        raise NotInQuarantine(message)


# --- what the driver asks and says -----------------------------------------------------------------------------------


def oldest(spark: SparkSession, ledger: Ledger, after: int) -> Request | None:
    """The oldest request for a replay past a number; None if there is none.

    Numbers are given in ascending order, so that none comes up between two that are there.
    """
    if not table(ledger).exists(spark):
        return None
    asked = _decisions(spark, ledger).where((F.col("action") == REPLAY) & (F.col("request") > after))
    found = asked.orderBy("request").select("request", "topic").limit(1).collect()
    return Request(found[0]["request"], found[0]["topic"]) if found else None


def waiting(spark: SparkSession, ledger: Ledger, after: int) -> int:
    """How many requests for a replay there are past a number."""
    if not table(ledger).exists(spark):
        return 0
    asked = _decisions(spark, ledger).where((F.col("action") == REPLAY) & (F.col("request") > after))
    return asked.select("request").distinct().count()


def requested(spark: SparkSession, ledger: Ledger, request: Request) -> DataFrame:
    """The records of a request for a replay, as they are to be ingested: the columns of the decisions."""
    own = (F.col("action") == REPLAY) & (F.col("request") == request.number)
    return _decisions(spark, ledger).where(own)


def superseded(spark: SparkSession, ledger: Ledger, request: Request) -> DataFrame:
    """What a request's records were superseded by: the columns of the decisions."""
    own = (F.col("action") == SUPERSEDED) & (F.col("request") == request.number)
    return _decisions(spark, ledger).where(own)


def supersede(spark: SparkSession, ledger: Ledger, request: Request, refused: DataFrame) -> None:
    """Writes down that records of a request are not ingested, once each.

    Args:
        ledger: of the running epoch.
        request: which one.
        refused: columns `topic, partition, offset, reason`.
    """
    known = superseded(spark, ledger, request).select(*RECORD)
    rows = requested(spark, ledger, request).drop("reason").join(refused, [*RECORD])
    rows = rows.join(known, [*RECORD], "left_anti").withColumn("action", F.lit(SUPERSEDED))
    lean = {name: F.lit(None).cast(rows.schema[name].dataType) for name in ("key", "value", "headers")}
    rows = rows.withColumns(lean).select(*_COLUMNS)
    if rows.isEmpty():
        return
    with translated(ledger.pipeline):
        fenced = ledger.fence(spark, rows)
        table(ledger).append(fenced, f"{ledger.pipeline}/superseded/{ledger.epoch}", request.number)


# --- inside ----------------------------------------------------------------------------------------------------------


def _quarantined(spark: SparkSession, ledger: Ledger) -> DataFrame:
    rows = quarantine.table(ledger).read(spark).where(F.col("pipeline") == ledger.pipeline)
    lacking = {name: F.lit(None).cast(kind) for name, kind in _LATER.items() if name not in rows.columns}
    return rows.withColumns(lacking) if lacking else rows


def _decisions(spark: SparkSession, ledger: Ledger) -> DataFrame:
    return table(ledger).read(spark).where(F.col("pipeline") == ledger.pipeline)


def _ingested(spark: SparkSession, ledger: Ledger) -> int:
    """The last request that a run has ingested."""
    last = ledger.history(spark).ingest
    return last.request if last is not None else 0
