"""The quarantine with what operators have decided on its rows: looked at, filtered, grouped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.publish import quarantine
from lakestreams.engine.replay.requests import (
    DISCARD,
    DISCARDED,
    OPEN,
    RECORD,
    REPLAY,
    REPLAYED,
    REQUESTED,
    SUPERSEDED,
    State,
    decided,
    table,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Columns that the quarantine of an older lake lacks.
_LATER: Final = {"rules": "array<string>", "row": "string"}


@dataclass(frozen=True)
class Filters:
    """Which rows of the quarantine are meant; what is left empty does not matter.

    Attributes:
        codes, rules, nodes, topics: one of these; of rules one of those that the record broke.
        partition: the partition.
        from_offset, to_offset: offsets, both inclusive.
        attempt: the attempt; None: all of a record.
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
    attempt: int | None = None
    cycle: int | None = None
    since_ms: int | None = None
    states: tuple[State, ...] = ()

    @property
    def condition(self) -> Column:
        """The same over the columns of `standing`."""
        conditions = [
            F.col(name).isin(*wanted)
            for name, wanted in (
                ("code", self.codes), ("node", self.nodes), ("topic", self.topics), ("state", self.states)
            )
            if wanted
        ]  # fmt: skip
        if self.rules:
            broken = F.arrays_overlap("rules", F.array(*(F.lit(name) for name in self.rules)))
            conditions.append(F.coalesce(broken, F.lit(False)))
        conditions += [
            F.col(name) == value
            for name, value in (("partition", self.partition), ("attempt", self.attempt), ("cycle", self.cycle))
            if value is not None
        ]
        if self.from_offset is not None:
            conditions.append(F.col("offset") >= self.from_offset)
        if self.to_offset is not None:
            conditions.append(F.col("offset") <= self.to_offset)
        if self.since_ms is not None:
            conditions.append(F.col("ingest_time_ms") >= self.since_ms)
        return reduce(and_, conditions, F.lit(True))


def with_decisions(spark: SparkSession, ledger: Ledger) -> DataFrame:
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
    decisions = decided(spark, ledger)
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
    return rows.orderBy(*order, "node", "code").limit(min(limit, 2**31 - 1))


def _quarantined(spark: SparkSession, ledger: Ledger) -> DataFrame:
    rows = quarantine.table(ledger).read(spark).where(F.col("pipeline") == ledger.pipeline)
    lacking = {name: F.lit(None).cast(kind) for name, kind in _LATER.items() if name not in rows.columns}
    return rows.withColumns(lacking) if lacking else rows


def _ingested(spark: SparkSession, ledger: Ledger) -> int:
    """The last request that a run has ingested."""
    last = ledger.history(spark).ingest
    return last.request if last is not None else 0
