"""Records of JSON: objects, alone or in the wrappers of Connect and Debezium, and texts in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lakestreams.formats import maxwell
from lakestreams.formats.jsontext import parsed
from lakestreams.formats.places import RESERVED_PREFIX
from lakestreams.infer.seen import BARE, Seen, is_name, shown
from lakestreams.infer.side import Column, Side

_MOST: Final = 0.9  # of the records, so that some broken ones do not hide what all others are
_OPS: Final = ("c", "r", "u", "d", "t", "m")  # Debezium's: others have a field op, too
_OP, _AFTER, _PAYLOAD, _SCHEMA = "op", "after", "payload", "schema"
_CANAL: Final = {"isDdl", "data", "old", "type"}
_LONGEST: Final = 100  # characters of a column's name, with a number behind it where two begin alike
_PLAIN: Final = re.compile(r"\W+", re.ASCII)


def is_most(count: int, records: Sequence[Any]) -> bool:
    """Whether so many are nearly all of the records."""
    return count >= _MOST * len(records)


def json_side(raw: Sequence[bytes], name: str) -> Side | None:
    """What fits records of JSON; None if they are none. The name is of the column of texts."""
    values = []
    for one in raw:
        try:
            values.append(parsed(one.decode()))
        except ValueError:
            continue
    objects = [one for one in values if isinstance(one, dict)]
    if 2 * len(objects) > len(raw):  # whatever else is among them is broken
        return _objects(objects)
    quoted = [one for one in values if isinstance(one, str)]
    if is_most(len(quoted), raw):  # numbers without quotes are text just as well
        return Side("json_scalar", f"{name} string", notes=("JSON texts in quotes",))
    return None


def _objects(objects: Sequence[Mapping[str, Any]]) -> Side:
    wrapped = [one for one in objects if set(one) == {_PAYLOAD, _SCHEMA}]
    inner = [one[_PAYLOAD] for one in wrapped if isinstance(one[_PAYLOAD], dict)]
    rows: Sequence[Mapping[str, Any]] = inner if is_most(len(wrapped), objects) and inner else objects
    events = [one for one in rows if one.get(_OP) in _OPS and (_AFTER in one or "before" in one)]
    if is_most(len(events), rows):
        columns, notes = columns_of_documents([one.get(_AFTER) for one in events])
        if not columns:  # deletions alone: the rows as they were
            columns, notes = columns_of_documents([one.get("before") for one in events])
        told = "Debezium's change events: the row in `after`"
        return _declared("debezium_json", columns, (told, *notes), is_change=True)
    of_maxwell = [one for one in rows if _is_of_maxwell(one)]
    if is_most(len(of_maxwell), rows):
        columns, notes = columns_of_documents([one[maxwell.DATA] for one in of_maxwell])
        told = "Maxwell's change events: the row in `data`"
        return _declared("maxwell_json", columns, (told, *notes), is_change=True)
    columns, notes = _columns(rows, len(rows))
    if is_most(sum(one.keys() >= _CANAL for one in rows), rows):
        notes = (*notes, "Canal's messages, each of some rows: docs/cdc.md makes a table of them")
    if rows is inner:
        return _declared("connect_json", columns, ("Connect's wrapper: the payload", *notes))
    return _declared("json", columns, notes)


def _declared(how: str, columns: tuple[Column, ...], notes: Sequence[str], *, is_change: bool = False) -> Side:
    """A format with its columns; none without a column, since nothing can be declared then."""
    if columns:
        return Side(how, columns=columns, notes=tuple(notes), is_change=is_change)
    why = f"it looks like {how}, but no record of the sample has a field: its columns are not known"
    return Side("", notes=(*notes, why), is_change=is_change)


def _is_of_maxwell(one: Mapping[str, Any]) -> bool:
    is_event = one.get(maxwell.TYPE) in (*maxwell.ROWS, maxwell.DELETE)
    return is_event and isinstance(one.get(maxwell.DATA), dict) and "table" in one


def columns_of_documents(rows: Iterable[Any]) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns of rows, which are objects or texts of objects, with notes."""
    there = [one for one in map(_document, rows) if one is not None]
    return _columns(there, len(there))


def _document(after: Any) -> Mapping[str, Any] | None:
    """The row of a change event; MongoDB's is a text."""
    if isinstance(after, str):
        try:
            after = parsed(after)
        except ValueError:
            return None
    return after if isinstance(after, dict) else None


def _columns(rows: Iterable[Mapping[str, Any]], count: int) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    whole = Seen()
    for row in rows:
        whole.add(row)
    notes: list[str] = []
    found, taken = [], set[str]()
    reserved = [own for own in whole.members if own.lower().startswith(RESERVED_PREFIX)]
    if reserved:
        notes.append(f"names that begin with {RESERVED_PREFIX} are taken, so these are not read: {', '.join(reserved)}")
    for own, seen in whole.members.items():
        if own in reserved:
            continue
        name = own if BARE.match(own) and is_name(own) else _PLAIN.sub("_", own).strip("_") or "field"
        name = (name if name[0].isalpha() else f"field_{name}")[:_LONGEST]
        place, base = 2, name
        while name.lower() in taken:
            name, place = f"{base}_{place}", place + 1
        taken.add(name.lower())
        inner = seen.typed_by
        value = seen if inner is None else seen.members[inner]
        kind = value.type(name, notes)
        example = "" if value.example is None else shown(value.example)
        where = (own, inner) if inner is not None else None if name == own else own
        found.append(Column(name, kind, value.present / max(1, count), example, where))
    return tuple(found), tuple(notes)


__all__ = ["columns_of_documents", "is_most", "json_side"]
