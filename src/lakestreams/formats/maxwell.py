"""The row of a change event of Maxwell, which follows MySQL and MariaDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakestreams.formats.json import Declared
from lakestreams.formats.kinds import Leaf, Member, Struct
from lakestreams.formats.objects import Located, Objects

if TYPE_CHECKING:
    from lakestreams.formats.objects import Row

TYPE: Final = "type"
DATA: Final = "data"
ROWS: Final = ("insert", "update", "bootstrap-insert")
"""Types of events whose `data` is the row as it is now."""
DELETE: Final = "delete"
_NO_TYPE: Final = "no type; not an event of Maxwell"
_SHOWN_CHARACTERS: Final = 20


@dataclass(frozen=True, init=False)
class MaxwellJson(Declared):
    """The row of a change event of Maxwell in JSON; for tables.

    Inserts, updates and rows of a bootstrap give the row in `data`, read by the declared schema as `Json` reads an object.
    Deletes give null, as tombstones do. Any other type, such as the start of a bootstrap or a changed table, a row's change
    without `data` and what is no event are errors. `old` and the event's times are not read.

    Args:
        schema: Spark DDL of the row, such as `name string, city string`.
        fields: column to field of the row where the names differ, as for `Json`.
    """

    def objects(self) -> Objects:
        """What reads single records."""
        root = Struct((Member(TYPE, TYPE, Leaf("string", "string")), Member(DATA, DATA, self.places.shape)))
        unfit = f"not one JSON event whose data fits {self.schema}"
        return Objects(self.places.fields, self.places.paths, root, _change, unfit, _data)

    def describe(self) -> str:
        """The format with its columns."""
        return f"maxwell_json({self.columns})"


def _data(event: dict[str, Any]) -> Located:
    return Located(event.get(DATA), event.get(TYPE), ROWS)


def _change(_event: dict[str, Any], shaped: dict[str, Any]) -> tuple[Row, str | None]:
    """The row after the change, None where it was deleted, or what is wrong with the event."""
    said, row = shaped[TYPE], shaped[DATA]
    if said is None:
        return None, _NO_TYPE
    if said in ROWS:
        return row, f"type {said} without data" if row is None else None
    if said == DELETE:
        return None, None
    shown = said[:_SHOWN_CHARACTERS].encode(errors="replace").decode()  # half of a surrogate pair is no character
    return None, f"type {shown} is not a change of a row"


__all__ = ["DATA", "DELETE", "ROWS", "TYPE", "MaxwellJson"]
