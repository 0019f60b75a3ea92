"""What a table's changes do to groups: an old row leaves its group, a new one enters its own.

A *grouped* frame is a table's rows with
    into_key struct|null, into struct|null    the group that the row belongs to, and what it brings there; null: none
and where the rows before are known the same as `out_key`, `out`. A frame of adds and subtracts has a row for each group that a
change touches:
    k struct                    the group's key
    into, out struct|null       what enters, what leaves
    ts, o, n, kind, contributors as in a records frame; n leaves room for both changes of each row
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import BY_KEY, CONTRIBUTORS, KEY, KEY_HASH, KIND, ORDER, PLACE, TIME, hashed, is_new

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INTO_KEY, INTO, OUT_KEY, OUT = "into_key", "into", "out_key", "out"
ADDS_AND_SUBTRACTS = 2

_BEFORE, _HALF = "before", "half"


def with_before(grouped: DataFrame) -> DataFrame:
    """A grouped frame, past rows too, with what each row's key was before it: one exchange, one sort.

    Args:
        grouped: all rows, or all of the keys that something new changes.
    """
    in_order = Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE)
    before = F.lag(F.struct(INTO_KEY, INTO)).over(in_order)
    return (
        hashed(grouped)
        .withColumn(_BEFORE, before)
        .drop(KEY_HASH)
        .select("*", F.col(_BEFORE)[INTO_KEY].alias(OUT_KEY), F.col(_BEFORE)[INTO].alias(OUT))
    )


def adds_and_subtracts(grouped: DataFrame, since: int) -> DataFrame:
    """What the new rows add and subtract: what leaves first, and one row of both where the group stays the same (KIP-904).

    Args:
        grouped: a grouped frame with `out_key` and `out`.
    """
    leaves, enters = has_group(OUT_KEY, OUT), has_group(INTO_KEY, INTO)
    nothing_out, nothing_in = (F.lit(None).cast(grouped.schema[name].dataType) for name in (OUT, INTO))

    def half(key: str, out: Column, into: Column, place: int) -> Column:
        return F.struct(F.col(key).alias(KEY), out.alias(OUT), into.alias(INTO), F.lit(place).alias(PLACE))

    stays = half(INTO_KEY, F.col(OUT), F.col(INTO), 0)
    out, into = half(OUT_KEY, F.col(OUT), nothing_in, 0), half(INTO_KEY, nothing_out, F.col(INTO), 1)
    touched = (
        F.when(leaves & enters & F.col(OUT_KEY).eqNullSafe(F.col(INTO_KEY)), F.array(stays))
        .when(leaves & enters, F.array(out, into))
        .when(leaves, F.array(out))
        .when(enters, F.array(into))
    )
    return grouped.where(is_new(since)).select("*", F.explode(touched).alias(_HALF)).select(
        *(F.col(_HALF)[name].alias(name) for name in (KEY, INTO, OUT)),
        TIME, ORDER, (F.col(PLACE) * ADDS_AND_SUBTRACTS + F.col(_HALF)[PLACE]).alias(PLACE), KIND, CONTRIBUTORS,
    )  # fmt: skip


def has_group(key: str, value: str) -> Column:
    """Whether a row has a group and brings something."""
    return F.col(key).isNotNull() & F.col(value).isNotNull()
