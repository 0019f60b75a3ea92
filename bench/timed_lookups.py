"""Cases of what looks at times for `bench.kernels`: lookups as of event time, with grace, waiting, amending; a history's store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.frames import MINUTE, PARTITIONS, Frames, share, text
from bench.measures import Case
from lakestreams.operators.stream_table_as_of import frames as frames_as_of
from lakestreams.operators.stream_table_as_of.frames import AsOf
from lakestreams.operators.stream_table_wait import frames as waiting
from lakestreams.operators.stream_table_wait.frames import StreamAndTable
from lakestreams.operators.stream_table_wait.worker import WaitOptions
from lakestreams.operators.versioned_table import frames as versioned
from lakestreams.operators.versioned_table.frames import Versioned

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
    yield from _stores(frames, count)
    for name, wait, amend in (("wait a minute", MINUTE, None), ("amend within a minute", None, MINUTE)):
        together = WaitOptions("left", wait, amend, realm=PARTITIONS, shares=PARTITIONS, together=True, ascending=True)
        yield Case(name, count, _waiting(points, versions, together))
        yield Case(f"{name}, by key", count, _waiting(points, versions, replace(together, together=False)))


def _stores(frames: Frames, count: int) -> Iterator[Case]:
    """Versions up to a minute late, two a key."""
    rows = frames.spark.range(count).select(
        text("order", (share(7) * (count // 2)).cast("bigint").cast("string")).alias("key"),
        (F.col("id") * SPREAD / count + share(6) * MINUTE).cast("bigint").alias("at"),
        (share(1) * 10_000).cast("bigint").alias("amount"),
    )
    changes = frames.table("timed_changes", rows)
    store = Versioned(HISTORY, realm=PARTITIONS, shares=PARTITIONS, together=True)
    for name, told in (
        ("a history's latest", versioned.latest_only),
        ("a history's latest, kept", versioned.retain_latest),
        ("a history, kept", versioned.retain),
    ):
        yield Case(name, count, partial(told, changes, store))
        yield Case(f"{name}, by key", count, partial(told, changes, replace(store, together=False)))


def _as_of(points: DataFrame, versions: DataFrame, join: AsOf) -> Callable[[], DataFrame]:
    return lambda: frames_as_of.execute(points, versions, join, CYCLE)


def _waiting(points: DataFrame, versions: DataFrame, join: WaitOptions) -> Callable[[], DataFrame]:
    return lambda: waiting.execute(StreamAndTable(points, versions), join, CYCLE)
