"""What a mapper, joiner or predicate gets to see of one side: its columns, by name.

A name that is not there does not raise at once: it is noted, and a null stands in, so that all wrong names of a
topology are reported together.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from lakestreams.errors import InvalidExpression, LakestreamsError, UnknownColumn
from lakestreams.spark import F

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import Column


class Fields:
    """The columns of one side: `view.page` or `view["page"]`; key columns too, the value's winning on a clash."""

    __slots__ = ("_columns", "_faults", "_kinds", "_owner", "_where")

    def __init__(
        self,
        owner: str,
        columns: Mapping[str, str],
        faults: list[LakestreamsError],
        where: str,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Wraps one side.

        Args:
            owner: the side's name as the user gave it.
            columns: column name to the SQL text that refers to it in the frame at hand.
            faults: where wrong names are noted.
            where: the step that is being evaluated.
            kinds: column name to SQL type, of those whose type is known.
        """
        self._owner = owner
        self._kinds = dict(kinds or {})
        self._columns = dict(columns)
        self._faults = faults
        self._where = where

    def __getattr__(self, name: str) -> Column:
        """The column of that name."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Column:
        """The column of that name."""
        return F.expr(self.sql(name))

    def __iter__(self) -> Iterator[str]:
        """The columns' names."""
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of that name."""
        return name in self._columns

    def sql(self, name: str, where: str | None = None) -> str:
        """The SQL text that refers to a column; for expressions that are text themselves.

        Args:
            name: the column.
            where: where it is named, if that is known better than by the step.
        """
        if name in self._columns:
            return self._columns[name]
        near = difflib.get_close_matches(name, self._columns, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        self._faults.append(
            UnknownColumn(
                f"{self._owner} has no column {name!r}",
                hint=f"{hint}{self._owner} has: {', '.join(self._columns)}",
                where=where or self._where,
                given=name,
                takes=tuple(self._columns),
            )
        )
        return "null"


class StructFields(Fields):
    """The columns of a struct that only an expression knows, such as what a reduction has made so far."""

    __slots__ = ("_struct",)

    def __init__(self, owner: str, names: Iterable[str], struct: Column, where: str) -> None:
        """Wraps a struct.

        Args:
            owner, where: as for `Fields`.
            names: its columns.
            struct: it.
        """
        super().__init__(owner, dict.fromkeys(names, ""), [], where)
        self._struct = struct

    def __getitem__(self, name: str) -> Column:
        """The column of that name.

        Raises:
            UnknownColumn: if there is none.
        """
        self.sql(name)
        if self._faults:
            raise self._faults[0]
        return self._struct[name]


class MaybeFields(Fields):
    """The columns of a side that may be missing: then each of them is null.

    Its type says so where a joiner's signature is read: `left_join` passes `Fields, MaybeFields`, `outer_join` passes
    `MaybeFields` twice.
    """

    __slots__ = ("_missing",)

    def __init__(
        self,
        owner: str,
        columns: Mapping[str, str],
        faults: list[LakestreamsError],
        where: str,
        missing: str,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Wraps one side, as `Fields` does.

        Args:
            owner, columns, faults, where, kinds: as for `Fields`.
            missing: the SQL text that is true where the side is missing.
        """
        super().__init__(owner, columns, faults, where, kinds)
        self._missing = missing


def kind_of(side: Fields, name: str) -> str:
    """The SQL type of a side's column; empty where it is not known."""
    return side._kinds.get(name, "")  # noqa: SLF001 - a method would hide a column of that name


def is_missing(side: MaybeFields) -> Column:
    """Whether a side is missing altogether, which no column tells apart from a null of its own.

    Args:
        side: the side of a left or outer join that may be missing, as the joiner is given it.

    Returns:
        A boolean Column, never null.

    Raises:
        InvalidExpression: of a side that is always there.
    """
    given: object = side  # users without a type checker pass anything
    if not isinstance(given, MaybeFields):
        owner = given._owner if isinstance(given, Fields) else repr(given)  # noqa: SLF001 - as below
        msg = f"is_missing({owner}): this side is always there"
        raise InvalidExpression(msg, hint="ask it of the side that a left or outer join may lack")
    return F.expr(side._missing)  # noqa: SLF001 - as above
