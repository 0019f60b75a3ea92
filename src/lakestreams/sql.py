"""Quotes names and texts inside SQL, and says what a column may be called.

Whatever comes from a user (columns, tables, schemas, folders, pipelines) goes into a statement through here, so no name can
end its own quotes and begin something else. A test walks the source for statements that are put together otherwise.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME: Final = 255
"""Characters of a column's name, as Unity Catalog has it."""

# Besides letters, digits and marks of any script. Delta refuses ` ,;{}()\n\t=` without column mapping; a dot or a backquote
# would be syntax to Spark wherever a name stands without quotes.
_SIGNS: Final = frozenset("_-$@#")
_WRITTEN: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(*names: str) -> str:
    """A name in backquotes, as Spark takes any name; of several, the path `a`.`b`."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def listed(names: Iterable[str], of: str = "") -> str:
    """Names in backquotes with commas between them, each behind `of`, such as `s.`."""
    return ", ".join(f"{of}{quoted(name)}" for name in names)


def literal(text: str) -> str:
    """A text in single quotes, whatever signs it has."""
    return "'" + "".join(_WRITTEN.get(sign) or (sign if sign.isprintable() else _numbered(sign)) for sign in text) + "'"


def type_of(kind: Any) -> str:
    """A Spark type as DDL, the names inside structs quoted, which its `simpleString` leaves bare."""
    name = kind.typeName()
    if name == "struct":
        return f"struct<{', '.join(f'{quoted(one.name)}: {type_of(one.dataType)}' for one in kind.fields)}>"
    if name == "array":
        return f"array<{type_of(kind.elementType)}>"
    if name == "map":
        return f"map<{type_of(kind.keyType)}, {type_of(kind.valueType)}>"
    return str(kind.simpleString())


def columns_of(fields: Iterable[Any]) -> str:
    """Struct fields as columns of a statement."""
    return ", ".join(f"{quoted(one.name)} {type_of(one.dataType)}" for one in fields)


def name_fault(name: object) -> str | None:
    """Why something is no name of a column; None if it is one.

    Letters, digits and marks of any script, and `_ - $ @ #`: what Delta, Parquet, Unity Catalog and Spark all carry.
    """
    if not isinstance(name, str):
        return f"column name {name!r} is no text"
    if not name:
        return "a column has no name"
    if len(name) > MAX_NAME:
        return f"column name {name[:20]!r}... has {len(name)} characters; {MAX_NAME} are the most"
    wrong = next((sign for sign in name if sign not in _SIGNS and unicodedata.category(sign)[0] not in "LMN"), None)
    if wrong is None:
        return None
    what = repr(wrong) if wrong.isprintable() else f"the character U+{ord(wrong):04X}"
    return f"column name {name!r} has {what}, which tables cannot carry"


NAME_HINT: Final = "letters and digits of any script and _ - $ @ #, 255 at most"


def _numbered(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) <= 0xFFFF else f"\\U{ord(sign):08x}"


__all__ = ["MAX_NAME", "NAME_HINT", "columns_of", "listed", "literal", "name_fault", "quoted", "type_of"]
