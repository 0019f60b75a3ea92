"""Change events of Maxwell: which row each leaves."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from tests.formats.cases import BAD, differences, read, told

from lakestreams import Json, MaxwellJson
from lakestreams.testing.encode import encode

DELETED = "deleted"  # stands for a null that the bytes tell
ADA = {"name": "Ada", "city": "Rome"}


def event(kind: Any, **parts: Any) -> bytes:
    """An event as Maxwell writes it; a part that is `...` is left out."""
    whole = {
        "database": "shop",
        "table": "customers",
        "type": kind,
        "ts": 1_449_786_310,
        "xid": 940_752,
        "commit": True,
    }
    return json.dumps({name: part for name, part in (whole | parts).items() if part is not ...}).encode()


CASES: dict[str, tuple[bytes | None, Any]] = {
    "insert": (event("insert", data={"id": 1, **ADA}), ADA),
    "update": (event("update", data={"id": 1, **ADA}, old={"city": "Oslo"}), ADA),
    "a row of a bootstrap": (event("bootstrap-insert", data=ADA), ADA),
    "delete": (event("delete", data={"id": 1, **ADA}), DELETED),
    "delete, nothing of the row": (event("delete"), DELETED),
    "tombstone": (None, None),
    "a column that is null": (event("update", data={"name": "Ada", "city": None}), {"name": "Ada"}),
    "columns named as the event's parts": (event("insert", data={**ADA, "type": "delete", "data": None}), ADA),
    "start of a bootstrap": (event("bootstrap-start", data={}), BAD),
    "end of a bootstrap": (event("bootstrap-complete", data={}), BAD),
    "a table that is changed": (event("table-alter", sql="ALTER TABLE customers", data=...), BAD),
    "insert without data": (event("insert"), BAD),
    "data that is no object": (event("insert", data=[ADA]), BAD),
    "another type in the row": (event("insert", data={"visits": "5"}), BAD),
    "no type": (event(...), BAD),
    "type that is no text": (event({"insert": 1}, data=ADA), BAD),
    "a row without its event": (json.dumps(ADA).encode(), BAD),
    "cut off": (event("insert", data=ADA)[:-1], BAD),
    "empty": (b"", BAD),
    "no UTF-8": (b'{"type": "delete", "data": {"name": "\xff"}}', BAD),
    "what encode writes": (encode(ADA, MaxwellJson("name string")), ADA),
}
MESSAGES = {
    "start of a bootstrap": "type bootstrap-start is not a change of a row",
    "a table that is changed": "type table-alter is not a change of a row",
    "insert without data": "type insert without data",
    "no type": "no type; not an event of Maxwell",
    "cut off": "not one JSON event whose data fits name string, city string, visits bigint",
}


def test_what_each_event_leaves() -> None:
    given = MaxwellJson("name string, city string, visits bigint")
    nulls = {name for name, (_, want) in CASES.items() if want == DELETED}
    found = read(given, {name: raw for name, (raw, _) in CASES.items()}, nulls)
    wanted = {name: None if want == DELETED else want for name, (_, want) in CASES.items()}
    assert differences(found, wanted) == {}
    assert {name: found[name][1] for name in MESSAGES} == MESSAGES
    half = event("insert", data=ADA).replace(b'"insert"', b'"\\ud800"')
    assert told(given, [half]) == [(None, "type ? is not a change of a row")]
    assert told(given, [half.replace(b"\\ud800", b"x" * 50)]) == [(None, f"type {'x' * 20} is not a change of a row")]


def test_what_a_step_that_reads_columns_at_once_makes_of_many() -> None:
    given = MaxwellJson("id bigint, price decimal(8, 2), listed date, seen timestamp_ntz")
    row = {"price": 19.5, "listed": "2026-03-01", "seen": "2026-03-01 12:00:00.5"}
    raw = [event("insert", data={"id": place, **row}) for place in range(300)]
    raw[7], raw[8] = event("delete", data={"id": 7, **row}), event("rename", data={"id": 8, **row})
    found = told(given, raw)
    assert (found[7], found[8]) == ((None, None), (None, "type rename is not a change of a row"))
    good = [one for place, one in enumerate(found) if place not in (7, 8)]
    assert {error for _, error in good} == {None}
    assert [value["id"] for value, _ in good] == [place for place in range(300) if place not in (7, 8)]
    assert {value["price"] for value, _ in good} == {Decimal("19.50")}


def test_keys_in_both_of_its_forms() -> None:
    key = Json("id bigint", fields={"id": "pk.id"})
    assert told(key, [b'{"database":"shop","table":"customers","pk.id":7}']) == [({"id": 7}, None)]
    array = b'["shop","customers",[{"id":7}]]'
    assert told(key, [array]) == [(None, "not a JSON object")]
