"""What the join of two tables' rows says: the result, and the one that was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lakestreams.operators.records import (
    CONTRIBUTORS,
    KIND,
    MATCHED,
    OLD,
    RIGHT_KEY,
    RIGHT_VALUE,
    TIME,
    TOMBSTONE,
    UNMATCHED,
    VALUE,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.kinds import OuterJoinKind

OLD_VALUE, OLD_RIGHT_VALUE, OLD_KIND = "old_v", "old_rv", "old_kind"
# The time that a lookup into a join's result sees: of the rows that are there, not of the update (semantics section 6).
SEEN_TIME: Final = "seen_ts"
LEFT, RIGHT = 0, 1  # whose row it is
ARM, OF_LEFT, OF_RIGHT = "arm", "l", "r"


def joined(how: OuterJoinKind, right_key: Column) -> dict[str, Column]:
    """What a row of `_both` says: the join of the two rows that are there then."""
    is_left, left, right = F.col(ARM) == LEFT, F.col(OF_LEFT), F.col(OF_RIGHT)
    left_there, right_there = left[VALUE].isNotNull(), right[VALUE].isNotNull()
    update = F.when(is_left, left[TIME]).otherwise(right[TIME])
    other = F.when(is_left, F.when(right_there, right[SEEN_TIME])).otherwise(F.when(left_there, left[SEEN_TIME]))
    kind = F.coalesce(kind_of(how, left_there, right_there), F.lit(TOMBSTONE))
    left_ref, right_ref = left[CONTRIBUTORS], right[CONTRIBUTORS]
    return {
        VALUE: left[VALUE],
        TIME: F.greatest(update, other),
        KIND: kind,
        CONTRIBUTORS: F.when(kind == MATCHED, F.concat(left_ref, right_ref))
        .when(kind == TOMBSTONE, F.when(is_left, left_ref).otherwise(right_ref))
        .otherwise(F.when(left_there, left_ref).otherwise(right_ref)),
        RIGHT_KEY: right_key,
        RIGHT_VALUE: right[VALUE],
    }


def before(how: OuterJoinKind) -> dict[str, Column]:
    """What it said for what the updated side had before, and the time that a lookup into it sees."""
    is_left, left, right = F.col(ARM) == LEFT, F.col(OF_LEFT), F.col(OF_RIGHT)
    old_left = F.when(is_left, left[OLD]).otherwise(left[VALUE])
    old_right = F.when(is_left, right[VALUE]).otherwise(right[OLD])
    seen = (F.when(side[VALUE].isNotNull(), side[SEEN_TIME]) for side in (left, right))
    return {
        OLD_VALUE: old_left,
        OLD_RIGHT_VALUE: old_right,
        OLD_KIND: kind_of(how, old_left.isNotNull(), old_right.isNotNull()),
        SEEN_TIME: F.greatest(*seen),
    }


def kind_of(how: OuterJoinKind, left: Column, right: Column) -> Column:
    """What the join of two rows is, by whether they are there; null: nothing."""
    kind = F.when(left & right, F.lit(MATCHED))
    alone = {"inner": None, "left": left, "outer": left | right}[how]
    return kind if alone is None else kind.when(alone, F.lit(UNMATCHED))
