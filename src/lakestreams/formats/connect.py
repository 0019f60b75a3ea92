"""JSON that Kafka Connect writes: rows in the JsonConverter's wrapper, and the change events of Debezium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestreams.formats.changes import ROWS, wrong
from lakestreams.formats.json import Declared
from lakestreams.formats.jsontext import parsed
from lakestreams.formats.kinds import Leaf, Member, Struct
from lakestreams.formats.objects import Located, Objects

if TYPE_CHECKING:
    from lakestreams.formats.objects import Row

_PAYLOAD, _OP, _AFTER = "payload", "op", "after"
_BARE = "no payload; Json reads objects without Connect's wrapper"
_NO_OP = "no op; not a Debezium change event"


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

    def objects(self) -> Objects:
        """What reads single records."""
        root = Struct((Member(_PAYLOAD, _PAYLOAD, self.places.shape),))
        unfit = f"not one JSON object whose payload fits {self.schema}"
        return Objects(self.places.fields, self.places.paths, root, _payload, unfit, _in_payload)

    def describe(self) -> str:
        """The format with its columns."""
        return f"connect_json({self.columns})"


@dataclass(frozen=True, init=False)
class DebeziumJson(Declared):
    """The row of a Debezium change event in JSON, bare or in the wrapper of Connect's JsonConverter; for tables.

    Creates, updates and snapshot reads (op `c`, `u`, `r`) give the row in `after`, read by the declared schema as `Json`
    reads an object. Deletes (op `d`) give null, as tombstones do: bytes that are null, and the wrapper with a null
    payload that older versions of Connect write for them. Truncates (`t`), messages (`m`), any other op, a row's change
    without `after` and what is no change event are errors. MongoDB's `after` is a text that holds the row as an object. `before`, `source` and the envelope's times are not read.

    Args:
        schema: Spark DDL of the row, such as `name string, city string`.
        fields: column to field of the row where the names differ, as for `Json`.
    """

    def objects(self) -> Objects:
        """What reads single records."""
        event = (Member(_OP, _OP, Leaf("string", "string")), Member(_AFTER, _AFTER, self.places.shape))
        root = Struct((*event, Member(_PAYLOAD, _PAYLOAD, Struct(event))))
        unfit = f"not one JSON change event whose after fits {self.schema}"
        return Objects(self.places.fields, self.places.paths, root, _change, unfit, _after, _document)

    def describe(self) -> str:
        """The format with its columns."""
        return f"debezium_json({self.columns})"


def _payload(event: dict[str, Any], shaped: dict[str, Any]) -> tuple[Row, str | None]:
    payload = shaped[_PAYLOAD]
    return payload, None if payload is not None or _PAYLOAD in event else _BARE


def _in_payload(event: dict[str, Any]) -> Located:
    return Located(event.get(_PAYLOAD))


def _after(change: dict[str, Any]) -> Located:
    """The row of an event that stands bare, or wrapped with nothing of another event next to it."""
    event = change.get(_PAYLOAD, change)
    if not isinstance(event, dict) or (event is not change and {_OP, _AFTER} & change.keys()):
        return Located(None)
    return Located(event.get(_AFTER), event.get(_OP), ROWS)


def _document(document: Any) -> str | None:
    """The text that MongoDB's connector writes for a row; the row takes its place."""
    event = document.get(_PAYLOAD, document) if isinstance(document, dict) else None
    text = event.get(_AFTER) if isinstance(event, dict) else None
    if not isinstance(event, dict) or not isinstance(text, str):
        return None
    event[_AFTER] = parsed(text)
    return text


def _change(document: dict[str, Any], shaped: dict[str, Any]) -> tuple[Row, str | None]:
    """The row after the change, None where it was deleted, or what is wrong with the event."""
    payload = shaped[_PAYLOAD]
    event = shaped if payload is None else payload
    op, after = event[_OP], event[_AFTER]
    if op is None:
        return None, None if payload is None and _PAYLOAD in document else _NO_OP
    said = wrong(op, has_row=after is not None)
    return (after if op in ROWS else None), said
