"""The row of a change event of Debezium in Avro, behind a schema registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from lakestreams.errors import InvalidFormat
from lakestreams.formats.avro.columns import fields_of
from lakestreams.formats.avro.formats import RegistryAvro
from lakestreams.formats.avro.schema import Record
from lakestreams.formats.base import Field, require_text
from lakestreams.formats.changes import ROWS, wrong
from lakestreams.formats.json import Json
from lakestreams.formats.places import Fields, Path, paths_of
from lakestreams.formats.writers import SchemaName, Texts, Written

if TYPE_CHECKING:
    from lakestreams.formats.decoding import Decoded
    from lakestreams.formats.headers import Heads

_OP, _AFTER, _ENVELOPE = "op", "after", "Envelope"
_NULL, _STRING = "null", "string"
_HINT: Final = "declare the schema of the topic's values, as the registry has it, or that of the rows"


@dataclass(frozen=True, init=False)
class DebeziumAvro:
    """The row of a Debezium change event in Avro, whose schema is in a registry; for tables.

    Creates, updates and snapshot reads (op `c`, `u`, `r`) give the row in `after`. Deletes (op `d`) give null, as tombstones
    do. Truncates (`t`), messages (`m`), any other op and a row's change without `after` are errors. MongoDB's `after` is a
    text that holds the row as a JSON object. `before`, `source` and the envelope's times are not read.

    Args:
        schema: the schema of the topic's values, which is a record with `op` and `after`; or that of the rows. Of MongoDB
            Spark DDL of its documents, such as `sku string, stars int`.
        fields: of documents column to field where the names differ, as for `Json`.

    Raises:
        InvalidFormat: if it is no schema of records, or a table has no column for one of its types.
    """

    schema: str
    named: tuple[tuple[str, Path], ...]

    def __init__(self, schema: str, fields: Fields | None = None) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        require_text(schema)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "named", paths_of(fields))
        documents = None if schema.lstrip()[:1] in ("{", "[", '"') else Json(schema, fields)
        if documents is None and fields:
            msg = "fields are of documents, which are declared by their columns; an Avro schema names its own"
            raise InvalidFormat(msg, hint='rename columns in a step, or give its fields "aliases" in the schema')
        event = _event(schema) if documents is None else _of_documents()
        object.__setattr__(self, "_inner", event)
        row = event.type.members[0].type  # type: ignore[union-attr] # both are records
        object.__setattr__(self, "_fields", fields_of(row, _AFTER) if documents is None else documents.fields)
        object.__setattr__(self, "_documents", documents)

    @property
    def documents(self) -> Json | None:
        """What reads the texts of rows; None where rows are records."""
        found: Json | None = self._documents  # type: ignore[attr-defined]
        return found

    @property
    def event(self) -> RegistryAvro:
        """The format of the events, of which the op and the row are read."""
        found: RegistryAvro = self._inner  # type: ignore[attr-defined]
        return found

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the row."""
        found: tuple[Field, ...] = self._fields  # type: ignore[attr-defined]
        return found

    @property
    def subject(self) -> str | None:
        """None: it is not written."""
        return None

    @property
    def register(self) -> bool:
        """False: it is not written."""
        return False

    @property
    def registered(self) -> Written:
        """The schema of the events."""
        return self.event.registered

    def knowing(self, known: Mapping[SchemaName, Texts | str | None], *, strict: bool) -> Self:
        """The same format with what is known of the writers' schemas, as `RegistryFormat` says it."""
        fitted = copy(self)
        object.__setattr__(fitted, "_inner", self.event.knowing(known, strict=strict))
        return fitted

    def decode(self, raw: Any, heads: Heads | None = None) -> Decoded:
        """Reads the events, and gives the rows that they leave.

        Args:
            raw: an array of bytes.
            heads: the headers that name the schemas, if one has such a header.

        Raises:
            UnknownIds: if the format is strict, and a record names a schema that it does not know.
        """
        import pyarrow as pa  # noqa: PLC0415 - declaring needs no Arrow
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        from lakestreams.formats.decoding import Decoded  # noqa: PLC0415 - as above

        found = self.event.decode(raw, heads)
        after, ops = pc.struct_field(found.values, _AFTER), pc.struct_field(found.values, _OP)
        coded = ops.dictionary_encode()  # so that each op is judged once

        def said(*, has_row: bool) -> Any:
            judged = [wrong(op, has_row=has_row) for op in coded.dictionary.to_pylist()]
            return pa.array(judged, pa.string()).take(coded.indices)

        errors = pc.if_else(after.is_valid(), said(has_row=True), said(has_row=False))
        leaves = pc.is_in(ops, pa.array(ROWS))
        rows, errors = pc.if_else(leaves, after, pa.scalar(None, after.type)), pc.coalesce(errors, found.errors)
        if self.documents is None:
            return Decoded(rows, errors)
        read = self.documents.decode(rows.cast(pa.binary()))
        wrong_rows = pc.binary_join_element_wise(f"{_AFTER}: ", read.errors, "")  # null where nothing is wrong
        return Decoded(read.values, pc.coalesce(errors, wrong_rows))

    def encoded(self, value: Mapping[str, Any]) -> bytes:
        """A row as its update."""
        row: Any = value
        if self.documents is not None:
            row = json.dumps(self.documents.places.put(value), ensure_ascii=False, default=str)
        return self.event.encoded({_AFTER: row, _OP: "u"})

    def describe(self) -> str:
        """The format with its columns, and a digest of the schema's text."""
        if self.documents is not None:
            return f"debezium_avro of documents({self.documents.columns})"
        columns = ", ".join(f"{one.name} {one.member.declared}" for one in self.fields)
        digest = hashlib.sha256(self.event.schema.encode()).hexdigest()[:8]
        return f"debezium_avro({columns}; schema {digest})"


