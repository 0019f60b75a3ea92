"""JSON that Kafka Connect writes: rows in the JsonConverter's wrapper, and the change events of Debezium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.formats.json import Declared, object_error, read_object, the_object
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.base import Parsed

_PAYLOAD, _OP, _AFTER = "payload", "op", "after"
_ROWS = ("c", "r", "u")  # create, read (by a snapshot), update: `after` is the row
_DELETE = "d"
_REFUSED = {
    "t": "op t (truncate) deletes rows that it does not name; a table cannot follow it",
    "m": "op m (message) is not a change of a row",
}
_NO_OP = "no op; not a Debezium change event"
_SHOWN_CHARACTERS = 20


@dataclass(frozen=True, init=False)
class ConnectJson(Declared):
    """A JSON object in the wrapper of Connect's JsonConverter (`schemas.enable=true`, its default).

    `{"schema": ..., "payload": {...}}`: the payload is read by the declared schema, as `Json` reads an object; Connect's
    schema is not looked at. A payload that is null is a null. An object without a payload is an error: what is written
    with `schemas.enable=false` is bare, and `Json` reads it.

    Args:
        schema: Spark DDL of the payload, such as `id bigint`.
        fields: column to field of the payload where the names differ, as for `Json`.
    """

    def read(self, raw: Column) -> Column:
        """One from_json of the wrapper, its schema left out."""
        members, named = self.places.members, self.places.safe_members
        return read_object(raw, *(f"struct<`{_PAYLOAD}`: struct<{one}>>" for one in (members, named)))

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """The payload, or what is wrong with it."""
        found = self.read(raw) if read is None else read
        unfit = object_error(raw, found, f"not one JSON object whose payload fits {self.schema}")
        payload = the_object(found)[_PAYLOAD]
        bare = F.when(
            raw.isNotNull() & payload.isNull(),
            _unless_payload_is_null(raw, "no payload; Json reads objects without Connect's wrapper"),
        )
        value = F.when(unfit.isNull(), self.places.struct(payload))
        return self._exactly(raw, self.places.columns(payload), value, F.coalesce(unfit, bare))

    def describe(self) -> str:
        """The format with its columns."""
        return f"connect_json({self.columns})"


@dataclass(frozen=True, init=False)
class DebeziumJson(Declared):
    """The row of a Debezium change event in JSON, bare or in the wrapper of Connect's JsonConverter; for tables.

    Creates, updates and snapshot reads (op `c`, `u`, `r`) give the row in `after`, read by the declared schema as `Json`
    reads an object. Deletes (op `d`) give null, as tombstones do: bytes that are null, and the wrapper with a null
    payload that older versions of Connect write for them. Truncates (`t`), messages (`m`), any other op, a row's change
    without `after` and what is no change event are errors. `before`, `source` and the envelope's times are not read.

    Args:
        schema: Spark DDL of the row, such as `name string, city string`.
        fields: column to field of the row where the names differ, as for `Json`.
    """

    def read(self, raw: Column) -> Column:
        """One from_json of the event, where it stands bare and where it stands wrapped."""
        rows = (f"struct<{one}>" for one in (self.places.members, self.places.safe_members))
        events = (f"`{_OP}`: string, `{_AFTER}`: {row}" for row in rows)
        return read_object(raw, *(f"struct<{event}, `{_PAYLOAD}`: struct<{event}>>" for event in events))

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """The row after the change, null where it was deleted, or what is wrong with the event."""
        found = self.read(raw) if read is None else read
        unfit = object_error(raw, found, f"not one JSON change event whose after fits {self.schema}")
        bare = the_object(found)
        payload = bare[_PAYLOAD]
        op, after = (F.when(payload.isNotNull(), payload[name]).otherwise(bare[name]) for name in (_OP, _AFTER))
        fault = F.when(raw.isNotNull(), _fault(raw, payload, op, after))
        value = F.when(unfit.isNull() & op.isin(*_ROWS), self.places.struct(after))
        return self._exactly(raw, self.places.columns(after), value, F.coalesce(unfit, fault))

    def describe(self) -> str:
        """The format with its columns."""
        return f"debezium_json({self.columns})"


def _fault(raw: Column, payload: Column, op: Column, after: Column) -> Column:
    """What is wrong with an event that could be read; null if nothing is."""
    fault = (
        F.when(op.isNull() & payload.isNotNull(), F.lit(_NO_OP))
        .when(op.isNull(), _unless_payload_is_null(raw, _NO_OP))
        .when(op.isin(*_ROWS) & after.isNull(), F.concat(F.lit("op "), op, F.lit(" without after")))
    )
    for refused, message in _REFUSED.items():
        fault = fault.when(op == refused, F.lit(message))
    known = op.isin(*_ROWS, _DELETE)
    return fault.when(~known, F.concat(F.lit("unknown op "), F.substring(op, 1, _SHOWN_CHARACTERS)))


def _unless_payload_is_null(raw: Column, message: str) -> Column:
    """The message, unless the object says that its payload is null: from_json does not tell that from having none.

    It reads the text once more, so callers ask only for objects whose payload was not found.
    """
    keys = F.json_object_keys(raw.cast("string"))
    return F.when(~F.coalesce(F.array_contains(keys, _PAYLOAD), F.lit(False)), F.lit(message))
