"""Records behind a schema registry's prefix: the columns that their schema gives, with values of the sample."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Protocol

import pyarrow as pa

from lakestreams.errors import InvalidFormat, LakestreamsError
from lakestreams.formats import JsonSchema, RegistryAvro, RegistryProtobuf
from lakestreams.formats.avro.columns import inner
from lakestreams.formats.avro.schema import Fixed, Primitive, Record
from lakestreams.formats.base import Field
from lakestreams.formats.protobuf.compiling import compile_texts
from lakestreams.formats.protobuf.formats import places_of
from lakestreams.formats.writers import AVRO, JSON, LARGEST_ID, PREFIX, PROTOBUF, RegistryFormat, Written, told_to
from lakestreams.infer.found import Column, Side
from lakestreams.infer.objects import is_most, json_side
from lakestreams.infer.seen import Seen, shown
from lakestreams.registry.client import Registered, Schema

OF_REGISTRY: Final = {AVRO: "registry_avro", PROTOBUF: "registry_protobuf", JSON: "json_schema"}
_ENDINGS: Final = {AVRO: "avsc", PROTOBUF: "proto", JSON: "json"}
_MOST_IDS: Final = 64
# What numbers of these types count; they stay numbers (docs/formats.md).
_UNITS: Final = {
    "time-millis": "milliseconds of the day",
    "time-micros": "microseconds of the day",
    "timestamp-nanos": "nanoseconds since 1970 in UTC",
    "local-timestamp-nanos": "nanoseconds since 1970, without a zone",
}
_AS_TIMES: Final = {
    "timestamp_ms": ("milliseconds", "timestamp_millis"),
    "timestamp_us": ("microseconds", "timestamp_micros"),
    "timestamp_s": ("seconds", "timestamp_seconds"),
}


class Schemas(Protocol):
    """What is asked of a schema registry."""

    def by_id(self, number: int) -> Schema | None:
        """A schema by its id; None for one that the registry does not know."""

    def newest(self, subject: str) -> Registered | None:
        """The newest version of a subject; None if there is no such subject."""


def framed(raw: Sequence[bytes], name: str, schemas: Schemas | None, subject: str) -> Side | None:
    """What fits records behind a prefix; None if they are none.

    Args:
        raw: keys, or values.
        name: of the column of a format that has one.
        schemas: the registry; None: there is none.
        subject: under which the registry has schemas of this side, as a rule.
    """
    ids = Counter(int.from_bytes(one[1:PREFIX], "big") for one in raw if len(one) > PREFIX and one[0] == 0)
    ids = Counter({number: count for number, count in ids.items() if 0 < number <= LARGEST_ID})
    if not is_most(ids.total(), raw):
        return None
    if schemas is None:
        own = json_side([one[PREFIX:] for one in raw], "")
        if own is not None and own.format == "json":
            return Side("registry_json", columns=own.columns, notes=own.notes)
        said = "behind a schema registry's prefix: name the registry in the sources' file and infer again"
        return Side("", notes=(said,)) if len(ids) < ids.total() else None
    known = {number: schemas.by_id(number) for number, _ in ids.most_common(_MOST_IDS)}
    numbers = ", ".join(map(str, sorted(known)))
    kinds = Counter({one.kind: ids[number] for number, one in known.items() if one and one.kind in OF_REGISTRY})
    if not kinds:
        return Side("", notes=(f"behind a prefix of schemas that the registry does not know: {numbers}",))
    kind, _ = kinds.most_common(1)[0]
    newest = schemas.newest(subject)
    notes = [f"written by schema{'' if len(known) == 1 else 's'} {numbers} of the registry"]
    if newest is not None and newest.schema.kind == kind:
        schema, file = newest.schema, f"schemas/{subject}.v{newest.version}.{_ENDINGS[kind]}"
        notes.append(f"read by version {newest.version} of subject {subject}")
        notes.append(f"to keep that version in a file: lakestreams registry pull {subject}")
    else:
        number, schema = max((number, one) for number, one in known.items() if one is not None and one.kind == kind)
        file = f"schemas/{subject}.{_ENDINGS[kind]}"
        notes.append(f"the registry has no subject {subject}: read by schema {number}, the newest of them")
    written = {
        number: None if one is None else Written(one.kind, (*one.references, one.text)) for number, one in known.items()
    }
    try:
        found = _declared(schema, raw, name, written)
    except LakestreamsError as error:
        return Side(OF_REGISTRY[kind], file, notes=(*notes[:-1], f"its columns are not known: {error.message}"))
    return replace(found, notes=(*notes, *found.notes), written=written)


def _declared(schema: Schema, raw: Sequence[bytes], name: str, written: Mapping[int, Written | None]) -> Side:
    """What a schema says.

    Raises:
        LakestreamsError: if no source can say it, or what reads schemas is not installed.
    """
    if schema.kind == AVRO:
        return _avro(schema, raw, name, written)
    if schema.kind == PROTOBUF:
        return _protobuf(schema, raw, written)
    return _json(schema, raw, written)


def _avro(schema: Schema, raw: Sequence[bytes], name: str, written: Mapping[int, Written | None]) -> Side:
    if schema.references:
        raise InvalidFormat("it refers to other schemas; write it into a file with those types in it")
    how = RegistryAvro(schema.text, name)
    root, notes = inner(how.type), list[str]()
    columns = _columns(how, raw, written, notes)
    for one in root.members if isinstance(root, Record) else ():
        own = inner(one.type)
        if isinstance(own, Primitive | Fixed) and own.logical is not None and own.logical.name in _UNITS:
            notes.append(f"{one.name} is {own.logical.name}: {_UNITS[own.logical.name]}")
    said = json.loads(schema.text) if schema.text.lstrip()[:1] in ("{", "[", '"') else schema.text
    return Side(
        OF_REGISTRY[AVRO], said, columns, tuple(notes), options={} if isinstance(root, Record) else {"column": name}
    )


def _protobuf(schema: Schema, raw: Sequence[bytes], written: Mapping[int, Written | None]) -> Side:
    """The message is the one that most records are."""
    names: dict[int, dict[tuple[int, ...], str]] = {}
    for number, one in written.items():
        if one is not None and one.kind == PROTOBUF:
            with contextlib.suppress(InvalidFormat):  # one that a registry took harms its own records alone
                names[number] = dict(compile_texts(one.texts).names)
    messages = Counter(name for name in places_of(raw, names) if name is not None)
    if not messages:
        raise InvalidFormat("no record names a message of its schema")
    message = messages.most_common(1)[0][0]
    imports = tuple(zip(schema.references[::2], schema.references[1::2], strict=True))
    text, notes = f"{schema.text.strip()}\n", list[str]()
    columns = _columns(RegistryProtobuf(text, message, imports=imports), raw, written, notes)
    options: dict[str, Any] = {"message": message} | ({"imports": dict(imports)} if imports else {})
    return Side(OF_REGISTRY[PROTOBUF], text, columns, tuple(notes), options=options)


def _json(schema: Schema, raw: Sequence[bytes], written: Mapping[int, Written | None]) -> Side:
    """Columns by the schema; by the records where it has some that no column can be."""
    notes: list[str] = []
    try:
        return Side(OF_REGISTRY[JSON], "", _columns(JsonSchema(schema.text), raw, written, notes), tuple(notes))
    except InvalidFormat as error:
        own = json_side([one[PREFIX:] for one in raw], "")
        if own is None or own.format != "json":
            raise
        return Side(OF_REGISTRY[JSON], "", own.columns, (f"columns by its records: {error.message}", *own.notes))


def _columns(
    how: RegistryAvro | RegistryProtobuf | JsonSchema,
    raw: Sequence[bytes],
    written: Mapping[int, Written | None],
    notes: list[str],
) -> tuple[Column, ...]:
    """The columns of a format, with what they hold in the records that it reads."""
    assert isinstance(how, RegistryFormat)  # noqa: S101 - all three are
    told = told_to(how, written, strict=False)
    rows = [one for one in told.decode(pa.array(raw, pa.binary())).values.to_pylist(maps_as_pydicts="lossy") if one]  # type: ignore[attr-defined]
    return tuple(_column(one, [row[one.name] for row in rows], notes) for one in how.fields)


def _column(own: Field, values: Sequence[Any], notes: list[str]) -> Column:
    there = [one for one in values if one is not None]
    if own.type == "bigint" and there:
        seen = Seen()
        for one in there:
            seen.add(one)
        word, function = _AS_TIMES.get(seen.type(own.name, []), ("", ""))
        if word:
            notes.append(f"{own.name} looks like {word} since 1970; a step makes it a time: {function}({own.name})")
    example = shown(_plain(there[0])) if there else ""
    share = len(there) / max(1, len(values))
    return Column(own.name, own.member.kind.declared, share, example, required=own.required)


def _plain(value: Any) -> Any:
    """A value as JSON and people have it."""
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"hex {value.hex()}"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


__all__ = ["OF_REGISTRY", "Schemas", "framed"]
