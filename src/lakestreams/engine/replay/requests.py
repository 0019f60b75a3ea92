"""What operators decide on quarantined records, and what has become of it.

Quarantine itself is never changed: decisions are rows of a table next to it, appended under ascending request numbers. A
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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.bronze_rows import HEADERS_TYPE
from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

State = Literal["open", "requested", "replayed", "superseded", "discarded"]
STATES: Final[tuple[State, ...]] = get_args(State)
OPEN, REQUESTED, REPLAYED, SUPERSEDED, DISCARDED = STATES
REPLAY, DISCARD = "replay", "discard"  # actions, besides `superseded`

RECORD: Final = ("topic", "partition", "offset")
SCHEMA: Final = (
    "pipeline string, request bigint, action string, topic string, partition int, offset bigint, attempt int, "
    f"of_attempt int, key binary, value binary, headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, "
    "source_cycle bigint, code string, repaired boolean, requested_at_ms bigint, reason string, command string"
)
COLUMNS: Final = tuple(column.split()[0] for column in SCHEMA.replace(HEADERS_TYPE, "headers").split(", "))
PROPERTIES: Final = {"delta.dataSkippingStatsColumns": "pipeline,request,action,topic,partition,offset"}


def table(ledger: Ledger) -> Table:
    """The table of decisions; shared by the pipelines of a lake."""
    return ledger.lake.control("replays")


@dataclass(frozen=True)
class Request:
    """What one commit of decisions was about: its number, its topic, how many records."""

    number: int
    topic: str
    records: int = 0


def oldest(spark: SparkSession, ledger: Ledger, after: int) -> Request | None:
    """The oldest request for a replay past a number; None if there is none.

    Numbers are given in ascending order, so that none comes up between two that are there.
    """
    if not table(ledger).exists(spark):
        return None
    asked = decided(spark, ledger).where((F.col("action") == REPLAY) & (F.col("request") > after))
    rows = asked.orderBy("request").select("request", "topic").limit(1).collect()
    return Request(rows[0]["request"], rows[0]["topic"]) if rows else None


def waiting(spark: SparkSession, ledger: Ledger, after: int) -> int:
    """How many requests for a replay there are past a number."""
    if not table(ledger).exists(spark):
        return 0
    asked = decided(spark, ledger).where((F.col("action") == REPLAY) & (F.col("request") > after))
    return asked.select("request").distinct().count()


def requested(spark: SparkSession, ledger: Ledger, request: Request) -> DataFrame:
    """The records of a request for a replay, as they are to be ingested: the columns of the decisions."""
    own = (F.col("action") == REPLAY) & (F.col("request") == request.number)
    return decided(spark, ledger).where(own)


def superseded(spark: SparkSession, ledger: Ledger, request: Request) -> DataFrame:
    """What a request's records were superseded by: the columns of the decisions."""
    own = (F.col("action") == SUPERSEDED) & (F.col("request") == request.number)
    return decided(spark, ledger).where(own)


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
    rows = rows.withColumns(lean).select(*COLUMNS)
    if rows.isEmpty():
        return
    with translated(ledger.pipeline):
        fenced = ledger.fence(spark, rows)
        table(ledger).append(fenced, f"{ledger.pipeline}/superseded/{ledger.epoch}", request.number)


def decided(spark: SparkSession, ledger: Ledger) -> DataFrame:
    """The pipeline's decisions."""
    return table(ledger).read(spark).where(F.col("pipeline") == ledger.pipeline)
