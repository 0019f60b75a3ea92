"""Orphans: rows of a left table that name a row of the right one which is not there; listed until it comes.

A table of the lake's control schema, `orphans`, one row for each of them: `pipeline, node, key` (JSON text), `foreign_key`
(JSON text), `event_time_ms, _lineage`. It is merged as an output is: repeated, it changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.publish import sinks
from lakestreams.evaluate.outputs import EVENT_TIME, LINEAGE
from lakestreams.expectations.judging import ORPHAN
from lakestreams.formats.json_text import exact_json
from lakestreams.operators.records import KEY, KIND, LINEAGE_TYPE, TIME, TOMBSTONE, lineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.table import Table

SCHEMA: Final = (
    f"pipeline string, node string, key string, foreign_key string, {EVENT_TIME} bigint, {LINEAGE} {LINEAGE_TYPE}"
)
_KEY: Final = ("pipeline", "node", "key")


def table(ledger: Ledger) -> Table:
    """The table; shared by the pipelines of a lake."""
    return ledger.lake.control("orphans")


def create(spark: SparkSession, ledger: Ledger) -> None:
    """Creates it unless it is there."""
    table(ledger).create(spark, spark.createDataFrame([], SCHEMA).schema)


def publish(spark: SparkSession, ledger: Ledger, node: str, rows: DataFrame) -> None:
    """Lists a cycle's orphans, and takes those off the list that have found their row, or are gone.

    Args:
        ledger: of the running epoch.
        node: the join's name.
        rows: `k, orphan, foreign_key` and the record columns.
    """
    with translated(ledger.pipeline):
        newest = ledger.fence(spark, changes(ledger.pipeline, node, rows))
        table(ledger).merge(spark, newest, _KEY, newer=sinks.CYCLE, gone=sinks.GONE)


def changes(pipeline: str, node: str, rows: DataFrame) -> DataFrame:
    """What changes in the list, a row a key; what is an orphan no more is a tombstone."""
    every = rows.withColumn(KIND, F.when(F.col(ORPHAN), F.col(KIND)).otherwise(F.lit(TOMBSTONE))).select(
        F.lit(pipeline).alias("pipeline"),
        F.lit(node).alias("node"),
        exact_json(F.col(KEY), nulls=True).alias("key"),
        exact_json(F.col("foreign_key"), nulls=True).alias("foreign_key"),
        F.col(TIME).alias(EVENT_TIME),
        lineage().alias(LINEAGE),
    )
    return sinks.latest(every, _KEY)
