"""The row of a change event of Debezium in Avro, behind a schema registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from lakestreams.errors import InvalidFormat
from lakestreams.formats.avro.columns import fields_of
from lakestreams.formats.avro.formats import RegistryAvro
from lakestreams.formats.avro.schema import Record
from lakestreams.formats.base import Field
from lakestreams.formats.changes import ROWS, wrong
from lakestreams.formats.writers import SchemaName, Texts, Written

if TYPE_CHECKING:
    from lakestreams.formats.decoding import Decoded
    from lakestreams.formats.headers import Heads

_OP, _AFTER, _ENVELOPE = "op", "after", "Envelope"
_HINT: Final = "declare the schema of the topic's values, as the registry has it, or that of the rows"


@dataclass(frozen=True)
class DebeziumAvro:
    """The row of a Debezium change event in Avro, whose schema is in a registry; for tables.

    Creates, updates and snapshot reads (op `c`, `u`, `r`) give the row in `after`. Deletes (op `d`) give null, as tombstones
    do. Truncates (`t`), messages (`m`), any other op and a row's change without `after` are errors. `before`, `source` and the envelope's times are not read.

    Args:
        schema: the schema of the topic's values, which is a record with `op` and `after`; or that of the rows.

    Raises:
        InvalidFormat: if it is no schema of records, or a table has no column for one of its types.
    """

    schema: str

    def __post_init__(self) -> None:
        """Reads the schema once, so that a wrong one is refused where it is written."""
        event = _event(self.schema)
        object.__setattr__(self, "_inner", event)
        row = event.type.members[0].type  # type: ignore[union-attr] # `_event` makes a record
        object.__setattr__(self, "_fields", fields_of(row, _AFTER))

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
        return Decoded(pc.if_else(leaves, after, pa.scalar(None, after.type)), pc.coalesce(errors, found.errors))

    def encoded(self, value: Mapping[str, Any]) -> bytes:
        """A row as its update."""
        return self.event.encoded({_AFTER: value, _OP: "u"})

    def describe(self) -> str:
        """The format with its columns, and a digest of the schema's text."""
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
    row: Any = ["null", given]
    if {_OP, _AFTER} <= members.keys():
        row = _row(given, members[_AFTER].get("type"))
    else:
        named = {"name": _ENVELOPE}
    fields = [{"name": _AFTER, "type": row}, {"name": _OP, "type": "string"}]
    made = RegistryAvro(json.dumps({"type": "record", **named, "fields": fields}, sort_keys=False))
    member = made.type.members[0].type  # type: ignore[union-attr] # as it is made
    others = [one for one in getattr(member, "branches", ()) if isinstance(one, Record)]
    if len(others) != 1 or len(member.branches) != 2:  # type: ignore[union-attr] # it has a record among its branches
        msg = f"{_AFTER} is no record that may be null"
        raise InvalidFormat(
            msg, hint="MongoDB's rows are texts: let its connector write JSON, and declare debezium_json"
        )
    return made


def _row(event: Mapping[str, Any], row: Any) -> Any:
    """The type of `after`, whose record is as a rule defined in `before`, which is not read."""
    if not isinstance(row, list):
        return row
    return [_defined(event, one) or one if isinstance(one, str) and one != "null" else one for one in row]


def _defined(event: Mapping[str, Any], name: str) -> Any:
    """The first definition of a named type in a schema; None if there is none."""
    waiting: list[Any] = list(event["fields"])
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, list):
            waiting = [*one, *waiting]
        elif isinstance(one, dict):
            own = str(one.get("name"))
            if one.get("type") == "record" and name.rpartition(".")[2] == own.rpartition(".")[2]:
                return one
            waiting = [*one.values(), *waiting]
    return None


__all__ = ["DebeziumAvro"]