def _event(text: str) -> RegistryAvro:
    """Events with nothing but the op and the row, from the schema of all events or that of the rows.

    Raises:
        InvalidFormat: if it is neither.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.get("type") != "record" or not isinstance(given.get("fields"), list):
        raise InvalidFormat("the Avro schema of change events is no record", hint=_HINT)
    members = {
        one["name"]: one for one in given["fields"] if isinstance(one, dict) and isinstance(one.get("name"), str)
    }
    named = {name: given[name] for name in ("name", "namespace") if name in given}
    row: Any = [_NULL, given]
    if {_OP, _AFTER} <= members.keys():
        row = _row(given, members[_AFTER].get("type"))
    else:
        named = {"name": _ENVELOPE}
    fields = [{"name": _AFTER, "type": row}, {"name": _OP, "type": _STRING}]
    made = RegistryAvro(json.dumps({"type": "record", **named, "fields": fields}, sort_keys=False))
    member = made.type.members[0].type  # type: ignore[union-attr] # as it is made
    others = [one for one in getattr(member, "branches", ()) if isinstance(one, Record)]
    if len(others) != 1 or len(member.branches) != 2:  # type: ignore[union-attr] # it has a record among its branches
        msg = f"{_AFTER} is no record that may be null"
        hint = "MongoDB's rows are texts: declare the columns of the documents, such as 'sku string, stars int'"
        raise InvalidFormat(msg, hint=hint)
    return made


def _of_documents() -> RegistryAvro:
    """Events whose rows are texts."""
    fields = [{"name": _AFTER, "type": [_NULL, _STRING]}, {"name": _OP, "type": _STRING}]
    return RegistryAvro(json.dumps({"type": "record", "name": _ENVELOPE, "fields": fields}))


def rows_of(schema: str) -> Literal["", "records", "documents"]:
    """What the rows are of which an Avro schema of a registry says the changes; "": it says none.

    Args:
        schema: as JSON.
    """
    try:
        given = json.loads(schema)
        members = {one["name"]: one["type"] for one in given["fields"]}
        row = _row(given, members[_AFTER])
        kinds = [one["type"] if isinstance(one, dict) else one for one in row if one != _NULL]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    if members.get(_OP) != _STRING or kinds not in (["record"], [_STRING]):
        return ""
    return "records" if kinds == ["record"] else "documents"


def _row(event: Mapping[str, Any], row: Any) -> Any:
    """The type of `after`, whose record is as a rule defined in `before`, which is not read."""
    if not isinstance(row, list):
        return row
    return [_defined(event, one) or one if isinstance(one, str) and one != _NULL else one for one in row]


def _defined(event: Mapping[str, Any], name: str) -> Any:
    """The definition of a record by its full name, as others may have its short one; None if the schema has none."""
    outer = _full(event, "").rpartition(".")[0]
    found: dict[str, Any] = {}
    waiting: list[tuple[Any, str]] = [(event["fields"], outer)]
    while waiting:
        one, space = waiting.pop()
        if isinstance(one, list):
            waiting += [(part, space) for part in reversed(one)]
        elif isinstance(one, dict):
            if one.get("type") == "record":
                full = _full(one, space)
                own, _, short = full.rpartition(".")
                # where it is put, its name is to mean the same; if it does anyhow, the schema's text stays as it is
                found.setdefault(full, one if space == outer else {**one, "name": short, "namespace": own})
                space = own
            waiting += [(one[key], space) for key in ("values", "items", "fields", "type") if key in one]
    return found.get(name if "." in name or not outer else f"{outer}.{name}", found.get(name))


def _full(one: Mapping[str, Any], space: str) -> str:
    """The full name of a named type that is defined in a namespace."""
    name, own = str(one.get("name")), one.get("namespace")
    space = own if isinstance(own, str) else space
    return name if "." in name or not space else f"{space}.{name}"


__all__ = ["DebeziumAvro", "rows_of"]
