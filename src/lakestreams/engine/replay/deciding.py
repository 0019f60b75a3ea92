"""Operators decide on quarantined records: which are meant, their repairs, and the rows that say so."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.protocol import commands, maintenance
from lakestreams.engine.replay.edits import Repair
from lakestreams.engine.replay.quarantined import Filters, with_decisions
from lakestreams.engine.replay.requests import (
    COLUMNS,
    DISCARD,
    OPEN,
    PROPERTIES,
    RECORD,
    REPLAY,
    REQUESTED,
    SCHEMA,
    Request,
    table,
)
from lakestreams.errors import NotInQuarantine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRIES = 20
_SHOWN = 5


@dataclass(frozen=True)
class Selection:
    """Which records a command is about.

    Attributes:
        filters: which rows of the quarantine.
        again: take records, too, that were replayed, superseded or discarded before.
        repairs: of replays, what to change; only records that are named here are meant. None: all, as they are.
    """

    filters: Filters = field(default_factory=Filters)
    again: bool = False
    repairs: tuple[Repair, ...] | None = None


def chosen(spark: SparkSession, ledger: Ledger, selection: Selection) -> DataFrame:
    """The records that a command would decide on, one row each: of several rows in quarantine the last attempt's.

    Returns:
        The columns of `standing`, key, value and timestamp repaired; `repaired boolean`, `of_attempt int` (the one in
        quarantine) and `attempt int` (the one that a replay would make).

    Raises:
        NotInQuarantine: if a repair is given for a record that is not among them.
    """
    if selection.repairs is not None:
        _require_open(_candidates(spark, ledger, selection), selection.repairs)
    return _candidates(spark, ledger, selection)


def _candidates(spark: SparkSession, ledger: Ledger, selection: Selection) -> DataFrame:
    """As `chosen`; repairs of records that are not there have no effect."""
    rows = with_decisions(spark, ledger).where(selection.filters.condition & ~F.col("pending"))
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
    rows = with_decisions(spark, ledger).where(selection.filters.condition)
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
        table(ledger).create(spark, schema, properties=PROPERTIES, grows=True, lenient=True)

    def rows(number: int, topic: str) -> DataFrame:
        candidates = _candidates(spark, ledger, selection).where(F.col("topic") == topic)
        raw = action == REPLAY  # who discards wants no second copy of the bytes
        values = {
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
        return candidates.select(*(values.get(name, F.col(name)).alias(name) for name in COLUMNS))

    appended = [_append(spark, ledger, topic, command, rows) for topic in topics]
    requests = [one for one in appended if one is not None]
    if not requests:
        raise NotInQuarantine(_nothing(spark, ledger, selection, action))
    return requests


def _append(
    spark: SparkSession, ledger: Ledger, topic: str, command: str, rows: Callable[[int, str], DataFrame]
) -> Request | None:
    """Appends decisions under the next number that nobody else has; None if nothing is left to decide (`maintenance.request`).

    The number is the commit's transaction: of two commands at once, one is skipped, and decides again over what the other
    one has left.
    """
    landed: dict[int, int] = {}  # number to rows

    def own() -> DataFrame:
        return table(ledger).read(spark).where(F.col("pipeline") == ledger.pipeline)

    def hands(command_of: commands.Command) -> Any:
        match command_of:
            case commands.Read("requests"):
                if len(landed) == _TRIES:
                    message = f"others decided on records of {ledger.pipeline} at the same moment"
                    raise NotInQuarantine(message, hint="run the command again")
                return [own().agg(F.coalesce(F.max("request"), F.lit(0))).collect()[0][0]]
            case commands.Read("open"):
                return not rows(0, topic).isEmpty()
            case commands.Append(row=number, transaction=known):
                return table(ledger).append(rows(number, topic), *known.of(ledger.pipeline))
            case commands.Read("landed", number):
                mine = (F.col("command") == command) & (F.col("request") == number)
                landed[number] = own().where(mine).count()
                return landed[number]
        return None

    if not commands.carry_out(maintenance.request(), hands):
        return None
    number, count = max(landed.items())
    return Request(number, topic, count)


def _nothing(spark: SparkSession, ledger: Ledger, selection: Selection, action: str) -> str:
    rest = left_out(spark, ledger, selection)
    counts = ", ".join(f"{count} {state}" for state, count in rest.items())
    fit = f"of the records that match: {counts}" if counts else "no record matches"
    return f"there is nothing to {action} in the quarantine of {ledger.pipeline}: {fit}"


def _repaired(spark: SparkSession, rows: DataFrame, repairs: Sequence[Repair]) -> DataFrame:
    """The rows that are named, with their repairs."""
    kinds = {"key": "binary", "value": "binary", "timestamp_ms": "bigint"}
    columns = "_topic string, _partition int, _offset bigint, _attempt int, " + ", ".join(
        f"_has_{name} boolean, _{name} {kind}" for name, kind in kinds.items()
    )
    lines: list[tuple[Any, ...]] = []
    for one in repairs:
        changes: list[Any] = []
        for name in kinds:
            new = one.changes.get(name)
            changes += [name in one.changes, bytearray(new) if isinstance(new, bytes) else new]
        lines.append((one.topic, one.partition, one.offset, one.attempt, *changes))
    named = spark.createDataFrame(lines, columns)
    same = reduce(and_, (F.col(name) == F.col(f"_{name}") for name in RECORD))
    both = rows.join(named, same & F.coalesce(F.col("attempt") == F.col("_attempt"), F.col("_attempt").isNull()))
    changed = {
        name: F.when(F.col(f"_has_{name}"), F.col(f"_{name}")).otherwise(F.col(name)).alias(name) for name in kinds
    }
    any_of = reduce(lambda one, other: one | other, (F.col(f"_has_{name}") for name in kinds))
    return both.select(*(changed.get(name, F.col(name)) for name in rows.columns), any_of.alias("repaired"))


def _require_open(candidates: DataFrame, repairs: Sequence[Repair]) -> None:
    """Refuses repairs of records that cannot be replayed."""
    open_ones = {tuple(row) for row in candidates.select(*RECORD).collect()}
    lacking = [one for one in repairs if one.place not in open_ones]
    if lacking:
        shown = ", ".join("{}-{}@{}".format(*one.place) for one in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        message = f"repairs are given for records that are not open in quarantine with this attempt: {shown}{more}"
        raise NotInQuarantine(message)
