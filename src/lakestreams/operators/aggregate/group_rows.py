"""The rows that a table's groups have at each change: what `min`, `max`, `last` and `collect` of a table look at.

A *members* frame has the rows that were in a group while the new changes came, with the columns
    k struct                    the group's key
    into struct                 what the row brings
    valid_from, valid_to        struct<o, n>: a member at a half's place `p` iff `valid_from <= p < valid_to`; null is
                                before and after all new changes
    at struct<o, n>             where the row was written

Rows that the new cycles leave alone are put together once a group; each change then meets that one and the rows that
change. So it costs the rows of the groups at hand, and the square of the changes of one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions
from lakestreams.operators.aggregate.changes import ADDS_AND_SUBTRACTS, INTO, INTO_KEY, OUT, has_group
from lakestreams.operators.aggregate.folding import in_order
from lakestreams.operators.records import BY_KEY, KEY, KEY_HASH, ORDER, PLACE, hashed, is_new
from lakestreams.operators.versions import FROM, TO

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.operators.aggregate.grouping import Part

MEMBERS = "members"
# Of a grouped frame: whether a row is one of a table's state, of which each key has one.
SETTLED = "settled"
_GROUP, _GROUP_HASH = "of_group", "of_group_hash"


def members(grouped: DataFrame, since: int) -> DataFrame:
    """The members of the groups while the new changes come: one exchange and one sort by the row's own key.

    Args:
        grouped: a grouped frame of all rows, past ones too.
    """
    at = F.struct(F.col(ORDER), (F.col(PLACE) * ADDS_AND_SUBTRACTS).alias(PLACE))
    following = F.lead(at).over(Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE))
    return (
        hashed(grouped)
        .withColumn(TO, following)
        .where(F.col(TO).isNull() | (F.col(TO)[ORDER]["cycle"] >= since))
        .where(has_group(INTO_KEY, INTO))
        .select(F.col(INTO_KEY).alias(KEY), INTO, F.when(is_new(since), at).alias(FROM), TO, at.alias("at"))
    )


def of_touched_groups(grouped: DataFrame, touched: DataFrame, since: int) -> DataFrame:
    """A grouped frame without the settled rows of keys and groups that nothing new touches: enough for `members`.

    Args:
        grouped: a grouped frame of all rows, with `settled`: whether it is a row of a table's state, one a key. The
            others, changes since that state and new ones, stay; a settled row that one of them follows goes.
        touched: what the new rows add and subtract.
    """
    settled, others = grouped.where(SETTLED), grouped.where(~F.col(SETTLED))
    since_then = versions.wanted(others.where(~is_new(since)), KEY)
    settled = versions.outside(settled, KEY, since_then)
    settled = versions.flagged(settled, KEY, versions.wanted(others.where(is_new(since)), KEY), "key_touched")
    settled = versions.flagged(settled, INTO_KEY, versions.wanted(touched, KEY), "group_touched")
    kept = settled.where(F.col("key_touched") | F.col("group_touched")).select(*grouped.columns)
    return kept.unionByName(others)


def met(rows: DataFrame, members: DataFrame, parts: Sequence[Part]) -> DataFrame:
    """Rows with `k_hash`, with what the members of their group at their place give, as `members`."""
    given = members.select(KEY, FROM, TO, *(_partial(part).alias(f"m_{part.name}") for part in parts))
    stays = F.col(FROM).isNull() & F.col(TO).isNull()
    gathered = [_together(part, F.col(f"m_{part.name}")).alias(f"m_{part.name}") for part in parts]
    nothing = F.lit(None).cast(given.schema[TO].dataType)
    always = given.where(stays).groupBy(KEY).agg(*gathered).withColumns({FROM: nothing, TO: nothing})
    present = hashed(always.unionByName(given.where(~stays))).withColumnsRenamed({KEY: _GROUP, KEY_HASH: _GROUP_HASH})
    at = F.struct(ORDER, PLACE)
    inside = (F.col(FROM).isNull() | (F.col(FROM) <= at)) & (F.col(TO).isNull() | (at < F.col(TO)))
    same = (F.col(KEY_HASH) == F.col(_GROUP_HASH)) & (F.col(KEY) == F.col(_GROUP))
    met = rows.join(present, same & inside & F.coalesce(F.col(INTO), F.col(OUT)).isNotNull(), "left")
    one = (*BY_KEY, ORDER, PLACE)
    others = [name for name in rows.columns if name not in one]
    found = met.groupBy(*one).agg(*(F.first(name).alias(name) for name in others), *gathered)
    made = F.struct(*(F.col(f"m_{part.name}").alias(part.name) for part in parts))
    return found.select(*rows.columns, made.alias(MEMBERS))


def value_of(part: Part) -> Column:
    """What a part is, of rows with `members`."""
    value = F.col(MEMBERS)[part.name]
    if part.kind == "last":
        return value["of"]
    if part.kind == "collect":
        return F.transform(in_order(F.coalesce(value, F.array()), "at"), lambda one: one["of"])
    return value


def _partial(part: Part) -> Column:
    """What a row brings to what is put together."""
    of = F.col(INTO)[part.name]
    if part.kind in ("min", "max"):
        return of
    placed = F.struct(F.col("at"), of.alias("of"))
    return placed if part.kind == "last" else F.array(placed)


def _together(part: Part, what: Column) -> Column:
    if part.kind == "min":
        return F.min(what)
    if part.kind == "max":
        return F.max(what)
    if part.kind == "last":
        return F.max_by(what, what["at"])
    return F.flatten(F.collect_list(what))
