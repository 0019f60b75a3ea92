"""What a left row and the right row that it meets say: the result, and the one that was there before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lakestreams.operators import versions
from lakestreams.operators.foreign_key import subscribers as foreign
from lakestreams.operators.foreign_key.subscribers import AT, LOCAL, RANK, SUBSCRIBER, TRIGGER
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    OLD,
    ORDER,
    PLACE,
    RIGHT_KEY,
    RIGHT_VALUE,
    TIME,
    TOMBSTONE,
    UNMATCHED,
    VALUE,
)
from lakestreams.operators.table_table.results import OLD_KIND, OLD_RIGHT_VALUE, OLD_VALUE, SEEN_TIME, kind_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import JoinKind

WAS: Final = "was"
GONE, BEFORE, ROW = "gone", "before", "row"


def of_pairs(met: DataFrame, how: JoinKind, right_key: Sequence[str], *, with_old: bool) -> DataFrame:
    """What a left row and the right row it meets say, if anything."""
    own, left, right = F.col(RANK) == 0, F.col(SUBSCRIBER), F.col(TRIGGER)
    here = left[VALUE].isNotNull()
    matched = F.col(foreign.OPEN) & right[VALUE].isNotNull()
    kind = (
        F.when(matched, F.lit(MATCHED))
        .when(here & F.lit(how == "left"), F.lit(UNMATCHED))
        .when(~own | left[GONE], F.lit(TOMBSTONE))
    )
    right_ref = right[CONTRIBUTORS]
    columns = {
        KEY: left[KEY],
        VALUE: left[VALUE],
        TIME: F.when(own, F.greatest(left[TIME], F.when(right[VALUE].isNotNull(), right[SEEN_TIME]))).otherwise(
            right[TIME]
        ),
        ORDER: F.when(own, left[ORDER]).otherwise(right[ORDER]),
        PLACE: F.when(own, left[PLACE]).otherwise(F.col(LOCAL)),
        KIND: kind,
        CONTRIBUTORS: F.when(matched, F.concat(left[CONTRIBUTORS], right_ref))
        .when(own | (kind == UNMATCHED), left[CONTRIBUTORS])
        .otherwise(right_ref),
        RIGHT_KEY: F.when(matched, versions.renamed(met, AT, right_key)),
        RIGHT_VALUE: F.when(matched, right[VALUE]),
    }
    if with_old:
        columns |= _old(how, own, met)
    extra = {RANK: F.col(RANK), LOCAL: F.col(LOCAL), ROW: F.when(own, left[PLACE]).otherwise(right[PLACE])}
    return met.select(*(column.alias(name) for name, column in (columns | extra).items())).where(
        F.col(KIND).isNotNull()
    )


def _old(how: JoinKind, own: Column, met: DataFrame) -> dict[str, Column]:
    """The result that the left key had before: of the row before a left update, of the right row before a right one."""
    left = F.col(SUBSCRIBER)
    fields = versions.key_type(met, TRIGGER).names
    prior = F.col(TRIGGER)[OLD] if OLD in fields else F.col(foreign.PRIOR)[VALUE]
    old_left = F.when(own, left[WAS][VALUE]).otherwise(left[VALUE])
    old_right = F.when(own, left[BEFORE][VALUE]).otherwise(prior)
    kind = kind_of(how, old_left.isNotNull(), old_right.isNotNull())
    return {OLD_VALUE: old_left, OLD_RIGHT_VALUE: old_right, OLD_KIND: kind}
