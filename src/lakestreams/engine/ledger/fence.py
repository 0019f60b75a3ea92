"""The fence: a write fails by itself once a newer driver has the pipeline.

Whose turn it is stands in a table of its own, which changes once a run. The ledger says so, too, but it changes with every
step, and Delta puts a table's newest state together again, a job or two, for whoever looks at it after a change: of a round
of few records that was a fifth (docs/benchmarks.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.protocol import commands, decisions
from lakestreams.errors import Fenced
from lakestreams.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.table import Table

SCHEMA = "pipeline string, role string, epoch bigint, run_id string"
FENCED_WORD = "LAKESTREAMS_FENCED"
_PROPERTIES = {"delta.dataSkippingStatsColumns": "pipeline,role,epoch"}


def table(lake: Lake) -> Table:
    """Whose turn it is, one row a claim; shared by the pipelines of a lake."""
    return lake.control("epochs")


def create(spark: SparkSession, lake: Lake) -> bool:
    """Creates the table unless it is there: whether it was not."""
    schema = spark.createDataFrame([], SCHEMA).schema
    return table(lake).create(spark, schema, properties=_PROPERTIES, grows=True, lenient=True)


def raise_to(spark: SparkSession, lake: Lake, pipeline: str, role: commands.Role, epoch: int, run_id: str) -> None:
    """From here on whatever an older epoch of the role writes fails.

    Args:
        lake: where the table lives; it is created if it is missing.
        pipeline: whose tables are written.
        role: what kind of rows of the ledger the epoch is of.
        epoch: claimed in the ledger already, so that no other run has it.
        run_id: of the run that has.
    """
    epochs = table(lake)
    if not epochs.exists(spark):
        create(spark, lake)
    named = {"pipeline": pipeline, "role": role, "run_id": run_id}
    row = spark.range(0, 1, 1, 1).select(
        *(F.lit(value).alias(name) for name, value in named.items()), F.lit(epoch).cast("bigint").alias("epoch")
    )
    epochs.append(row, *decisions.of_claim(commands.Turn(role, epoch)).of(pipeline))


def newest(spark: SparkSession, lake: Lake, pipeline: str, role: str) -> int:
    """The newest epoch of a role; 0 if there is none. For where the ledger knows of none: it may have been recreated."""
    epochs = table(lake)
    if not epochs.exists(spark):
        return 0
    own = epochs.read(spark).where((F.col("pipeline") == pipeline) & (F.col("role") == role))
    row = own.agg(F.max("epoch")).first()
    return int(row[0] or 0) if row is not None else 0


def fenced(spark: SparkSession, rows: DataFrame, lake: Lake, pipeline: str, role: str, epoch: int) -> DataFrame:
    """The rows, which can be written only while this epoch of the role is the newest.

    The check is part of the write's own statement and fails it: a paused driver that wakes up commits nothing.
    """
    newest = (
        f"select assert_true(max(epoch) = {epoch}, '{FENCED_WORD}') from {table(lake).reference} "
        f"where pipeline = {literal(pipeline)} and role = {literal(role)} and epoch >= {epoch}"
    )
    return fence_rows(spark, rows, newest)


def fence_rows(spark: SparkSession, rows: DataFrame, condition: str) -> DataFrame:
    """The rows, written only if the condition holds when the statement runs; else the statement fails.

    The check rides in a branch of its own that never yields a row: as a filter on the rows it would be optimised away
    whenever Spark finds out that there are none, and an empty append would then record its transaction unfenced.

    Args:
        spark: the session of the rows.
        rows: what is to be written.
        condition: a SQL expression that is null when all is well and raises otherwise.
    """
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema.fields]
    guard = spark.range(0, 1, 1, 1).where(F.expr(f"({condition}) is not null")).select(*nothing)
    return rows.unionByName(guard)


class translated:  # noqa: N801 - reads as a word: with translated(pipeline)
    """Turns the failed fence of a statement into Fenced; other errors pass."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Recognises the fence by its word, in whatever the engine wrapped around it."""
        if error is not None and FENCED_WORD in str(error):
            message = f"a newer driver runs pipeline {self._pipeline}; nothing was written"
            raise Fenced(message) from error
