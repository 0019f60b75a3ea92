"""Keys and versions: what the joins on tables share.

A version is valid from its own order until the order of the next version of its key. Keys of two sides may differ in
their columns' names, so they meet as `plain` keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import NumericType, StructType

from lakestreams.operators.records import (
    BY_KEY,
    KEY,
    KEY_HASH,
    ORDER,
    PLACE,
    VALUE,
    equal_keys,
    hashed,
    is_new,
    key_columns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    Step = Callable[[DataFrame], DataFrame]

FROM, TO = "valid_from", "valid_to"
_WANTED = "wanted"


@dataclass(frozen=True)
class TableSide:
    """What a table side brings into a join: records frames.

    Attributes:
        state: versions from before, at most one a key; or None.
        changes: versions after the state, any number a key, tombstones among them, new ones and older ones; or None.
    """

    state: DataFrame | None
    changes: DataFrame | None

    def each(self, step: Step) -> TableSide:
        """The same step applied to both parts."""
        return TableSide(
            state=None if self.state is None else step(self.state),
            changes=None if self.changes is None else step(self.changes),
        )

    def all(self) -> DataFrame:
        """Both parts as one frame."""
        parts = [part for part in (self.state, self.changes) if part is not None]
        if not parts:
            msg = "a table side has state, changes or both"
            raise ValueError(msg)
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1], allowMissingColumns=True)


def plain(frame: DataFrame, name: str = KEY) -> Column:
    """A key with its columns renamed to c0, c1, ...: comparable with any key of the same types. Null stays null."""
    return renamed(frame, name, [f"c{place}" for place in range(len(key_type(frame, name)))])


def renamed(frame: DataFrame, name: str, names: Sequence[str]) -> Column:
    """A key with other column names; null stays null."""
    fields = [
        F.col(name)[field.name].alias(new) for field, new in zip(key_type(frame, name).fields, names, strict=True)
    ]
    return F.when(F.col(name).isNotNull(), F.struct(*fields))


def byte_order(key: Column, columns: StructType) -> list[Column]:
    """What sorts keys as Kafka sorts the bytes of a text or a Long: bytewise, big-endian, hence negative ones last.

    Keys in JSON are sorted column by column in the same manner, not by the text that the topic held.
    """
    found: list[Column] = []
    for field in columns.fields:
        column = key[field.name]
        found += [column < 0, column] if isinstance(field.dataType, NumericType) else [column]
    return found


def live(table: TableSide) -> DataFrame:
    """The row of each key that is there at the end; a key whose last row is a tombstone has none.

    One exchange and one sort, or none if the table has no changes.
    """
    if table.changes is None:
        return table.all().where(F.col(VALUE).isNotNull())
    following = F.lead(ORDER).over(Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE))
    rows = hashed(table.all()).withColumn(TO, following).where(F.col(TO).isNull())
    return rows.where(F.col(VALUE).isNotNull()).drop(TO, KEY_HASH)


def with_validity(table: TableSide, since: int) -> DataFrame:
    """Versions with the bounds of their validity, tombstones and what ended before `since` left out.

    One exchange and one sort, or none if the table has no changes.

    Returns:
        The table's columns, `valid_from` (an order; null: before `since`) and `valid_to` (null: it has no end).
    """
    if table.changes is None:
        return unbounded(table.all())
    return bounded(hashed(table.all()), since, *BY_KEY).drop(KEY_HASH)


def unbounded(rows: DataFrame) -> DataFrame:
    """Rows of which each key has one at most, valid all the time; a filter may have made tombstones of some."""
    nothing = F.lit(None).cast(rows.schema[ORDER].dataType)
    return rows.where(F.col(VALUE).isNotNull()).withColumns({FROM: nothing, TO: nothing})


def bounded(rows: DataFrame, since: int, *by: str) -> DataFrame:
    """As `with_validity`, of any rows of a table; `by` are the columns that say which rows have one key."""
    following = F.lead(ORDER).over(Window.partitionBy(*by).orderBy(ORDER, PLACE))
    return (
        rows.withColumn(TO, following)
        .where(F.col(TO).isNull() | (F.col(TO)["cycle"] >= since))
        .withColumn(FROM, F.when(is_new(since), F.col(ORDER)))
        .where(F.col(VALUE).isNotNull())
    )


def new_keys(table: TableSide, since: int) -> DataFrame | None:
    """The keys that change in the new cycles: a column `wanted`, each key once; None if the table has no changes."""
    if table.changes is None:
        return None
    return wanted(table.changes.where(is_new(since)), KEY)


def wanted(frame: DataFrame, name: str) -> DataFrame:
    """Each key of a column once, as a column `wanted`."""
    return frame.where(F.col(name).isNotNull()).select(plain(frame, name).alias(_WANTED)).distinct()


def among(rows: DataFrame, name: str, keys: DataFrame) -> DataFrame:
    """The rows whose key is among these, a frame of one column; they are broadcast, the rows filtered where they lie."""
    return _filtered(rows, name, keys, "left_semi")


def of_keys(rows: DataFrame, others: DataFrame) -> DataFrame:
    """The rows whose keys other rows have: worth it when those are few, since the rows are filtered where they lie."""
    return among(rows, KEY, wanted(others, KEY))


def with_keys_of(rows: DataFrame, others: DataFrame) -> DataFrame:
    """The same where the others may be many, too: nothing is broadcast for it."""
    keys = wanted(others, KEY)
    same = equal_keys(key_columns(rows), key_columns(keys, _WANTED))
    return rows.join(keys, F.col(KEY).isNotNull() & same, "left_semi")


def outside(rows: DataFrame, name: str, keys: DataFrame) -> DataFrame:
    """The other rows, those without a key too."""
    return _filtered(rows, name, keys, "left_anti")


def _filtered(rows: DataFrame, name: str, keys: DataFrame, how: str) -> DataFrame:
    same = equal_keys(key_columns(rows, name), key_columns(keys, keys.columns[0]))
    return rows.join(F.broadcast(keys), F.col(name).isNotNull() & same, how)


def flagged(rows: DataFrame, name: str, keys: DataFrame, flag: str) -> DataFrame:
    """All rows, with a flag whether their key is among these, which are broadcast."""
    marks = keys.select(F.col(_WANTED).alias(f"{_WANTED}_{flag}"), F.lit(True).alias(flag))
    same = equal_keys(key_columns(rows, name), key_columns(marks, f"{_WANTED}_{flag}"))
    joined = rows.join(F.broadcast(marks), F.col(name).isNotNull() & same, "left")
    return joined.withColumn(flag, F.col(flag).isNotNull())


def key_type(frame: DataFrame, name: str = KEY) -> StructType:
    """The type of a key column."""
    found = frame.schema[name].dataType
    if not isinstance(found, StructType):
        msg = f"{name} is not a struct but {found.simpleString()}"
        raise TypeError(msg)
    return found
