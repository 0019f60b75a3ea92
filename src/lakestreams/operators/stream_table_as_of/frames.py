"""Stream-table join against a versioned table, over frames: what its kernel gets, and what becomes of its results.

Rows go to Python workers in one of three ways (see `stream_stream.frames`). If by key, Spark finds by task before where
records come out and how far the history reaches then, and under grace results get their places by their triggers afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.homes import groups_in_words
from lakestreams.operators.records import (
    KEY,
    KIND,
    ORDER,
    PLACE,
    TASK,
    TIME,
    is_tick,
    renumber,
)
from lakestreams.operators.stream_table_as_of import grace, worker
from lakestreams.operators.stream_table_as_of.grace import TRIGGER
from lakestreams.operators.stream_table_as_of.worker import BOUND, COMES_AT, GRACE, MOVES_TIME, Options
from lakestreams.operators.versioned_table.frames import counts, milliseconds
from lakestreams.operators.versioned_table.kernel import ALWAYS
from lakestreams.operators.versioned_table.worker import CLOCK_KIND, HISTORY
from lakestreams.operators.versions import byte_order, key_type
from lakestreams.operators.windows import (
    ARM,
    AT,
    LEFT,
    RECORD_AT,
    RIGHT,
    TURN,
    Windowed,
    as_records,
    both_sides,
    kernel_input,
    results_type,
)
from lakestreams.operators.workers import ROWS_OF_A_WORKER, Shares, in_workers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap

_WHEN = "taken_or_asked_at"


@dataclass(frozen=True)
class AsOf(Shares):
    """The options of the join. Times are in ms: numbers, or expressions over `task`, which let many histories share a job.

    Attributes:
        history: the table's history retention.
        grace: how long records of the stream wait, at most the history; None is no grace.
        overlap: whether both sides hold rows of one source record, and whose come first.
        multi_row: whether the stream holds several rows of one source record.
    """

    how: JoinKind
    history: int | Column
    grace: int | Column | None = None
    overlap: Overlap = "none"
    multi_row: bool = False


def execute(points: DataFrame, versions: DataFrame, join: AsOf, since: int) -> DataFrame:
    """Joins the points whose trigger is new with the versions that they meet.

    Args:
        points: a records frame of the stream with `task`; with grace also the past points that `grace.retain` left.
        versions: a records frame of the table with `task`, past rows (as `versioned_table.frames.retain` left them) and new ones.

    Returns:
        Records columns with `rk` and `rv` (the version's key and value, null where unmatched), key and time the point's, `kind`
        `matched` or `unmatched`; with grace `o` and `n` are the trigger's and the place there.
    """
    wanted = points if join.how == "left" else points.where(grace.keeps_time())
    both = both_sides(wanted, versions, Windowed("left", 0, 0, overlap=join.overlap))
    waits = join.grace is not None
    options = Options(join.how == "left", waits, since, join.overlap == "right_first", waits and join.by_key)
    schema = results_type(both, with_records=options.with_records)
    rows = _kernel_input(_with_bounds(both, join, since) if join.by_key else _with_times(both, join))
    found = in_workers(rows, partial(worker.joined, options), schema, *join.spread(), small=(COMES_AT,))
    if options.with_records:
        bytes_of_key = byte_order(F.col(KEY), key_type(points))
        found = renumber(found, F.col(TURN), F.col(TIME), *bytes_of_key, F.col(RECORD_AT))
    several = waits and join.multi_row and not join.by_key
    return as_records(found, versions.schema[KEY].dataType, several=several)


def explain(how: JoinKind, history_ms: int, grace_ms: int | None = None) -> str:
    """The plan in words, for `check --explain`."""
    waits = "" if grace_ms is None else f", points wait {grace_ms} ms"
    more = "" if grace_ms is None else ", and results by trigger"
    groups = groups_in_words(f"exchanged by task, then by key in groups of {ROWS_OF_A_WORKER:,}{more}")
    return f"stream-table {how} join, lookup as of event time within {history_ms} ms{waits}: {groups}"


def _with_times(both: DataFrame, join: AsOf) -> DataFrame:
    """All rows, with the history and the grace of their tasks."""
    grace_ms = {} if join.grace is None else {GRACE: milliseconds(join.grace)}
    return both.withColumns({HISTORY: milliseconds(join.history), **grace_ms})


def _with_bounds(both: DataFrame, join: AsOf, since: int) -> DataFrame:
    """The points whose trigger is new, with it and the history's bound there, and the versions that the store takes."""
    points = both.where(F.col(ARM) == LEFT).withColumn(_WHEN, F.col(AT))
    if join.grace is not None:
        trigger, rank = F.col(TRIGGER), F.col(AT)["rank"]
        comes_at = F.struct(trigger[ORDER].alias(ORDER), rank.alias("rank"), trigger[PLACE].alias(PLACE))
        points = grace.with_triggers(points, join.grace).where(trigger.isNotNull()).withColumn(COMES_AT, comes_at)
        points = points.withColumn(_WHEN, F.col(COMES_AT)).drop(TRIGGER)
    versions = both.where((F.col(ARM) == RIGHT) & counts()).withColumn(_WHEN, F.col(AT))
    so_far = Window.partitionBy(TASK).orderBy(_WHEN).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    store_time = F.max(F.when(F.col(ARM) == RIGHT, F.col(TIME))).over(so_far)
    rows = points.unionByName(versions, allowMissingColumns=True)
    rows = rows.withColumn(BOUND, F.coalesce(store_time - milliseconds(join.history), F.lit(ALWAYS)))
    is_wanted = (F.col(ARM) == LEFT) & (F.col(_WHEN)[ORDER]["cycle"] >= since) & ~is_tick()
    is_taken = (F.col(ARM) == RIGHT) & F.col(KEY).isNotNull() & (F.col(TIME) >= F.col(BOUND))
    return rows.where(is_wanted | is_taken)


def _kernel_input(rows: DataFrame) -> DataFrame:
    known = [name for name in (HISTORY, GRACE, BOUND, COMES_AT) if name in rows.columns]
    moves_time = F.col(KEY).isNull() & (is_tick() | (F.col(KIND) == CLOCK_KIND))
    return kernel_input(rows, *known, moves_time.alias(MOVES_TIME))
