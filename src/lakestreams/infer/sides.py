"""Which format the keys or the values of a sample have, and its columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lakestreams.formats.headers import named
from lakestreams.formats.jsontext import parsed
from lakestreams.formats.writers import AVRO, JSON, LARGEST_ID, PREFIX, PROTOBUF, SchemaName
from lakestreams.infer.seen import BARE, Seen, is_name, shown, spelled

_MOST: Final = 0.9  # of the records, so that some broken ones do not hide what all others are
_OP, _AFTER, _PAYLOAD, _SCHEMA = "op", "after", "payload", "schema"
_SIZES: Final = {4: "int", 8: "long", 16: "uuid"}
_PLAIN: Final = re.compile(r"\W+", re.ASCII)
OF_REGISTRY: Final = {AVRO: "registry_avro", PROTOBUF: "registry_protobuf", JSON: "json_schema"}


class Schemas(Protocol):
    """What is asked of a schema registry."""

    def kind(self, name: SchemaName) -> str | None:
        """The kind of a schema by its id or GUID; None for one that the registry does not know."""

    def newest(self, subject: str) -> int | None:
        """The newest version of a subject; None if there is no such subject."""


@dataclass(frozen=True)
class Column:
    """A column that is proposed.

    Attributes:
        name: of the column.
        field: the names that lead to it in the JSON object, if they are others.
        type: as the declaration says it.
        share: in how many of the records it is not null.
        example: a value.
    """

    name: str
    type: str
    share: float
    example: str
    field: str | None = None

    @property
    def declared(self) -> str:
        """As a schema says it."""
        return f"{spelled(self.name)} {self.type}"


@dataclass(frozen=True)
class Side:
    """What is proposed for keys, or for values.

    Attributes:
        format: the key of the format in a file; "": none fits.
        said: what is said of it: a column, or a schema's file.
        columns: of formats with columns.
        notes: what there is to say of the choice.
        is_change: whether records are changes of rows.
    """

    format: str
    said: str = ""
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    is_change: bool = field(default=False)

    @property
    def declared(self) -> Any:
        """As a file says it."""
        if not self.columns:
            return {self.format: self.said}
        ddl = ", ".join(one.declared for one in self.columns)
        fields = {one.name: one.field for one in self.columns if one.field is not None}
        return {self.format: ddl} | ({"fields": fields} if fields else {})


def side(
    records: Sequence[bytes | None],
    name: str,
    schemas: Schemas | None,
    subject: str,
    heads: Sequence[bytes | None] = (),
) -> Side:
    """What fits most of the records that are not null.

    Args:
        records: keys, or values.
        name: of the column of a format that has one.
        schemas: the registry; None: there is none.
        subject: under which the registry has schemas of this side, as a rule.
        heads: the header of each record that may name its schema; by default no record has one.
    """
    pairs = zip(records, heads or [None] * len(records), strict=True)
    both = [(one, head) for one, head in pairs if one is not None]
    raw = [one for one, _ in both]
    if not raw:
        return Side("text", name, notes=("every record is null: the format is a guess",))
    found = _framed(both, schemas, subject) or _json(raw, name) or _of_bytes(raw, name)
    if found is not None:
        return found
    sizes = Counter(map(len, raw))
    size, count = sizes.most_common(1)[0]
    told = f"all of {size} bytes" if count == len(raw) else f"of {min(sizes)} to {max(sizes)} bytes"
    return Side(
        "", notes=(f"neither text nor JSON, and no registry's prefix: {told}; Avro or Protobuf need their schema",)
    )


def _share(count: int, records: Sequence[Any]) -> bool:
    return count >= _MOST * len(records)


def _framed(raw: Sequence[tuple[bytes, bytes | None]], schemas: Schemas | None, subject: str) -> Side | None:
    """Records that name their schema, in a header or in a registry's prefix."""
    headed = [said.schema for _, head in raw if head is not None and (said := named(head)) is not None]
    bare = [one for one, head in raw if head is None]
    prefixed = [int.from_bytes(one[1:PREFIX], "big") for one in bare if len(one) > PREFIX and one[0] == 0]
    ids = [*headed, *(one for one in prefixed if 0 < one <= LARGEST_ID)]
    if not _share(len(ids), raw):
        return None
    if schemas is None:
        inner = _json([one if head is not None else one[PREFIX:] for one, head in raw], "")
        if inner is not None and inner.format == "json":
            return None if headed else Side("registry_json", columns=inner.columns, notes=inner.notes)
        where = "its schema is named in a header" if headed else "behind a schema registry's prefix"
        note = f"{where}: name the registry in the sources' file and infer again"
        return Side("", notes=(note,)) if headed or len(set(ids)) < len(ids) else None
    known = {one: schemas.kind(one) for one in sorted(set(ids), key=str)[:64]}
    told = Counter(kind for kind in known.values() if kind in OF_REGISTRY)
    if not told:
        return Side("", notes=(f"written by schemas that the registry does not know: {', '.join(map(str, known))}",))
    kind, _ = told.most_common(1)[0]
    ending = {AVRO: "avsc", PROTOBUF: "proto", JSON: "json"}[kind]
    version, written = schemas.newest(subject), f"written by schemas {', '.join(map(str, known))} of the registry"
    if version is None:
        note = f"{written}, which has no subject {subject}: pull the one that it has"
        return Side(OF_REGISTRY[kind], f"schemas/{subject}.{ending}", notes=(note,))
    note = f"{written}; this writes the file: lakestreams registry pull {subject}"
    return Side(OF_REGISTRY[kind], f"schemas/{subject}.v{version}.{ending}", notes=(note,))


