"""Changes of a schema: what was written by one is read by the other, as the specification says, or more strictly."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats.protobuf.judge import framed, is_same, kind, read, row
from tests.formats.protobuf.test_records import STRICTER

from lakestreams.formats import Protobuf, RegistryProtobuf

IN = "message In { int32 a = 1; } message Wide { int64 a = 1; string b = 2; } enum E { A = 0; B = 1; } enum F { C = 0; B2 = 1; D = 2; }"
KEPT: Any = object()  # read as the library reads it
# Name, fields of the writer, values as keyword arguments, fields of the reader, and the row or what is wrong.
CHANGES: list[tuple[str, str, dict[str, Any], str, Any]] = [
    ("a field is added", "int32 a = 1;", {"a": 5}, "int32 a = 1; string b = 2;", {"a": 5, "b": ""}),
    ("an optional field is added", "int32 a = 1;", {"a": 5}, "int32 a = 1; optional string b = 2;", {"a": 5, "b": None}),
    ("a list is added", "int32 a = 1;", {"a": 5}, "int32 a = 1; repeated string b = 2;", {"a": 5, "b": []}),
    ("a map is added", "int32 a = 1;", {"a": 5}, "int32 a = 1; map<string, int32> b = 2;", {"a": 5, "b": {}}),
    ("a message is added", "int32 a = 1;", {"a": 5}, "int32 a = 1; In b = 2;", {"a": 5, "b": None}),
    ("a field is removed", "int32 a = 1; string b = 2;", {"a": 5, "b": "x"}, "int32 a = 1;", {"a": 5}),
    ("a list is removed", "int32 a = 1; repeated int32 b = 2;", {"a": 5, "b": [1]}, "int32 a = 1;", {"a": 5}),
    ("a map is removed", "int32 a = 1; map<string, int32> b = 2;", {"a": 5, "b": {"x": 1}}, "int32 a = 1;", {"a": 5}),
    ("a field is renamed", "int32 a = 1;", {"a": 5}, "int32 other = 1;", {"other": 5}),
    ("fields change places", "int32 a = 1; int32 b = 2;", {"a": 5, "b": 6}, "int32 b = 2; int32 a = 1;", {"b": 6, "a": 5}),
    ("a number is used again", "int32 a = 1;", {"a": 5}, "string b = 1;", "b: a number of varying length where"),
    ("int32 to int64", "int32 a = 1;", {"a": -5}, "int64 a = 1;", {"a": -5}),
    ("int64 to int32, small", "int64 a = 1;", {"a": -5}, "int32 a = 1;", {"a": -5}),
    ("int64 to int32, large", "int64 a = 1;", {"a": 2**40}, "int32 a = 1;", "a: 1099511627776 is no int32"),
    ("uint32 to uint64", "uint32 a = 1;", {"a": 5}, "uint64 a = 1;", KEPT),
    ("int32 to uint32, negative", "int32 a = 1;", {"a": -5}, "uint32 a = 1;", "a: 18446744073709551611 is no uint32"),
    ("bool to int32", "bool a = 1;", {"a": True}, "int32 a = 1;", {"a": 1}),
    ("int32 to bool", "int32 a = 1;", {"a": 1}, "bool a = 1;", {"a": True}),
    ("int32 to bool, another number", "int32 a = 1;", {"a": 5}, "bool a = 1;", "a: a boolean that is neither 0 nor 1"),
    ("sint32 to sint64", "sint32 a = 1;", {"a": -5}, "sint64 a = 1;", {"a": -5}),
    ("int32 to sint32: not compatible", "int32 a = 1;", {"a": 5}, "sint32 a = 1;", {"a": -3}),
    ("fixed32 to sfixed32", "fixed32 a = 1;", {"a": 5}, "sfixed32 a = 1;", {"a": 5}),
    ("fixed64 to sfixed64", "fixed64 a = 1;", {"a": 5}, "sfixed64 a = 1;", {"a": 5}),
    ("int32 to fixed32: not compatible", "int32 a = 1;", {"a": 5}, "fixed32 a = 1;", "a: a number of varying length where the declared schema has 4 bytes"),
    ("float to double: not compatible", "float a = 1;", {"a": 0.5}, "double a = 1;", "a: 4 bytes where the declared schema has 8 bytes"),
    ("string to bytes", "string a = 1;", {"a": "ä"}, "bytes a = 1;", {"a": "ä".encode()}),
    ("bytes to string", "bytes a = 1;", {"a": "ä".encode()}, "string a = 1;", {"a": "ä"}),
    ("bytes to string, no UTF-8", "bytes a = 1;", {"a": b"\xff"}, "string a = 1;", "a: not valid UTF-8"),
    ("a message to bytes", "In a = 1;", {"a": {"a": 5}}, "bytes a = 1;", {"a": b"\x08\x05"}),
    ("bytes to a message", "bytes a = 1;", {"a": b"\x08\x05"}, "In a = 1;", {"a": {"a": 5}}),
    ("a message to a wider one", "In a = 1;", {"a": {"a": 5}}, "Wide a = 1;", {"a": {"a": 5, "b": ""}}),
    ("a message to a narrower one", "Wide a = 1;", {"a": {"a": 5, "b": "x"}}, "In a = 1;", {"a": {"a": 5}}),
    ("enum to int32", "E a = 1;", {"a": 1}, "int32 a = 1;", {"a": 1}),
    ("int32 to enum", "int32 a = 1;", {"a": 1}, "E a = 1;", {"a": "B"}),
    ("a symbol that is not declared", "F a = 1;", {"a": 2}, "E a = 1;", {"a": "2"}),
    ("a symbol is renamed", "F a = 1;", {"a": 1}, "E a = 1;", {"a": "B"}),
    ("optional to implicit", "optional int32 a = 1;", {"a": 0}, "int32 a = 1;", {"a": 0}),
    ("implicit to optional", "int32 a = 1;", {"a": 0}, "optional int32 a = 1;", {"a": None}),
    ("one to a list", "int32 a = 1;", {"a": 5}, "repeated int32 a = 1;", {"a": [5]}),
    ("a text to a list", "string a = 1;", {"a": "x"}, "repeated string a = 1;", {"a": ["x"]}),
    ("a list of texts to one", "repeated string a = 1;", {"a": ["x", "y"]}, "string a = 1;", {"a": "y"}),
    ("a list of messages to one", "repeated In a = 1;", {"a": [{"a": 5}, {}]}, "In a = 1;", {"a": {"a": 5}}),
    ("a packed list to one", "repeated int32 a = 1;", {"a": [1, 2]}, "int32 a = 1;", "a: bytes with a length where"),
    ("packed to unpacked", "repeated int32 a = 1;", {"a": [1, 2]}, "repeated int32 a = 1 [packed = false];", {"a": [1, 2]}),
    ("unpacked to packed", "repeated int32 a = 1 [packed = false];", {"a": [1, 2]}, "repeated int32 a = 1;", {"a": [1, 2]}),
    ("a field into a new oneof", "optional int32 a = 1;", {"a": 5}, "oneof o { int32 a = 1; string b = 2; }", {"a": 5, "b": None}),
    ("two fields into a oneof", "int32 a = 1; string b = 2;", {"a": 5, "b": "x"}, "oneof o { int32 a = 1; string b = 2; }", {"a": None, "b": "x"}),
    ("a member is added to a oneof", "oneof o { int32 a = 1; }", {"a": 5}, "oneof o { int32 a = 1; string b = 2; }", {"a": 5, "b": None}),
    ("a member is removed from a oneof", "oneof o { int32 a = 1; string b = 2; }", {"b": "x"}, "oneof o { int32 a = 1; }", {"a": None}),
    ("a wrapper to a message of its form", "google.protobuf.Int32Value a = 1;", {"a": {"value": 5}}, "In a = 1;", {"a": {"a": 5}}),
    ("a map to a list of entries", "map<int32, string> a = 1;", {"a": {5: "x"}}, "repeated In a = 1;", {"a": [{"a": 5}]}),
]  # fmt: skip
_MESSAGES = "".join(
    f"message W{place} {{ {writer} }} message R{place} {{ {reader} }}"
    for place, (_, writer, _, reader, _) in enumerate(CHANGES)
)
TEXT = f'syntax = "proto3"; import "google/protobuf/wrappers.proto"; {IN} {_MESSAGES}'


@pytest.mark.parametrize("place", range(len(CHANGES)), ids=[name for name, *_ in CHANGES])
def test_a_change(place: int) -> None:
    _, _, values, _, wanted = CHANGES[place]
    raw = kind(TEXT, f"W{place}")(**values).SerializeToString(deterministic=True)
    value, error = read(Protobuf(TEXT, f"R{place}"), [raw])[0]
    if isinstance(wanted, str):
        assert value is None
        assert error is not None
        assert wanted in error
        return
    as_library = row(kind(TEXT, f"R{place}").FromString(raw))
    assert (value, error) == (as_library, None)
    if wanted is not KEPT:
        assert value == wanted


def _file(which: int) -> str:
    """All messages of the writers, or of the readers, each pair with one name."""
    messages = "".join(f"message M{place} {{ {change[which]} }}" for place, change in enumerate(CHANGES))
    return f'syntax = "proto3"; import "google/protobuf/wrappers.proto"; {IN} {messages}'


WRITERS, READERS = _file(1), _file(3)
BEFORE = 2  # messages before the first of these


def in_frame(place: int, raw: bytes, number: int) -> bytes:
    """Behind a registry's prefix and the place of the message, which is below 64."""
    index = 2 * (place + BEFORE)
    where = bytes((2, index)) if index < 0x80 else bytes((2, index & 0x7F | 0x80, index >> 7))
    return framed(where + raw, number)


