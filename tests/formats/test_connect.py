"""What Kafka Connect writes as JSON: rows in a wrapper, Debezium's change events with and without it."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.cases import BAD, differences, read

from lakestreams import ConnectJson, DebeziumJson
from lakestreams.testing.encode import encode

DELETED = "deleted"  # stands for a null that the bytes tell
SOURCE = {
    "version": "3.0.0.Final",
    "connector": "postgresql",
    "db": "inventory",
    "table": "customers",
    "lsn": 34,
    "ts_ms": 1,
}
CONNECT_SCHEMA = {
    "type": "struct",
    "name": "inventory.customers.Envelope",
    "fields": [
        {"field": "after", "type": "struct", "fields": [{"field": "name", "type": "string"}]},
        {"field": "op", "type": "string"},
        {"field": "payload", "type": "string"},
    ],
}
ADA = {"name": "Ada", "city": "Rome"}


def event(**parts: Any) -> bytes:
    """A bare event as Debezium writes it; a part that is `...` is left out."""
    whole = {"before": None, "after": None, "source": SOURCE, "op": None, "ts_ms": 5, "transaction": None} | parts
    return json.dumps({name: part for name, part in whole.items() if part is not ...}).encode()


def wrapped(payload: bytes, schema: Any = CONNECT_SCHEMA) -> bytes:
    return b'{"schema": ' + json.dumps(schema).encode() + b', "payload": ' + payload + b"}"


EVENTS: dict[str, tuple[bytes, Any]] = {
    "create": (event(op="c", after={"id": 1, **ADA}), ADA),
    "read by a snapshot": (event(op="r", after=ADA), ADA),
    "update": (event(op="u", before={"id": 1, "name": "Eva", "city": "Oslo"}, after=ADA), ADA),
    "delete": (event(op="d", before=ADA), DELETED),
    "delete, nothing of before": (event(op="d", before=..., after=...), DELETED),
    "a document of MongoDB": (event(op="c", after='{"_id": {"$oid": "65"}, "name": "Ada", "city": "Rome"}'), ADA),
    "a document with signs that are escaped": (
        event(op="u", after='{"name": "A\\"d\\u00e4", "city": null}'), {"name": 'A"dä'}
    ),
    "a document that is broken": (event(op="c", after='{"name": "Ada"'), BAD),
    "a document that is no object": (event(op="c", after='"Ada"'), BAD),
    "a document with half of a pair": (event(op="c", after='{"name": "\\ud83d"}'), BAD),
    "a document with a value of another type": (event(op="c", after='{"visits": "5"}'), BAD),
    "a deleted document": (event(op="d", before='{"name": "Ada"}', after=None), DELETED),
    "a column that is null": (event(op="u", after={"name": "Ada", "city": None}), {"name": "Ada"}),
    "a row without our columns": (event(op="c", after={"id": 1}), {}),
    "columns named as the event's parts": (
        event(op="u", after={"name": "Ada", "op": "d", "after": None, "payload": None}), {"name": "Ada"}
    ),
    "more parts than we know": (event(op="u", after=ADA, ts_us=5, ts_ns=5, message={"prefix": "x"}), ADA),
    "create without after": (event(op="c"), BAD),
    "update without after": (event(op="u", before=ADA, after=...), BAD),
    "snapshot without after": (event(op="r", after=...), BAD),
    "truncate": (event(op="t"), BAD),
    "message": (event(op="m", before=..., after=..., message={"prefix": "x", "content": "aGk="}), BAD),
    "unknown op": (event(op="x", after=ADA), BAD),
    "op in capitals": (event(op="D", before=ADA), BAD),
    "empty op": (event(op="", after=ADA), BAD),
    "a whole story for an op": (event(op="once upon a time there was an op", after=ADA), BAD),
    "op that is no text": (event(op={"c": 1}, after=ADA), BAD),
    "null op": (event(after=ADA), BAD),
    "no op": (event(op=..., after=ADA), BAD),
    "a row without its event": (json.dumps(ADA).encode(), BAD),
    "empty object": (b"{}", BAD),
    "a number for a row": (event(op="c", after=5), BAD),
    "a text for a row": (event(op="c", after="Ada"), BAD),
    "an empty text for a row": (event(op="c", after=""), BAD),
    "an array for a row": (event(op="c", after=[ADA]), BAD),
    "another type in the row": (event(op="c", after={"visits": "5"}), BAD),
    "another type in what is not read": (event(op="u", before={"visits": "5"}, after=ADA), ADA),
    "cut off": (event(op="c", after=ADA)[:-1], BAD),
    "not an object": (b'["c"]', BAD),
}  # fmt: skip

DEBEZIUM_CASES: dict[str, tuple[bytes | None, Any]] = {
    "tombstone": (None, None),
    "tombstone of an older Connect": (wrapped(b"null", None), DELETED),
    "tombstone with a schema": (wrapped(b"null"), DELETED),
    "wrapper of nothing": (b'{"schema": null}', BAD),
    "payload before schema": (b'{"payload": ' + event(op="c", after=ADA) + b', "schema": null}', ADA),
    "blanks around": (b" \n" + event(op="c", after=ADA) + b"\r\n", ADA),
    "cut off behind the payload": (wrapped(event(op="d"))[:-1], BAD),
    "two events": (event(op="c", after=ADA) * 2, BAD),
    "event behind an event": (event(op="c", after=ADA) + b"," + event(op="d"), BAD),
    "empty": (b"", BAD),
    "blank": (b" ", BAD),
    "text": (b"op=c", BAD),
    "null root": (b"null", BAD),
    "invalid UTF-8 in before": (b'{"before": {"name": "\xff"}, "after": null, "op": "d"}', BAD),
    "what encode writes": (encode(ADA, DebeziumJson("name string")), ADA),
    **EVENTS,
    **{f"{name}, wrapped": (wrapped(data), want) for name, (data, want) in EVENTS.items()},
    **{f"{name}, no schema": (wrapped(data, None), want) for name, (data, want) in EVENTS.items()},
}
MESSAGES = {
    "truncate": "op t (truncate) deletes rows that it does not name; a table cannot follow it",
    "message": "op m (message) is not a change of a row",
    "unknown op": "unknown op x",
    "a whole story for an op": "unknown op once upon a time the",
    "update without after": "op u without after",
    "no op": "no op; not a Debezium change event",
    "wrapper of nothing": "no op; not a Debezium change event",
    "not an object": "not a JSON object",
    "invalid UTF-8 in before": "not valid UTF-8",
}


def test_debezium_json() -> None:
    given = DebeziumJson("name string, city string, visits bigint")
    nulls = {name for name, (_, want) in DEBEZIUM_CASES.items() if want == DELETED}
    found = read(given, {name: raw for name, (raw, _) in DEBEZIUM_CASES.items()}, nulls)
    wanted = {name: None if want == DELETED else want for name, (_, want) in DEBEZIUM_CASES.items()}
    assert differences(found, wanted) == {}
    assert {name: found[name][1] for name in MESSAGES} == MESSAGES
    assert found["truncate, wrapped"] == found["truncate"]
    assert found["another type in the row"][1] == 'after.visits: "5" is no bigint'
    assert found["cut off"][1] == f"not one JSON change event whose after fits {given.schema}"


def test_connect_json() -> None:
    cases: dict[str, tuple[bytes | None, Any]] = {
        "null": (None, None),
        "key": (wrapped(b'{"id": 1}'), {"id": 1}),
        "key of two columns": (wrapped(b'{"id": 1, "shop": "a"}'), {"id": 1, "shop": "a"}),
        "schema that is null": (wrapped(b'{"id": 1}', None), {"id": 1}),
        "payload alone": (b'{"payload": {"id": 1}}', {"id": 1}),
        "what encode writes": (encode({"id": 1}, ConnectJson("id bigint")), {"id": 1}),
        "empty payload": (wrapped(b"{}"), {}),
        "a column named payload": (wrapped(b'{"id": 1, "payload": {"id": 2}}'), {"id": 1}),
        "null payload": (wrapped(b"null"), DELETED),
        "null payload, no schema": (b'{"schema":null,"payload":null}', DELETED),
        "bare": (b'{"id": 1}', BAD),
        "schema alone": (wrapped(b"1").replace(b', "payload": 1', b""), BAD),
        "payload in capitals": (b'{"Payload": {"id": 1}}', BAD),
        "empty object": (b"{}", BAD),
        "number": (wrapped(b"1"), BAD),
        "another type": (wrapped(b'{"id": "1"}'), BAD),
        "array": (wrapped(b'[{"id": 1}]'), BAD),
        "cut off": (wrapped(b'{"id": 1}')[:-1], BAD),
        "words after": (wrapped(b'{"id": 1}') + b" x", BAD),
        "invalid UTF-8": (wrapped(b'{"shop": "\xff"}'), BAD),
        "empty": (b"", BAD),
    }
    nulls = {name for name, (_, want) in cases.items() if want == DELETED}
    found = read(ConnectJson("id bigint, shop string"), {name: raw for name, (raw, _) in cases.items()}, nulls)
    wanted = {name: None if want == DELETED else want for name, (_, want) in cases.items()}
    assert differences(found, wanted) == {}
    assert found["bare"][1] == "no payload; Json reads objects without Connect's wrapper"
    assert found["another type"][1] == 'payload.id: "1" is no bigint'
    assert found["array"][1] == 'payload: [{"id":1}] is no JSON object'
    assert found["cut off"][1] == "not one JSON object whose payload fits id bigint, shop string"
