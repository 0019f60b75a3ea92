"""Which construct of JSON Schema becomes which column, which are refused, and the schema of columns."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from lakestreams import JsonSchema
from lakestreams.errors import InvalidFormat

SELF: dict[str, Any] = {"$ref": "#/definitions/n"}


@pytest.mark.parametrize(
    ("said", "column"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "minLength": 3, "pattern": "a+", "default": "a"}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "integer"}, "bigint"),
        ({"type": "integer", "minimum": 0, "connect.type": "int32"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": ["null", "string"], "format": "date"}, "date"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}], "title": "n"}, "bigint"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "bigint"),
        ({"allOf": [{"$ref": "#/definitions/m"}]}, "struct<city: string not null>"),
        ({"enum": ["NEW", "PAID"]}, "string"),
        ({"enum": ["NEW", None]}, "string"),
        ({"enum": [1, 2]}, "bigint"),
        ({"const": True}, "boolean"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "array<string>"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "struct<a: string>"),
        ({"properties": {"a": {"type": "string"}}}, "struct<a: string>"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, "struct<a: string>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string, bigint>"),
        ({"$ref": "#/definitions/m"}, "struct<city: string not null>"),
        ({"$ref": "#/definitions/a~1b"}, "bigint"),
        ({"type": "array", "items": {"$ref": "#/definitions/m"}}, "array<struct<city: string not null>>"),
    ],
)  # fmt: skip
def test_a_construct_and_its_column(said: dict[str, Any], column: str) -> None:
    more = {"m": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}, "a/b": {"type": "integer"}}  # fmt: skip
    schema = {"type": "object", "properties": {"x": said}, "definitions": more}
    (field,) = JsonSchema(json.dumps(schema)).fields
    assert (field.name, field.member.declared, field.required) == ("x", column, False)


@pytest.mark.parametrize(
    ("said", "required", "wanted"),
    [
        ({"type": "string"}, ["x"], True),
        ({"type": "string"}, [], False),
        ({"type": ["string", "null"]}, ["x"], False),
        ({"enum": ["a", None]}, ["x"], False),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, ["x"], False),
    ],
)
def test_what_may_be_null(said: dict[str, Any], required: list[str], wanted: bool) -> None:
    (field,) = JsonSchema(json.dumps({"type": "object", "properties": {"x": said}, "required": required})).fields
    assert field.required is wanted


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "x: no type"),
        ({"type": []}, "x: no type"),
        ({"type": "null"}, "x: null alone"),
        ({"type": "any"}, 'x: the type "any"'),
        ({"type": ["string", "integer"]}, "x: one of several types: string, integer"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "x: oneOf of 2 types"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "x: no type"),
        ({"oneOf": []}, "x: oneOf without a list"),
        ({"anyOf": [{"type": "string"}], "allOf": [{"type": "string"}]}, "x: anyOf next to other words"),
        ({"type": "array"}, "x: an array without items"),
        ({"type": "array", "items": [{"type": "string"}]}, "x[]: "),
        ({"type": "array", "items": True}, "x[]: true is no schema"),
        ({"type": "array", "items": {"type": "string"}, "prefixItems": []}, "x: prefixItems"),
        ({"type": "object"}, "x: an object without properties"),
        ({"type": "object", "properties": {}, "additionalProperties": True}, "x: an object without properties"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}, "x: properties, and others"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "patternProperties": {}}, "x: patternProperties"),
        ({"type": "object", "properties": {"a": {}}}, "x.a: no type"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "a twice"),
        ({"type": "object", "properties": {"a-b": {"type": "string"}}}, "property x.a-b"),
        ({"type": "object", "properties": {"_ls_a": {"type": "string"}}}, "_ls_"),
        ({"type": "string", "if": {}}, "x: if"),
        ({"$ref": "other.json"}, "leads out of the schema"),
        ({"$ref": "#/definitions/none"}, "leads nowhere"),
        ({"$ref": "#/definitions/n"}, "a schema inside of itself"),
        ({"$ref": "#"}, "a schema inside of itself"),
        ({"enum": [[1]]}, "x: the constant [1]"),
    ],
)  # fmt: skip
def test_a_construct_that_no_column_has(said: dict[str, Any], message: str) -> None:
    definitions = {"n": {"type": "object", "properties": {"next": SELF}}}
    with pytest.raises(InvalidFormat) as told:
        JsonSchema(json.dumps({"type": "object", "properties": {"x": said}, "definitions": definitions}))
    assert message in told.value.message
    assert told.value.hint


@pytest.mark.parametrize("text", ["{", '{"type": "string"}', '{"type": "array", "items": {"type": "string"}}', "{}"])
def test_a_text_that_is_no_schema_of_an_object(text: str) -> None:
    with pytest.raises(InvalidFormat):
        JsonSchema(text)


def test_columns_with_other_names_than_their_properties() -> None:
    text = json.dumps({"type": "object", "properties": {"user-id": {"type": "string"}, "n": {"type": "integer"}}})
    with pytest.raises(InvalidFormat, match="user-id"):
        JsonSchema(text)
    how = JsonSchema(text, {"user": "user-id"})
    assert [field.name for field in how.fields] == ["user", "n"]
    assert how.describe().startswith('json_schema(user string from "user-id", n bigint; schema ')
    with pytest.raises(InvalidFormat, match="says itself"):
        JsonSchema(text, {"n": ["a", "n"]})
    with pytest.raises(InvalidFormat, match="does not have"):
        JsonSchema(text, {"user": "user-id", "other": "o"})


def test_the_schema_of_columns_takes_what_is_written() -> None:
    ddl = (
        "id bigint not null, note string, at timestamp, day date, ok boolean, n int, x double, price decimal(10, 2), "
        "raw binary, tags array<string>, of map<string, bigint>, to struct<city: string>"
    )
    how = JsonSchema(ddl, {"note": ["more", "note"]})
    said = json.loads(how.registered.texts[-1])
    jsonschema.Draft7Validator.check_schema(said)
    row = {"id": 1, "more": {"note": None}, "at": None, "tags": ["a", None], "of": {"a": None}, "to": {"city": None}, "n": 1,
           "day": "2024-03-01", "ok": True, "x": 0.5, "price": 1.25, "raw": "AA=="}  # fmt: skip
    jsonschema.validate(row, said)
    for wrong in ({**row, "id": None}, {**row, "n": "1"}, {**row, "to": {"city": 5}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, said)
    assert said["properties"]["at"] == {"type": ["string", "null"], "format": "date-time"}
    assert said["properties"]["more"]["properties"]["note"] == {"type": ["string", "null"]}
    again = JsonSchema(json.dumps({**said, "properties": {k: v for k, v in said["properties"].items() if k != "more"}}))
    assert [field.type for field in again.fields if field.name in ("id", "at", "tags", "of", "to")] == [
        "bigint",
        "timestamp",
        "array<string>",
        "map<string, bigint>",
        "struct<city: string>",
    ]