def _json(raw: Sequence[bytes], name: str) -> Side | None:
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
    if _share(len(quoted), raw):  # numbers without quotes are text just as well
        return Side("json_scalar", f"{name} string", notes=("JSON texts in quotes",))
    return None


def _objects(objects: Sequence[Mapping[str, Any]]) -> Side:
    wrapped = [one for one in objects if set(one) == {_PAYLOAD, _SCHEMA}]
    inner = [one[_PAYLOAD] for one in wrapped if isinstance(one[_PAYLOAD], dict)]
    rows: Sequence[Mapping[str, Any]] = inner if _share(len(wrapped), objects) and inner else objects
    events = [one for one in rows if _OP in one and (_AFTER in one or "before" in one)]
    if _share(len(events), rows):
        after = [_document(one.get(_AFTER)) for one in events]
        present = [one for one in after if one is not None]
        columns, notes = _columns(present, len(present))
        told = "Debezium's change events: the row in `after`"
        return Side("debezium_json", columns=columns, notes=(told, *notes), is_change=True)
    columns, notes = _columns(rows, len(rows))
    if rows is inner:
        return Side("connect_json", columns=columns, notes=("Connect's wrapper: the payload", *notes))
    return Side("json", columns=columns, notes=notes)


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
    for own, seen in whole.members.items():
        name = own if BARE.match(own) and is_name(own) else _PLAIN.sub("_", own).strip("_") or "field"
        if not name[0].isalpha():
            name = f"field_{name}"
        place, base = 2, name
        while name.lower() in taken:
            name, place = f"{base}_{place}", place + 1
        taken.add(name.lower())
        kind = seen.type(name, notes)
        example = "" if seen.example is None else shown(seen.example)
        found.append(Column(name, kind, seen.there / max(1, count), example, None if name == own else own))
    return tuple(found), tuple(notes)


def _of_bytes(raw: Sequence[bytes], name: str) -> Side | None:
    sizes = Counter(map(len, raw))
    size, count = sizes.most_common(1)[0]
    is_text = sum(_is_text(one) for one in raw)
    if _share(is_text, raw):
        return Side("text", name)
    if size in _SIZES and _share(count, raw):
        told = {
            "int": "four bytes: a whole number",
            "long": "eight bytes: a whole number",
            "uuid": "sixteen bytes: a UUID",
        }
        return Side(_SIZES[size], name, notes=(told[_SIZES[size]],))
    return None


def _is_text(raw: bytes) -> bool:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return all(sign.isprintable() or sign in "\r\n\t" for sign in text)


__all__ = ["OF_REGISTRY", "Column", "Schemas", "Side", "side"]
