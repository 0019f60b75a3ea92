"""The versioned store: what a table with a history (`history_ms`) takes in, keeps, and tells its readers.

The law, of Kafka Streams' RocksDBVersionedStore (KIP-889, KIP-914; semantics section 7). Puts are the rows with a key,
in the order. The store's time is the task's: the running maximum of ts over its puts, up to and including this one. A
put is rejected iff `ts < store time - history`. A version replaces the one of its key with the same ts; a tombstone is
a version. A put is the latest iff no version of its key is newer; only such puts are reported to table-table and
foreign-key joins (`latest_only`), the others only go into the history, where lookups find them (`kernel`, which
puts the versions of a key one after the other, as `_after` does here).

Its oddity: the store keeps the latest live row apart from the closed versions, and of a tombstone only the end that it
gives them. A tombstone with the very ts of the latest row therefore vanishes, together with that row, unless a closed
version ends at that ts: when the row came to an absent or deleted key and nothing has been put between that end and
its ts since. An older row may then be the latest again. Puts in between saw the row; so what vanished has a `gone`.

Plan of `put`: the rows are exchanged and sorted by task (the store's time) and by key (who was the latest). Next to it
the same for four narrow columns, to see what vanishes: only keys at which a tombstone comes straight after a row of its
ts can be odd; each of them is folded over one array of its puts, and what vanished is broadcast. Four exchanges, four
sorts, of the table side only. A fold costs the key's puts times its vanished rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import (
    BY_KEY,
    CONTRIBUTORS,
    KEY,
    KEY_HASH,
    KIND,
    ORDER,
    PLACE,
    TASK,
    TIME,
    VALUE,
    hashed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

# The kind of a row that stands for a task's store time only: null key, null value, the greatest ts put so far.
CLOCK = "clock"
# Of a put: the place struct<o, n> of the tombstone it vanished with, or null; whether it was its key's latest.
GONE, IN_ORDER = "gone", "in_order"

_STORE_TIME, _BOUND, _NEXT, _RANK, _OPENS = "_store_time", "_bound", "_next", "_rank", "_opens"
_REALM, _BEHIND = "_realm", "_behind"
_ODD, _ROWS, _SPANS = "_odd", "_rows", "_spans"
_AT, _DEAD = "at", "dead"
_NEVER, _LONGEST = -(2**63), 1 << 60


def counts() -> Column:
    """Whether a row moves its task's store time: a put, or a clock that `retain` left."""
    return F.col(KEY).isNotNull() | (F.col(KIND) == CLOCK)


def milliseconds(span: int | Column) -> Column:
    """A span of time as a column: a number, or an expression over `task`; one that no time is far from."""
    return F.least(F.lit(span).cast("bigint"), F.lit(_LONGEST))


def put(rows: DataFrame, history_ms: int | Column) -> DataFrame:
    """What the store accepts.

    Args:
        rows: a records frame of a table with `task`, past rows (as `retain` left them) and new ones.
        history_ms: the history retention; a number, or an expression over `task`.

    Returns:
        The accepted rows with `gone` and `in_order`. No clock rows.
    """
    before = Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE).rowsBetween(Window.unboundedPreceding, -1)
    newest = F.max(F.when(F.col(GONE).isNull(), F.col(TIME))).over(before)
    in_order = F.col(GONE).isNotNull() | newest.isNull() | (F.col(TIME) >= newest)
    return with_gone(_accepted(rows, history_ms), rows, history_ms).withColumn(IN_ORDER, in_order).drop(KEY_HASH)


def with_gone(puts: DataFrame, rows: DataFrame, history_ms: int | Column) -> DataFrame:
    """Puts with `gone`.

    Args:
        puts: rows of the table.
        rows: all rows of the table, past and new.
        history_ms: the history retention.
    """
    vanished = _vanished(rows, history_ms)
    at = F.struct(ORDER, PLACE)

    def holds(span: Column) -> Column:
        return (span[TIME] == F.col(TIME)) & (span["since"] <= at) & (at <= span[GONE])

    gone = F.get(F.filter(_SPANS, holds), F.lit(0))[GONE]
    joined = puts.join(F.broadcast(vanished), F.col(KEY) == F.col(_ODD), "left")
    return joined.withColumn(GONE, gone).drop(_ODD, _SPANS)


