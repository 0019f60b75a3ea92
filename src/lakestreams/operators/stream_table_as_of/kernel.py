"""Stream-table join against a versioned table, inner and left: each point with the version valid at its event time.

The law: a point is looked up at its trigger, among the versions of its key that the store has taken by then (see
`store`): it meets the newest with ts <= its own, and a tombstone there is a miss. A point below the history's bound
(store time at the trigger - history) meets its key's latest version alone, if that is not newer than the point. A result
has the point's key and time; a point that meets no version or has a null key is unmatched in a left join, and gives no
result in an inner one.

Without grace a point is its own trigger; `grace` says what the trigger is with grace.

Source: Kafka Streams' KStreamKTableJoinProcessor and RocksDBVersionedStore (KIP-889, KIP-914); semantics sections 4, 7.

Plan: points and versions become one frame: exchanged by task and sorted once (the store's time at each row), exchanged
by key and sorted twice: by the order, which finds the latest version, and by (ts, order), which finds older ones for
points behind it. Next to it what vanishes, over narrow columns of the versions (`store.with_gone`), is broadcast.
That is exact for versions that were the latest when put, as their order is that of their ts; a hot key costs its rows,
never points times versions. Versions that came late are collected along the second sort, and a point looks through
those of its key that are not newer than it: only there the cost is points times late versions. With grace the points
are exchanged by task and sorted twice before (the triggers; most points lie twice in the second sort), and the results
once by trigger. No branch reads the points twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    ORDER,
    PLACE,
    RIGHT_KEY,
    RIGHT_VALUE,
    TASK,
    TIME,
    UNMATCHED,
    VALUE,
    is_tick,
    number_of,
    renumber,
)
from lakestreams.operators.stream_table_as_of import grace
from lakestreams.operators.stream_table_as_of import store as versioned
from lakestreams.operators.stream_table_as_of.grace import TRIGGER
from lakestreams.operators.stream_table_as_of.store import GONE
from lakestreams.operators.versions import byte_order, key_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from lakestreams.topology.kinds import JoinKind, Overlap

AT = "at"
_POINT, _VERSION, _SPREAD, _BOUND = "point", "version", "spread", "bound"
_LATEST, _OPEN, _AS_OF, _LATE, _MET = "latest", "open", "as_of", "late", "met"


def retain_versions(versions: DataFrame, history_ms: int | Column) -> DataFrame:
    """The versions that later points can meet; see `store.retain`."""
    return versioned.retain(versions, history_ms)


def execute(
    points: DataFrame,
    versions: DataFrame,
    how: JoinKind,
    since: int,
    history_ms: int | Column,
    *,
    grace_ms: int | Column | None = None,
    overlap: Overlap = "none",
) -> DataFrame:
    """Joins the points whose trigger is new with the versions that they meet.

    Args:
        points: a records frame of the stream with `task`; with grace also the past points that `grace.retain` left.
        versions: a records frame of the table with `task`, past rows (as `retain_versions` left them) and new ones.
        how: `inner` or `left`.
        since: the first new cycle.
        history_ms: the table's history retention; a number, or an expression over `task`.
        grace_ms: how long points wait, at most the history; None is no grace.
        overlap: whether both sides hold rows of one trigger, and whose come first.

    Returns:
        The points' columns with `rk` and `rv` (the version's key and value, null where unmatched), `kind` set to
        `matched` or `unmatched`, and the version's contributors appended to `contributors`; with grace `o` and `n` are
        the trigger's and the place there.
    """
    wanted = points if how == "left" else points.where(grace.keeps_time())
    if grace_ms is None:
        triggered = wanted.withColumn(TRIGGER, F.struct(ORDER, PLACE))
    else:
        triggered = grace.with_triggers(wanted, grace_ms)
    triggered = triggered.where((F.col(TRIGGER)[ORDER]["cycle"] >= since) & ~is_tick())
    found = _look_up(triggered, versions, history_ms, overlap)
    results = _results(found, points.columns)
    if how == "inner":
        results = results.where(F.col(KIND) == MATCHED)
    if grace_ms is None:
        return results.drop(TRIGGER)
    bytes_of_key = byte_order(F.col(KEY), key_type(points))
    placed = results.withColumn("_own", F.struct(ORDER, PLACE)).withColumn(ORDER, F.col(TRIGGER)[ORDER])
    return renumber(placed, F.col(TRIGGER)[PLACE], F.col(TIME), *bytes_of_key, F.col("_own")).drop(TRIGGER, "_own")


def explain(how: JoinKind, history_ms: int, grace_ms: int | None = None) -> str:
    """The plan in words, for `check --explain`."""
    waits = "" if grace_ms is None else f"; points wait {grace_ms} ms: exchanged and sorted by task, results by trigger"
    return (
        f"stream-table {how} join, lookup as of event time within {history_ms} ms: versions exchanged by task and key; "
        f"points and versions together exchanged by task and by key and sorted three times{waits}"
    )


def _look_up(points: DataFrame, versions: DataFrame, history_ms: int | Column, overlap: Overlap) -> DataFrame:
    """Points as rows `ts, at, point` with the versions they may meet: `latest`, `open`, `as_of`, `late`; and `bound`."""
    ranks = (1, 0) if overlap == "left_first" else (0, 1)
    first, second = (F.lit(rank).alias("rank") for rank in ranks)
    at = _place(F.struct(ORDER, PLACE), first).alias(AT)
    gone = F.when(F.col(GONE).isNotNull(), _place(F.col(GONE), first)).alias(GONE)
    version = F.when(F.col(KEY).isNotNull(), F.struct(TIME, at, gone, KEY, VALUE, CONTRIBUTORS))
    known = versioned.with_gone(versions.where(versioned.counts()), versions, history_ms).select(
        TASK, F.col(KEY).cast(key_type(points)).alias(KEY), TIME, at, version.alias(_VERSION)
    )
    asked = points.select(
        TASK, KEY, TIME, _place(F.col(TRIGGER), second).alias(AT), F.struct(*points.columns).alias(_POINT)
    )
    is_point, held = F.col(_POINT).isNotNull(), F.col(_VERSION)
    store_time = F.max(F.when(~is_point, F.col(TIME))).over(_so_far([TASK], AT))
    stays, passes = F.when(held[GONE].isNull(), held), F.when(held[GONE].isNotNull(), held)
    in_order = F.col(_LATEST)[AT] == F.col(AT)  # the latest of its key when put
    by_key = [_SPREAD, KEY]
    by_order, by_time = _so_far(by_key, AT), _so_far(by_key, TIME, is_point, AT)
    return (
        asked.unionByName(known, allowMissingColumns=True)
        .withColumn(_BOUND, store_time - versioned.milliseconds(history_ms))
        .where(is_point | (held.isNotNull() & (F.col(TIME) >= F.col(_BOUND))))
        .withColumn(_SPREAD, number_of(F.col(KEY), F.col(AT)))
        .withColumn(_LATEST, F.max_by(stays, F.when(stays.isNotNull(), F.struct(TIME, AT))).over(by_order))
        .withColumn(_OPEN, F.last(passes, ignorenulls=True).over(by_order))
        .withColumn(_AS_OF, F.last(F.when(in_order, stays), ignorenulls=True).over(by_time))
        .withColumn(_LATE, F.collect_list(F.when(~in_order, stays)).over(by_time))
        .where(is_point)
    )


def _results(looked_up: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The points' columns and what they meet: `rk`, `rv`, `kind`, `contributors`; and `trigger`."""
    time, at = F.col(TIME), F.col(AT)
    latest, still_open = F.col(_LATEST), F.col(_OPEN)
    as_of = F.when(F.col(_AS_OF)[AT] < at, F.col(_AS_OF))
    later = F.array_max(
        F.transform(
            F.filter(_LATE, lambda one: (one[TIME] <= time) & (one[AT] < at)),
            lambda one: F.struct(one[TIME].alias(TIME), one[AT].alias(AT)),
        )
    )
    came_late = F.get(F.filter(_LATE, lambda one: one[AT] == later[AT]), F.lit(0))
    is_newer = as_of.isNull() | (later > F.struct(as_of[TIME], as_of[AT]))
    met = (
        F.when((still_open[GONE] > at) & (still_open[TIME] <= time), still_open)
        .when(latest[TIME] <= time, latest)
        .when((time >= F.col(_BOUND)) & later.isNotNull() & is_newer, came_late)
        .when(time >= F.col(_BOUND), as_of)
    )
    hit = F.col(_MET)[VALUE].isNotNull()
    point = F.col(_POINT)
    filled = {
        KIND: F.when(hit, F.lit(MATCHED)).otherwise(F.lit(UNMATCHED)),
        CONTRIBUTORS: F.when(hit, F.concat(point[CONTRIBUTORS], F.col(_MET)[CONTRIBUTORS])).otherwise(
            point[CONTRIBUTORS]
        ),
    }
    return looked_up.withColumn(_MET, met).select(
        *(filled.get(name, point[name]).alias(name) for name in columns),
        F.when(hit, F.col(_MET)[KEY]).alias(RIGHT_KEY),
        F.col(_MET)[VALUE].alias(RIGHT_VALUE),
        point[TRIGGER].alias(TRIGGER),
    )


def _place(of: Column, rank: Column) -> Column:
    """A place in the order, between the rows of both sides too."""
    return F.struct(of[ORDER].alias(ORDER), rank, of[PLACE].alias(PLACE))


def _so_far(parts: Sequence[str], *by: str | Column) -> WindowSpec:
    return Window.partitionBy(*parts).orderBy(*by).rowsBetween(Window.unboundedPreceding, Window.currentRow)
