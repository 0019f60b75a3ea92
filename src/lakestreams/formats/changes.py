"""What Debezium's change events say with their `op`, whatever the bytes are."""

from __future__ import annotations

from typing import Final

ROWS: Final = ("c", "r", "u")
"""Create, read (by a snapshot), update: `after` is the row."""
DELETE: Final = "d"
_REFUSED: Final = {
    "t": "op t (truncate) deletes rows that it does not name; a table cannot follow it",
    "m": "op m (message) is not a change of a row",
}
_SHOWN_CHARACTERS: Final = 20


def wrong(op: str, *, has_row: bool) -> str | None:
    """What is wrong with an event; None if it says what became of a row.

    Args:
        op: what it says.
        has_row: whether it has the row, `after`.
    """
    if op in ROWS:
        return None if has_row else f"op {op} without after"
    if op == DELETE:
        return None
    said = _REFUSED.get(op, f"unknown op {op[:_SHOWN_CHARACTERS]}")
    return said.encode(errors="replace").decode()  # half of a surrogate pair is no character


__all__ = ["DELETE", "ROWS", "wrong"]