def latest_only(rows: DataFrame, history_ms: int | Column) -> DataFrame:
    """The updates that a versioned table's readers get: accepted, and the latest of their key when put.

    Args:
        rows: a records frame of the table with `task`, past rows (as `retain_latest` left them) and new ones.
        history_ms: the history retention.

    Returns:
        Those rows, with their columns; past ones are what the table held.
    """
    return put(rows, history_ms).where(IN_ORDER).select(*rows.columns)


def retain(rows: DataFrame, history_ms: int | Column, realm: int = 1) -> DataFrame:
    """What still matters of a versioned table that is looked up as of a time.

    Versions newer than store time - history, the newest one of each key that is not, what `_opens` says, and each
    task's store time. A key may lie in two tasks; so the store time is that of the task that is furthest behind, of those that
    have taken a version. One that takes its first version later, far behind the others, may miss older ones of such a key.

    Args:
        realm: how many tasks there are, 0 to realm - 1; of many histories that share a job, each has so many.
    """
    moves = rows.where(counts())
    of_realm = F.floor(F.col(TASK) / realm)
    behind = moves.groupBy(of_realm.alias(_REALM), TASK).agg(F.max(TIME).alias(_STORE_TIME))
    behind = behind.groupBy(_REALM).agg(F.min(_STORE_TIME).alias(_BEHIND))
    known = moves.join(F.broadcast(behind), of_realm == F.col(_REALM))
    puts = _accepted(known.withColumn(_BOUND, F.col(_BEHIND) - milliseconds(history_ms)), history_ms)
    newer = F.lag(TIME).over(_newest_first())
    kept = (
        with_gone(puts, rows, history_ms)
        .where(F.col(GONE).isNull())
        .withColumns({_NEXT: newer, _OPENS: _opens()})
        .where(F.col(_NEXT).isNull() | ((F.col(_NEXT) > F.col(TIME)) & (F.col(_NEXT) > F.col(_BOUND))) | F.col(_OPENS))
    )
    return kept.select(*rows.columns).unionByName(_clocks(rows))


def retain_latest(rows: DataFrame, history_ms: int | Column) -> DataFrame:
    """What still matters of a versioned table whose readers only get the latest.

    The newest version of each key, the one before it and what `_opens` says (they tell whether a tombstone would
    vanish), and each task's store time.
    """
    newer, rank = (
        F.lag(TIME).over(_newest_first()),
        F.dense_rank().over(Window.partitionBy(*BY_KEY).orderBy(F.desc(TIME))),
    )
    kept = (
        with_gone(_accepted(rows, history_ms), rows, history_ms)
        .where(F.col(GONE).isNull())
        .withColumns({_NEXT: newer, _RANK: rank, _OPENS: _opens()})
        .where(F.col(_NEXT).isNull() | ((F.col(_NEXT) > F.col(TIME)) & (F.col(_RANK) == 2)) | F.col(_OPENS))
    )
    return kept.select(*rows.columns).unionByName(_clocks(rows))


def _opens() -> Column:
    """Whether a put is the first at the ts of a key's latest row, if that is live.

    Puts with the same ts replace each other, but what was put between the first and the last of them decides whether
    a tombstone there would vanish; so the first one keeps its place.
    """
    live = F.col(VALUE).isNotNull().alias("live")
    earlier = F.lead(TIME).over(_newest_first())
    latest = F.first(F.struct(TIME, live)).over(_newest_first())
    return (earlier.isNull() | (earlier < F.col(TIME))) & (latest == F.struct(TIME, F.lit(True)))


def _newest_first() -> WindowSpec:
    return Window.partitionBy(*BY_KEY).orderBy(F.desc(TIME), F.desc(ORDER), F.desc(PLACE))