def test_there_are_forty_changes() -> None:
    assert len(CHANGES) >= 40


@pytest.mark.parametrize("place", range(len(CHANGES)), ids=[name for name, *_ in CHANGES])
def test_both_schemas_in_one_batch_by_both(place: int) -> None:
    """As topics are while producers and consumers change one after the other."""
    _, _, values, _, wanted = CHANGES[place]
    message, (writer, reader) = f"M{place}", (kind(text, f"M{place}") for text in (WRITERS, READERS))
    old = writer(**values).SerializeToString(deterministic=True)
    own = reader() if isinstance(wanted, str) else reader.FromString(old)
    own.DiscardUnknownFields()
    new = own.SerializeToString(deterministic=True)
    batch = [in_frame(place, new, 2), in_frame(place, old, 1), None, in_frame(place, old, 1), in_frame(place, new, 2)]
    for text, cls, mine, others in ((READERS, reader, new, old), (WRITERS, writer, old, new)):
        how = RegistryProtobuf(text, message).knowing({1: (WRITERS,), 2: (READERS,)}, strict=True)
        found = read(how, batch)
        assert found[:2] == found[:2:-1]
        assert found[2] == (None, None)
        first, other = found[:2] if mine is new else found[1::-1]
        assert first[1] is None
        assert is_same(first[0], row(cls.FromString(mine)))
        if other[1] is not None:
            assert any(one in other[1] for one in STRICTER), other
        else:
            assert is_same(other[0], row(cls.FromString(others)))
        if mine is new:
            assert isinstance(wanted, str) == (other[1] is not None)
