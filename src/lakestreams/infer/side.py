"""What is proposed for the keys of a sample, or for its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakestreams.formats.writers import SchemaName, Written
from lakestreams.infer.seen import spelled


@dataclass(frozen=True)
class Column:
    """A column that is proposed.

    Attributes:
        name: of the column.
        field: the names that lead to it in the JSON object, if they are others.
        type: as the declaration says it.
        share: in how many of the records it is not null.
        example: a value.
        required: whether its schema says `not null`.
    """

    name: str
    type: str
    share: float
    example: str
    field: str | tuple[str, ...] | None = None
    required: bool = False

    @property
    def declared(self) -> str:
        """As a schema says it."""
        return f"{spelled(self.name)} {self.type}{' not null' if self.required else ''}"


@dataclass(frozen=True)
class Side:
    """What is proposed for keys, or for values.

    Attributes:
        format: the key of the format in a file; "": none fits.
        said: what is said of it: a column, a schema, or a schema's file; "": the columns.
        columns: of formats with columns.
        notes: what there is to say of the choice.
        is_change: whether records are changes of rows.
        options: what stands next to it.
        written: the writers' schemas by their names, if records name them.
    """

    format: str
    said: Any = ""
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    is_change: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[SchemaName, Written | None] = field(default_factory=dict)

    @property
    def declared(self) -> Any:
        """As a file says it."""
        if self.said or not self.columns:
            return {self.format: self.said, **self.options}
        ddl = ", ".join(one.declared for one in self.columns)
        fields = {
            one.name: list(one.field) if isinstance(one.field, tuple) else one.field
            for one in self.columns
            if one.field is not None
        }
        return {self.format: ddl} | ({"fields": fields} if fields else {})


__all__ = ["Column", "Side"]
