"""Records that name a schema of a registry, in a prefix or a header: the columns that their schema gives, with values of the sample."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from lakestreams.errors import InvalidFormat, LakestreamsError, SchemaMissing
from lakestreams.formats import DebeziumAvro, JsonSchema, RegistryAvro, RegistryProtobuf
from lakestreams.formats.avro.columns import inner
from lakestreams.formats.avro.debezium import rows_of
from lakestreams.formats.avro.schema import Fixed, Primitive, Record
from lakestreams.formats.base import Field
from lakestreams.formats.headers import Heads, named
from lakestreams.formats.protobuf.compiling import compile_texts
from lakestreams.formats.protobuf.formats import places_of
from lakestreams.formats.writers import (
    AVRO,
    ENDINGS,
    JSON,
    KEYS,
    LARGEST_ID,
    PREFIX,
    PROTOBUF,
    RegistryFormat,
    SchemaName,
    Written,
    with_known_schemas,
)
from lakestreams.infer.objects import columns_of_documents, is_most, json_side
from lakestreams.infer.seen import Seen, shown
from lakestreams.infer.side import Column, Side
from lakestreams.registry.client import Registered, Schema

_Format: TypeAlias = RegistryAvro | DebeziumAvro | RegistryProtobuf | JsonSchema
DEBEZIUM: Final = "debezium_avro"
_MOST_IDS: Final = 64
_LONG: Final = 8
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

    def by_name(self, name: SchemaName) -> Schema | None:
        """A schema by its id or GUID; None for one that the registry does not know.

        Raises:
            SchemaMissing: if what the registry has under the name is no schema.
        """

    def newest(self, subject: str) -> Registered | None:
        """The newest version of a subject; None if there is no such subject."""


class Named(NamedTuple):
    """A record that names its schema.

    Attributes:
        schema: which one.
        behind: what stands behind its name; of Protobuf the place of the message first.
        body: the record without a prefix.
    """

    schema: SchemaName
    behind: bytes
    body: bytes


class Sample(NamedTuple):
    """Keys, or values.

    Attributes:
        raw: the records.
        heads: the header of each that may name its schema.
        named: those of them that name one.
        written: what the registry says of these schemas.
    """

    raw: Sequence[bytes]
    heads: Sequence[bytes | None]
    named: Sequence[Named]
    written: Mapping[SchemaName, Written | None]


def framed(both: Sequence[tuple[bytes, bytes | None]], name: str, schemas: Schemas | None, subject: str) -> Side | None:
    """What fits records that name a schema of a registry; None if they do not.

    Args:
        both: keys, or values, with the header of each that may name its schema.
        name: of the column of a format that has one.
        schemas: the registry; None: there is none.
        subject: under which the registry has schemas of this side, as a rule.
    """
    all_named = [one for one in (_named(*pair) for pair in both) if one is not None]
    if not is_most(len(all_named), both):
        return None
    ids, is_headed = Counter(one.schema for one in all_named), any(head is not None for _, head in both)
    if schemas is None:
        own = json_side([one.body for one in all_named], "")
        if own is not None and own.format == "json":
            return None if is_headed else Side("registry_json", columns=own.columns, notes=own.notes)
        where = "its schema is named in a header" if is_headed else "behind a schema registry's prefix"
        if _are_longs(both):
            where = "eight bytes each: long, or something behind a schema registry's prefix. To know"
        said = f"{where}: name the registry in the sources' file and infer again"
        return Side("", notes=(said,)) if is_headed or len(ids) < ids.total() else None
    known, broken = _known(schemas, [number for number, _ in ids.most_common(_MOST_IDS)])
    numbers = ", ".join(map(str, sorted(known, key=str)))
    kinds = Counter({one.kind: ids[number] for number, one in known.items() if one and one.kind in KEYS})
    if not kinds:
        unknown = f"of schemas that the registry does not know: {numbers}"
        return None if _are_longs(both) else Side("", notes=(unknown, *broken))
    kind, _ = kinds.most_common(1)[0]
    newest = schemas.newest(subject)
    notes = [f"written by schema{'' if len(known) == 1 else 's'} {numbers} of the registry", *broken]
    if newest is not None and newest.schema.kind == kind:
        schema, file = newest.schema, f"schemas/{subject}.v{newest.version}{ENDINGS[kind]}"
        notes.append(f"read by version {newest.version} of subject {subject}")
        notes.append(f"to keep that version in a file: lakestreams registry pull {subject}")
    else:
        of_kind = {number: one for number, one in known.items() if one is not None and one.kind == kind}
        number = max(of_kind, key=lambda one: one if isinstance(one, int) else 0)
        schema, file = of_kind[number], f"schemas/{subject}{ENDINGS[kind]}"
        notes.append(
            f"the registry has no readable version of subject {subject}: read by schema {number}, the newest of them"
        )
    written = {
        number: None if one is None else Written(one.kind, (*one.references, one.text)) for number, one in known.items()
    }
    try:
        found = _declared(
            schema, Sample([one for one, _ in both], [head for _, head in both], all_named, written), name
        )
    except LakestreamsError as error:
        is_change = kind == AVRO and _is_of_changes(schema)
        how = DEBEZIUM if is_change else KEYS[kind]
        return Side(how, file, is_change=is_change, notes=(*notes[:-1], f"its columns are not known: {error.message}"))
    if _are_longs(both) and not any(one.share for one in found.columns):
        return None  # its second to fifth byte are the id of some schema by chance
    return replace(found, notes=(*notes, *found.notes), written=written)


def _known(schemas: Schemas, names: Sequence[SchemaName]) -> tuple[dict[SchemaName, Schema | None], list[str]]:
    """The registry's schemas by their names, and why it gives none for a name that it has: others may be read."""
    known: dict[SchemaName, Schema | None] = {}
    broken: list[str] = []
    for name in names:
        try:
            known[name] = schemas.by_name(name)
        except SchemaMissing as error:
            known[name] = None
            broken.append(f"records of schema {name} are not read: {error.message}")
    return known, broken


