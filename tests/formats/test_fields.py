"""Columns under other names than their JSON fields have: read, written, described, and refused where they are no names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.formats.cases import told

from lakestreams import ConnectJson, DebeziumAvro, DebeziumJson, Json, MaxwellJson, RegistryJson
from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import struct_type
from lakestreams.testing.encode import encode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = b"\x00\x00\x00\x00\x07"
FORMATS = {
    "json": Json,
    "registry": RegistryJson,
    "connect": ConnectJson,
    "debezium": DebeziumJson,
    "maxwell": MaxwellJson,
    "documents": DebeziumAvro,
}

# column to its field
FLAT: dict[str, Any] = {
    "at": "@timestamp", "user_id": "user-id", "day": "Date Time", "dot": "a.b", "backquote": "we`ird", "quote": 'say "x"',
    "line": "a\nb", "backslash": "a\\nb", "empty": "", "digits": "2024", "sql": "a: int>, b<`;--", "size": "größe",
    "smile": "\U0001f600", "word": "select", "small": "id", "capital": "ID", "this": "that", "that": "this", "plain": "plain",
}  # fmt: skip
DEEP: dict[str, Any] = {"user_id": "user-id", "dot": "a.b", "word": "select"} | {
    "city": ["address", "city"], "zip": ["address", "post-code"], "deep": ["x", "b.c", "d"], "in_capitals": ["address", "CITY"],
    "who": "the-user", "tags": "the tags",
}  # fmt: skip
KINDS = {"who": "struct<x: bigint>", "tags": "array<string>"}


def case(fields: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The schema, an object that has more than is read, and the columns that it becomes."""
    columns = {name: {"who": {"x": 1}, "tags": ["a"]}.get(name, f"of {name}") for name in fields}
    content: dict[str, Any] = {"a": {"b": "no path"}, "Plain": "other capitals", "user_id": "another field"}
    for name, field in fields.items():
        *outer, last = [field] if isinstance(field, str) else field
        inner = content
        for one in outer:
            inner = inner.setdefault(one, {"more": 1})
        inner[last] = columns[name]
    return ", ".join(f"{name} {KINDS.get(name, 'string')}" for name in fields), content, columns


CASES = {"flat": FLAT, "deep": DEEP}


def raw_of(kind: str, content: dict[str, Any]) -> bytes:
    wrapped = {
        "connect": {"schema": None, "payload": content},
        "debezium": {"op": "c", "after": content},
        "maxwell": {"type": "insert", "data": content},
    }
    if kind == "documents":
        return DebeziumAvro("a int").event.encoded({"after": json.dumps(content, ensure_ascii=False), "op": "c"})
    text = json.dumps(wrapped.get(kind, content), ensure_ascii=False).encode()
    return PREFIX + text if kind == "registry" else text


@pytest.mark.parametrize("name", CASES)
def test_a_field_is_read_as_the_column_that_names_it(name: str) -> None:
    schema, content, columns = case(CASES[name])
    for kind, made in FORMATS.items():
        ((value, error),) = told(made(schema, CASES[name]), [raw_of(kind, content)])
        assert (value, error) == (columns, None), kind


@pytest.mark.parametrize("name", CASES)
def test_a_column_is_written_to_the_field_that_it_names(spark: SparkSession, name: str) -> None:
    schema, _, columns = case(CASES[name])
    given = Json(schema, CASES[name])
    frame = spark.createDataFrame([(columns,), (None,)], f"v {struct_type(given.fields)}")
    rows = frame.select(given.write(F.col("v")).alias("raw")).collect()
    full, null = sorted((row["raw"] for row in rows), key=lambda raw: raw is None)
    assert json.loads(full) == given.places.put(columns)
    assert null is None
    assert told(given, [bytes(full), None]) == [(columns, None), (None, None)]


def test_what_a_misfit_leaves_is_an_error_under_other_names_as_well() -> None:
    given = {"flat": Json("id int", {"id": "the-id"}), "inside": Json("id int", {"id": ["a", "id"]})}
    wanted = {
        b'{"the-id": "x"}': (True, False),
        b'{"a": {"id": "x"}}': (False, True),
        b'{"the-id": 1': (True, True),
        b"[]": (True, True),
        b'{"a": 5}': (False, True),
        b'{"the-id": 1} x': (True, True),
    }
    errors = [[error is not None for _, error in told(how, wanted)] for how in given.values()]
    assert dict(zip(wanted, zip(*errors, strict=True), strict=True)) == wanted


def test_in_tests_a_row_is_given_by_its_columns() -> None:
    how = Json("id int, city string", {"city": ["address", "the city"]})
    assert (
        encode({"id": 1, "city": "Rome", "other": 2}, how) == b'{"id": 1, "address": {"the city": "Rome"}, "other": 2}'
    )
    assert encode({"id": 1}, how) == b'{"id": 1}'
    connect = ConnectJson("id int", fields={"id": "the id"})
    assert encode({"id": 1}, connect) == b'{"schema": null, "payload": {"the id": 1}}'


def test_fields_are_part_of_what_a_format_is() -> None:
    own = Json("id int, at bigint", fields={"at": "@timestamp", "id": "id"})
    assert own == Json("id int, at bigint", {"at": ("@timestamp",)})
    assert own != Json("id int, at bigint")
    assert own.describe() == 'json(id int, at bigint from "@timestamp")'
    assert ConnectJson("c int", {"c": ["a", "b c"]}).describe() == 'connect_json(c int from ["a", "b c"])'
    assert RegistryJson("c int", {"c": "C"}).describe() == 'registry_json(c int from "C")'
    assert DebeziumJson("c int").describe() == "debezium_json(c int)"
    assert MaxwellJson("c int", {"c": "C"}).describe() == 'maxwell_json(c int from "C")'
    assert DebeziumAvro("c  INT", {"c": "C"}).describe() == 'debezium_avro of documents(c int from "C")'
    assert DebeziumAvro("c int", {"c": "C"}) == DebeziumAvro("c int", {"c": ["C"]}) != DebeziumAvro("c int")
    assert hash(own) == hash(Json("id int, at bigint", {"at": "@timestamp"}))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user": "x"}, "names 'user', which the schema does not have"),
        ({"a": "b"}, "columns a and b are both read from field"),
        ({"a": "x", "b": "x"}, "columns a and b are both read from field"),
        ({"a": ["b", "c"]}, "columns a and b are both read from field"),
        ({"a": ["x", "y"], "b": ["x"]}, "columns a and b are both read from field"),
        ({"a": "_ls_corrupt"}, "names that begin with _ls_ are taken"),
        ({"a": ["_LS_x", "y"]}, "names that begin with _ls_ are taken"),
        ({"a": []}, "no field name"),
        ({"a": 5}, "no field name"),
        ({"a": ["x", 5]}, "no field name"),
        ({5: "a"}, "no field name"),
        ("user-id", "no mapping"),
        ([("a", "b")], "no mapping"),
    ],
)
def test_fields_that_cannot_be_read_are_refused_where_they_are_written(fields: Any, said: str) -> None:
    for made in FORMATS.values():
        with pytest.raises(InvalidFormat, match=said):
            made("a int, b int", fields)
