"""Cases of stream-table joins that look at times for `bench.kernels`: as of event time, with grace, waiting, amending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.frames import MINUTE, PARTITIONS, Frames, share, text
from bench.measures import Case
from lakestreams.operators.stream_table_as_of import frames as frames_as_of
from lakestreams.operators.stream_table_as_of.options import AsOf
from lakestreams.operators.stream_table_wait import frames as waiting
from lakestreams.operators.stream_table_wait.frames import StreamAndTable
from lakestreams.operators.stream_table_wait.options import WaitOptions

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
    for name, grace in (("as of event time", None), ("as of event time, with grace", GRACE)):
        as_of = AsOf("left", HISTORY, grace, realm=PARTITIONS, shares=PARTITIONS, together=True)
        yield Case(name, count, _as_of(points, versions, as_of))
        yield Case(f"{name}, by key", count, _as_of(points, versions, replace(as_of, together=False)))
    for name, wait, amend in (("wait a minute", MINUTE, None), ("amend within a minute", None, MINUTE)):
        together = WaitOptions("left", wait, amend, realm=PARTITIONS, shares=PARTITIONS, together=True, ascending=True)
        yield Case(name, count, _waiting(points, versions, together))
        yield Case(f"{name}, by key", count, _waiting(points, versions, replace(together, together=False)))


def _as_of(points: DataFrame, versions: DataFrame, join: AsOf) -> Callable[[], DataFrame]:
    return lambda: frames_as_of.execute(points, versions, join, CYCLE)


def _waiting(points: DataFrame, versions: DataFrame, join: WaitOptions) -> Callable[[], DataFrame]:
    return lambda: waiting.execute(StreamAndTable(points, versions), join, CYCLE)
