"""What a record says whose value is of another sort than its type: the path of the first one, and the value."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from lakestreams import ConnectJson, DebeziumJson, Json, JsonSchema
from lakestreams.formats.json import Declared

SCHEMA = "ms bigint, tags array<string>, n struct<a: int, b: array<struct<c: boolean>>>, m map<string, double>, x int"
EVERY = Json(SCHEMA, {"x": ["place", "at-x"]})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"ms": "5"}', 'ms: "5" is no bigint'),
        (b'{"ms": 99999999999999999999}', "ms: 99999999999999999999 is no bigint"),
        (b'{"ms": {"a": [1, 2.50]}}', 'ms: {"a":[1,2.50]} is no bigint'),
        (b'{"ms": "x", "ms": 5}', 'ms: "x" is no bigint'),
        (b'{"tags": "a"}', 'tags: "a" is no JSON array'),
        (b'{"n": []}', "n: [] is no JSON object"),
        (b'{"n": {"a": 1.5}}', "n.a: 1.5 is no int"),
        (b'{"n": {"b": [null, {"c": true}, {"c": "no"}]}}', 'n.b[2].c: "no" is no boolean'),
        (b'{"m": 1.5}', "m: 1.5 is no JSON object"),
        (b'{"m": {"a\\u001b": "x"}}', 'm["a\\u001B"]: "x" is no double'),
        (b'{"place": 5}', "place: 5 is no JSON object"),
        (b'{"place": {"at-x": "\xc3\xa9\\u001b"}}', 'place.at-x: "?\\u001B" is no int'),
        (b'{"ms": "' + b"a" * 100 + b'"}', f'ms: "{"a" * 59} is no bigint'),
        (b"[5]", "not a JSON object"),
        (b'{"ms": 5', f"does not fit {SCHEMA}"),
    ],
)
def test_the_path_and_the_value_are_told(raw: bytes, message: str) -> None:
    assert EVERY.objects().read(raw) == (None, message)


@pytest.mark.parametrize(
    ("how", "raw", "message"),
    [
        (JsonSchema("id int"), b'{"id": "5"}', 'id: "5" is no int'),
        (ConnectJson("id int"), b'{"payload": {"id": "5"}}', 'payload.id: "5" is no int'),
        (ConnectJson("id int"), b'{"payload": 5}', "payload: 5 is no JSON object"),
        (DebeziumJson("id int"), b'{"op": "c", "after": {"id": "5"}}', 'after.id: "5" is no int'),
        (DebeziumJson("id int"), b'{"op": "c", "after": "{\\"id\\": \\"5\\"}"}', 'after.id: "5" is no int'),
        (DebeziumJson("id int"), b'{"payload": {"op": "c", "after": []}}', "payload.after: [] is no JSON object"),
    ],
)
def test_inside_a_wrapper_the_path_begins_outside(how: Declared, raw: bytes, message: str) -> None:
    assert how.objects().read(raw) == (None, message)


def any_value(by: random.Random, depth: int = 3) -> Any:
    leaves = [None, True, 5, 1.5, "5", 2**70]
    inner = [lambda: any_value(by, depth - 1) for _ in range(by.randrange(3))]
    kind = by.randrange(6 if depth else 4)
    if kind == 4:
        return [one() for one in inner]
    if kind == 5:
        return {by.choice("abc"): one() for one in inner}
    return by.choice(leaves)


def test_no_whole_object_of_another_sort_is_left_without_a_path() -> None:
    by, reader, told = random.Random(5), EVERY.objects(), set()
    for _ in range(2_000):
        found = {name: any_value(by) for name in ("ms", "tags", "n", "m", "place") if by.random() < 0.4}
        error = reader.read(json.dumps(found).encode())[1]
        if error is not None:
            assert " is no " in error, (found, error)
            told.add(error.partition(":")[0])
    assert {"ms", "tags", "n", "n.a", "n.b", "m", "place"} <= told