def _is_of_changes(schema: Schema) -> bool:
    with contextlib.suppress(LakestreamsError):
        return bool(rows_of(schema.text))
    return False


def _are_longs(both: Sequence[tuple[bytes, bytes | None]]) -> bool:
    """Whether these may be Kafka's longs: one of 2^24 to 2^56 begins as a registry's prefix does."""
    return all(len(raw) == _LONG and head is None for raw, head in both)


def _named(raw: bytes, head: bytes | None) -> Named | None:
    if head is not None:
        said = named(head)
        return None if said is None else Named(said.schema, said.behind, raw)
    number = int.from_bytes(raw[1:PREFIX], "big") if len(raw) > PREFIX and raw[0] == 0 else 0
    return Named(number, raw[PREFIX:], raw[PREFIX:]) if 0 < number <= LARGEST_ID else None


def _declared(schema: Schema, sample: Sample, name: str) -> Side:
    """What a schema says.

    Raises:
        LakestreamsError: if no source can say it, or what reads schemas is not installed.
    """
    if schema.kind == AVRO:
        return _avro(schema, sample, name)
    if schema.kind == PROTOBUF:
        return _protobuf(schema, sample)
    return _json(schema, sample)


def _avro(schema: Schema, sample: Sample, name: str) -> Side:
    if schema.references:
        raise InvalidFormat("it refers to other schemas; write it into a file with those types in it")
    rows = rows_of(schema.text)
    if rows:
        return _changes(schema, sample, rows)
    how = RegistryAvro(schema.text, name)
    root, notes = inner(how.type), list[str]()
    columns = _columns(how, sample, notes)
    for one in root.members if isinstance(root, Record) else ():
        own = inner(one.type)
        if isinstance(own, Primitive | Fixed) and own.logical is not None and own.logical.name in _UNITS:
            notes.append(f"{one.name} is {own.logical.name}: {_UNITS[own.logical.name]}")
    said = json.loads(schema.text) if schema.text.lstrip()[:1] in ("{", "[", '"') else schema.text
    return Side(KEYS[AVRO], said, columns, tuple(notes), options={} if isinstance(root, Record) else {"column": name})


