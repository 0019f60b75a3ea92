"""A versioned table's store over frames: what its readers get, and what is kept of it.

Rows go to Python workers in one of three ways (see `stream_stream.frames`). If by key, Spark finds by task before which
versions the store takes.

For many rows Spark also finds what lookups still reach, which the tasks together decide: a key that shares a task may come to another
one later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructField, StructType

from lakestreams.operators import versions
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    ORDER,
    PLACE,
    TASK,
    TIME,
    lean_contributors,
)
from lakestreams.operators.versioned_table import worker
from lakestreams.operators.versioned_table.worker import CLOCK_KIND, HISTORY, REACHED
from lakestreams.operators.workers import ROWS_OF_A_WORKER, Shares, in_workers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.operators.workers import Step

_REALM, _STORE_TIME, _ASKED = "realm", "store_time", "asked"
_LONGEST = 1 << 60


@dataclass(frozen=True)
class Versioned(Shares):
    """A store's history, and how the table's rows lie: those of equal keys together with what looks them up.

    Attributes:
        history: how far lookups reach back; ms, or an expression over `task`, which lets many tables share a job.
    """

    history: int | Column


def latest_only(rows: DataFrame, table: Versioned) -> DataFrame:
    """The updates that readers of the latest get: taken, and not older than another version of their key as they come.

    Args:
        rows: a records frame of the table with `task`, past rows (as `retain_latest` left them) and new ones.

    Returns:
        Those rows, with their columns; past ones are what the table held.
    """
    return _through_workers(rows, table, worker.latest_only)


def retain_latest(rows: DataFrame, table: Versioned) -> DataFrame:
    """What still matters of a versioned table whose readers only get the latest, and `clock` rows."""
    return _through_workers(rows, table, partial(worker.kept, None))


def retain(rows: DataFrame, table: Versioned) -> DataFrame:
    """What still matters of a versioned table that is looked up as of a time, and `clock` rows.

    Of a task there is a `clock` row that stands for its store time; by key there may be more of them, with lower times.
    """
    return _through_workers(rows, table, partial(worker.kept, table.realm), looks_back=True)


def prune(past: DataFrame, points: DataFrame) -> DataFrame:
    """Of what `retain` left the versions of keys that points have, and `clock` rows.

    Worth it when the points, those that wait among them, are few compared with the versions: their keys are broadcast, the past is
    filtered where it lies.
    """
    flagged = versions.flagged(past, KEY, versions.wanted(points, KEY), _ASKED)
    return flagged.where(F.col(_ASKED) | (F.col(KIND) == CLOCK_KIND)).select(*past.columns)


def explain(name: str) -> str:
    """The plan in words, for `check --explain`."""
    of = f"of {name}, a table with a history, versions that are the latest as they come"
    group = f"up to {ROWS_OF_A_WORKER:,} rows in one group, for one Python worker"
    return f"{of}: {group}; more are exchanged by task, then by key in such groups"


def counts() -> Column:
    """Whether a row moves its task's store time: a version, or a clock of the past."""
    return F.col(KEY).isNotNull() | (F.col(KIND) == CLOCK_KIND)


def milliseconds(span: int | Column) -> Column:
    """A span of time as a column: a number, or an expression over `task`; one that no time is far from."""
    return F.least(F.lit(span).cast("bigint"), F.lit(_LONGEST))


def _through_workers(rows: DataFrame, table: Versioned, step: Step, *, looks_back: bool = False) -> DataFrame:
    schema = StructType([StructField(one.name, one.dataType) for one in rows.schema])
    given = rows.withColumns({CONTRIBUTORS: lean_contributors(), HISTORY: milliseconds(table.history)})
    known = _with_reached(given, table.realm) if looks_back and table.shares > 1 else given
    return in_workers(_taken(known) if table.by_key else known, step, schema, *table.spread())


def _taken(rows: DataFrame) -> DataFrame:
    """The versions that the store takes, and clocks."""
    so_far = Window.partitionBy(TASK).orderBy(ORDER, PLACE).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    timed = rows.where(counts()).withColumn(_STORE_TIME, F.max(TIME).over(so_far))
    is_taken = F.col(KEY).isNull() | (F.col(TIME) >= F.col(_STORE_TIME) - F.col(HISTORY))
    return timed.where(is_taken).drop(_STORE_TIME, HISTORY)


def _with_reached(rows: DataFrame, realm: int) -> DataFrame:
    """Rows with what the history still reaches (see `kernel.reached`)."""
    of_realm = F.floor(F.col(TASK) / realm)
    of_tasks = rows.where(counts()).groupBy(of_realm.alias(_REALM), TASK).agg(F.max(TIME).alias(_STORE_TIME))
    behind = of_tasks.groupBy(_REALM).agg(F.min(_STORE_TIME).alias(REACHED))
    known = rows.join(F.broadcast(behind), of_realm == F.col(_REALM)).drop(_REALM)
    return known.withColumn(REACHED, F.col(REACHED) - F.col(HISTORY))
