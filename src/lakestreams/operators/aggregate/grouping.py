"""What an aggregation makes of a group, and whether it can be made of these values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.operators.aggregate import columns as parts
from lakestreams.operators.aggregate import group_rows as of_members
from lakestreams.operators.aggregate.part import Part

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakestreams.topology.kinds import Changes, EmptyGroup


@dataclass(frozen=True, eq=False)
class Grouping:
    """The options of an aggregation.

    Attributes:
        parts: its columns.
        of_table: whether rows leave groups, too.
        empty: what a table's group without rows is.
        emit: a row for each change, or one a group and cycle.
        alone: whether the only part is the value itself (a struct) rather than a column of it; where it is null, the
            row is deleted.
    """

    parts: tuple[Part, ...]
    of_table: bool = False
    empty: EmptyGroup = "keep"
    emit: Changes = "every_change"
    alone: bool = False

    @property
    def looks_at_members(self) -> bool:
        """Whether the rows that a group has must be looked at."""
        return self.of_table and any(part.kind in of_members.KINDS for part in self.parts)

    @property
    def deletes_empty(self) -> bool:
        """Whether a group without rows is deleted."""
        return self.of_table and self.empty == "delete"

    @property
    def may_vanish(self) -> bool:
        """Whether a group can be deleted."""
        return self.alone or self.deletes_empty


def validate(types: StructType, grouping: Grouping) -> str | None:
    """Whether the parts can be made of values of these types.

    Args:
        types: those of `into`, a field for each part that has values.

    Returns:
        What is wrong, or None.
    """
    wrong = (parts.wrong(part, types, of_table=grouping.of_table) for part in grouping.parts)
    return next(filter(None, wrong), None)