def _changes(schema: Schema, sample: Sample, rows: Literal["records", "documents"]) -> Side:
    """The row that a change event of Debezium leaves; MongoDB's is a text, whose columns the schema does not know."""
    notes = ["Debezium's change events: the row in `after`"]
    if rows == "records":
        columns = _columns(DebeziumAvro(schema.text), sample, notes)
        return Side(DEBEZIUM, json.loads(schema.text), columns, tuple(notes), is_change=True)
    columns, more = columns_of_documents(one["after"] for one in _read(RegistryAvro(schema.text), sample))
    if not columns:
        raise InvalidFormat("it says of rows that they are texts, and no record of the sample has one")
    return Side(DEBEZIUM, "", columns, (*notes, *more), is_change=True)


def _protobuf(schema: Schema, sample: Sample) -> Side:
    """The message is the one that most records are."""
    names: dict[SchemaName, dict[tuple[int, ...], str]] = {}
    for number, one in sample.written.items():
        if one is not None and one.kind == PROTOBUF:
            with contextlib.suppress(InvalidFormat):  # one that a registry took harms its own records alone
                names[number] = dict(compile_texts(one.texts).names)
    messages = Counter(
        name for name in places_of([(one.schema, one.behind) for one in sample.named], names) if name is not None
    )
    if not messages:
        raise InvalidFormat("no record names a message of its schema")
    message = messages.most_common(1)[0][0]
    imports = tuple(zip(schema.references[::2], schema.references[1::2], strict=True))
    text, notes = f"{schema.text.strip()}\n", list[str]()
    columns = _columns(RegistryProtobuf(text, message, imports=imports), sample, notes)
    options: dict[str, Any] = {"message": message} | ({"imports": dict(imports)} if imports else {})
    return Side(KEYS[PROTOBUF], text, columns, tuple(notes), options=options)


def _json(schema: Schema, sample: Sample) -> Side:
    """Columns by the schema; by the records where it has some that no column can be."""
    notes: list[str] = []
    try:
        return Side(KEYS[JSON], "", _columns(JsonSchema(schema.text), sample, notes), tuple(notes))
    except InvalidFormat as error:
        own = json_side([one.body for one in sample.named], "")
        if own is None or own.format != "json":
            raise
        return Side(KEYS[JSON], "", own.columns, (f"columns by its records: {error.message}", *own.notes))


def _columns(how: _Format, sample: Sample, notes: list[str]) -> tuple[Column, ...]:
    """The columns of a format, with what they hold in the records that it reads."""
    rows = _read(how, sample)
    return tuple(_column(one, [row[one.name] for row in rows], notes) for one in how.fields)


def _read(how: _Format, sample: Sample) -> list[dict[str, Any]]:
    """The records that a format reads."""
    assert isinstance(how, RegistryFormat)  # noqa: S101 - all of them are
    told = with_known_schemas(how, sample.written, strict=False)
    found = told.decode(pa.array(sample.raw, pa.binary()), heads_of(sample.heads))
    return [one for one in found.values.to_pylist(maps_as_pydicts="lossy") if one]


def heads_of(heads: Sequence[bytes | None]) -> Heads | None:
    """Headers of records as formats take them; None if no record has one."""
    return None if all(one is None for one in heads) else Heads("of its schema", pa.array(heads, pa.binary()), {})


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


__all__ = ["DEBEZIUM", "Schemas", "framed", "heads_of"]