def _clocks(rows: DataFrame) -> DataFrame:
    """A row a task: its store time, as a row without key and value."""
    carried = [ORDER, PLACE, CONTRIBUTORS]
    first = F.struct(-F.col(TIME), ORDER, PLACE)
    newest = (
        rows.where(counts())
        .groupBy(TASK)
        .agg(F.max(TIME).alias(TIME), *(F.min_by(name, first).alias(name) for name in carried))
    )
    known = {KIND: F.lit(CLOCK), **{name: F.col(name) for name in (TASK, TIME, *carried)}}
    types = {field.name: field.dataType for field in rows.schema.fields}
    return newest.select(*(known.get(name, F.lit(None)).cast(types[name]).alias(name) for name in rows.columns))


def _accepted(rows: DataFrame, history_ms: int | Column) -> DataFrame:
    so_far = Window.partitionBy(TASK).orderBy(ORDER, PLACE).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    timed = rows.where(counts()).withColumn(_STORE_TIME, F.max(TIME).over(so_far))
    taken = F.col(KEY).isNotNull() & (F.col(TIME) >= F.col(_STORE_TIME) - milliseconds(history_ms))
    return hashed(timed.where(taken).drop(_STORE_TIME))


def _vanished(rows: DataFrame, history_ms: int | Column) -> DataFrame:
    """Keys of which something vanished, with the spans: `_odd`, `_spans` array<struct<ts, since, gone>>."""
    narrow = _accepted(rows, history_ms).select(
        KEY_HASH, KEY, TIME, F.struct(ORDER, PLACE).alias(_AT), F.col(VALUE).isNull().alias(_DEAD)
    )
    before = F.lag(F.struct(TIME, F.col(_DEAD))).over(Window.partitionBy(*BY_KEY).orderBy(TIME, _AT))
    suspect = F.col(_DEAD) & (before == F.struct(TIME, F.lit(False)))
    in_time = F.sort_array(F.collect_list(F.struct(_AT, TIME, _DEAD)))
    place = narrow.schema[_AT].dataType.simpleString()
    start = F.struct(
        F.lit(None).cast("bigint").alias("latest"),
        F.lit(_NEVER).alias("ended"),
        F.lit(None).cast(place).alias("since"),
        F.array().cast(f"array<struct<{TIME}: bigint, since: {place}, {GONE}: {place}>>").alias("spans"),
    )
    return (
        narrow.withColumn(_ODD, suspect)
        .withColumn(_ODD, F.bool_or(_ODD).over(Window.partitionBy(*BY_KEY)))
        .where(_ODD)
        .groupBy(KEY_HASH, F.col(KEY).alias(_ODD))
        .agg(in_time.alias(_ROWS))
        .select(_ODD, F.aggregate(_ROWS, start, _after, lambda state: state["spans"]).alias(_SPANS))
        .where(F.size(_SPANS) > 0)
    )


def _after(state: Column, row: Column) -> Column:
    """A key's state after a put.

    `latest`: the ts of the live row, if there is one; `ended`: the newest end of the closed versions; `since`: the put
    with which the key came to be live; `spans`: what vanished, from such a put to its tombstone.
    """
    ts, dead = row[TIME], row[_DEAD]
    latest, ended = state["latest"], state["ended"]
    absent = latest.isNull()
    appears = absent & (ts >= ended) & ~dead
    vanishes = (ts == latest) & dead & (ended < latest)
    span = F.struct(ts.alias(TIME), state["since"].alias("since"), row[_AT].alias(GONE))
    newest = F.when(absent, F.when(appears, ts)).when(ts >= latest, F.when(~dead, ts)).otherwise(latest)
    closed = (
        F.when(absent, F.when((ts >= ended) & dead, ts).otherwise(ended))
        .when(ts > latest, ts)
        .when((ts < latest) & (ts >= ended), latest)
        .otherwise(ended)
    )
    return F.struct(
        newest.alias("latest"),
        closed.alias("ended"),
        F.when(appears, row[_AT]).otherwise(state["since"]).alias("since"),
        F.when(vanishes, F.concat(state["spans"], F.array(span))).otherwise(state["spans"]).alias("spans"),
    )
