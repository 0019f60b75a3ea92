"""Cases of stream-table joins that look at times for `bench.kernels`: as of event time, with grace, waiting, amending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.frames import MINUTE, PARTITIONS, Frames, share, text
from bench.measures import Case
from lakestreams.operators.stream_table_as_of import kernel as as_of
from lakestreams.operators.stream_table_wait import kernel as waiting
from lakestreams.operators.stream_table_wait.outcomes import WaitOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPREAD, HISTORY, GRACE = 35 * MINUTE, 10 * MINUTE, MINUTE
CYCLE = 1


def cases(frames: Frames, count: int) -> Iterator[Case]:
    """Views of half as many orders. An order's row comes at a random time, so half of the views come before their row."""
    keys = count // 2
    views = frames.spark.range(count).select(
        text("order", (share(7) * keys).cast("bigint").cast("string")).alias("key"),
        (F.col("id") * SPREAD / count).cast("bigint").alias("at"),
        text("page", "id").alias("page"),
    )
    points = frames.stream("timed_views", views)
    rows = frames.spark.range(keys).select(
        text("order", "id").alias("key"),
        (share(6) * SPREAD).cast("bigint").alias("at"),
        (share(1) * 10_000).cast("bigint").alias("amount"),
    )
    versions = frames.table("timed_orders", rows)
    yield Case("as of event time", count, lambda: as_of.execute(points, versions, "left", CYCLE, HISTORY))
    yield Case("as of event time, with grace", count,
               lambda: as_of.execute(points, versions, "left", CYCLE, HISTORY, grace_ms=GRACE))  # fmt: skip
    for name, wait, amend in (("wait a minute", MINUTE, None), ("amend within a minute", None, MINUTE)):
        join = WaitOptions("left", wait, amend, realm=PARTITIONS, ascending=True)
        yield Case(name, count, _waiting(points, versions, join))


def _waiting(points: DataFrame, versions: DataFrame, join: WaitOptions) -> Callable[[], DataFrame]:
    return lambda: waiting.execute(points, versions, None, join, CYCLE)
