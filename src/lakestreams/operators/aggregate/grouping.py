"""The options of an aggregation: what it makes of a group, part by part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.aggregators import AggregatorKind
    from lakestreams.topology.kinds import Changes, EmptyGroup

LOOK_AT_MEMBERS: Final = ("min", "max", "last", "collect")
"""Kinds of parts of which a table's groups must be looked at as they are (`group_rows`)."""


@dataclass(frozen=True, eq=False)
class Part:
    """One column of an aggregate, as it is asked for.

    Attributes:
        kind: what is made of the values in the columns of this name in `into` and `out`; a count may have none.
        initial, add, subtract: of a fold; without an initial one a group's first value is its result as it is.
    """

    name: str
    kind: AggregatorKind
    initial: Column | None = None
    add: Callable[[Column, Column], Column] | None = None
    subtract: Callable[[Column, Column], Column] | None = None


@dataclass(frozen=True, eq=False)
class Grouping:
    """The options of an aggregation.

    Attributes:
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
        return self.of_table and any(part.kind in LOOK_AT_MEMBERS for part in self.parts)

    @property
    def deletes_empty(self) -> bool:
        """Whether a group without rows is deleted."""
        return self.of_table and self.empty == "delete"

    @property
    def may_vanish(self) -> bool:
        """Whether a group can be deleted."""
        return self.alone or self.deletes_empty
