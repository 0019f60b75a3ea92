"""Under which number a batch is appended to bronze: of all drivers that try, one may get it in (decision 0003).

A driver that another one has taken over from may still have an append on its way: it has looked at the fence, and commits
later. Its batch is the first that the ledger does not know. So a driver's first append to a topic has that number as its
transaction, whichever batch it is of, and Delta lets one of the two through.

An append without rows, of transaction markers alone, takes the number all the same. If its driver fell before the ledger
row, nothing tells of it, and Delta would skip the rows of whoever comes next. So a first append looks whether it ran; if
it was skipped, and the number has left no rows, nothing may be on its way any more, and it is made under a number of the
driver's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.fence import translated
from lakestreams.engine.observed import Observed
from lakestreams.engine.side_by_side import side_by_side
from lakestreams.errors import Fenced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.lake import Table
    from lakestreams.engine.ledger import Ledger

# The topics that a run has appended to from this process. A cache only: who does not know it takes the longer way.
_met: dict[str, set[str]] = {}


def append_once(
    spark: SparkSession, ledger: Ledger, topic: str, rows: DataFrame, *, seq: int, known: int, ingest_time_ms: int
) -> bool:
    """Appends a topic's rows of a batch, whatever other drivers have on their way.

    Args:
        spark: the session.
        ledger: of the running epoch.
        topic: whose bronze.
        rows: the columns of bronze.
        seq: the batch's number.
        known: the last batch that the ledger knew when this driver took over.
        ingest_time_ms: of the rows; no other driver's have it.

    Returns:
        Whether the first attempt went through; if not, bronze has the rows, but what was observed of them is not sure.

    Raises:
        Fenced: if a newer driver runs the pipeline, or an older one's rows have come.
    """
    table = ledger.lake.bronze(ledger.pipeline, topic)
    application = f"{ledger.pipeline}/bronze/{topic}"

    def append(rows: DataFrame, application: str, number: int) -> bool:
        with translated(ledger.pipeline):
            return table.append(ledger.fence(spark, rows), application, number)

    met = _met.setdefault(ledger.run_id, set())
    if topic in met:
        return append(rows, application, seq)
    ran = Observed(f"{ledger.pipeline} {ledger.epoch} first of bronze {topic}", {"rows": F.count(F.lit(1))})
    once = append(ran.of(rows), application, known + 1)
    met.add(topic)
    if once and ran.told() is not None:
        return True
    if _has_rows(spark, ledger, table, seq, ingest_time_ms):
        return False
    table.seal(spark, ledger.pipeline, ledger.epoch)
    if not _has_rows(spark, ledger, table, seq, ingest_time_ms):
        append(rows, f"{application}/{ledger.epoch}", seq)
    return False


def seal_bronze(spark: SparkSession, ledger: Ledger, topics: Iterable[str]) -> None:
    """Stops whatever the drivers before this one have on their way to bronze."""
    tables = [ledger.lake.bronze(ledger.pipeline, topic) for topic in topics]
    side_by_side(spark, [partial(table.seal, spark, ledger.pipeline, ledger.epoch) for table in tables])


def _has_rows(spark: SparkSession, ledger: Ledger, table: Table, seq: int, ingest_time_ms: int) -> bool:
    """Whether bronze has the batch.

    Raises:
        Fenced: if it has another driver's, or rows of that and of this one.
    """
    times = table.read(spark).where(F.col("seq") >= seq).select(F.min("ingest_time_ms"), F.max("ingest_time_ms"))
    found = times.first()
    if found is None or found[0] is None:
        return False
    if tuple(found) != (ingest_time_ms, ingest_time_ms):
        message = f"another driver ingested batch {seq} of pipeline {ledger.pipeline}"
        raise Fenced(message)
    return True
