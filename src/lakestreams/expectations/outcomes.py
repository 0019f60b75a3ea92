"""What becomes of the records on a join's left side: how often each came out matched, and how often unmatched.

A windowed join's left record may come out in several cycles, so its counts are kept while its window may still give
results, with columns
    left array<struct<source, partition, offset, attempt>>    the left side's records in a result
    matched bigint, unmatched bigint                          results so far
    newest bigint                                             the greatest time of a result, ms
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import CONTRIBUTORS, KIND, MATCHED, TIME, UNMATCHED, is_new
from lakestreams.topology.expectations import FanOut, OneOutcomePerLeft

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = ("left", "matched", "unmatched", "newest")


def count(rows: DataFrame, topics: Sequence[str], past: DataFrame | None, wanted: int) -> DataFrame:
    """The outcomes of left records: `COLUMNS` and `touched`, whether a result of theirs is of the wanted cycles.

    One exchange by the left record.

    Args:
        rows: the join's results, a records frame.
        topics: of the left side.
        past: `COLUMNS` of results before, or None.
        wanted: the first cycle that is judged.
    """
    of_left = F.filter(CONTRIBUTORS, lambda one: one["source"].isin(*topics))
    results = rows.where(F.col(KIND).isin(MATCHED, UNMATCHED)).select(
        of_left.alias("left"),
        (F.col(KIND) == MATCHED).cast("bigint").alias("matched"),
        (F.col(KIND) == UNMATCHED).cast("bigint").alias("unmatched"),
        F.col(TIME).alias("newest"),
        is_new(wanted).alias("touched"),
    )
    results = results.where(F.size("left") > 0)
    if past is not None:
        results = results.unionByName(past.withColumn("touched", F.lit(False)))
    return results.groupBy("left").agg(
        F.sum("matched").alias("matched"),
        F.sum("unmatched").alias("unmatched"),
        F.max("newest").alias("newest"),
        F.max("touched").alias("touched"),
    )


def retain(counted: DataFrame, clock_ms: int | None, span_ms: int) -> DataFrame:
    """The outcomes that may still change: nothing joins a record once every clock has passed its results by the span.

    Args:
        counted: of `count`.
        clock_ms: the least of all tasks' clocks; None: not known, all are kept.
        span_ms: window and grace together, ms.
    """
    kept = counted.select(*COLUMNS)
    return kept if clock_ms is None else kept.where(F.col("newest") + span_ms >= clock_ms)


def wrong(what: FanOut | OneOutcomePerLeft) -> Column:
    """Whether a left record's outcomes violate an invariant."""
    if isinstance(what, FanOut):
        return F.col("matched") > what.at_most
    return (F.col("unmatched") > 1) | ((F.col("unmatched") > 0) & (F.col("matched") > 0))


def shown() -> Column:
    """A left record and its outcomes in words."""
    place = F.transform(
        "left", lambda one: F.concat(one["source"], F.lit("-"), one["partition"], F.lit("@"), one["offset"])
    )
    counts = (F.lit(": matched "), F.col("matched"), F.lit(" times, unmatched "), F.col("unmatched"))
    return F.concat(F.array_join(place, ", "), *counts)
