"""The two formats as values: equal, described, taken to workers; and what they refuse to be."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from tests.formats.avro.judge import framed

from lakestreams import Avro, RegistryAvro
from lakestreams.errors import InvalidFormat, InvalidOption
from lakestreams.formats import Format, WritableFormat
from lakestreams.formats.avro.formats import decoder
from lakestreams.testing.encode import encode

ORDER = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
TEXT = json.dumps(ORDER)


def test_values_and_words() -> None:
    one, other = Avro(TEXT), RegistryAvro(TEXT, subject="shop-value")
    assert one == Avro(TEXT)
    assert one != Avro(TEXT, written_by='"long"')
    assert other == other.knowing({7: (TEXT,)}, strict=True)
    assert hash(other) == hash(RegistryAvro(TEXT, subject="shop-value"))
    assert isinstance(one, Format) and isinstance(other, WritableFormat)  # noqa: PT018
    assert pickle.loads(pickle.dumps(other.knowing({7: (TEXT,)}, strict=True)))._known == ((7, (TEXT,)),)
    assert one.describe().startswith("avro(id bigint not null, note string; schema ")
    assert one.describe() == Avro(json.dumps(ORDER, indent=2)).describe()
    assert one.describe() != Avro(TEXT.replace('"R"', '"Q"')).describe()
    assert other.describe().startswith("registry_avro of shop-value(")
    assert [field.required for field in one.fields] == [True, False]
    with pytest.raises(InvalidFormat):
        Avro("strin")


def test_what_tests_pipe_is_read_as_itself() -> None:
    row = {"id": 5, "note": "a"}
    assert encode(row, Avro(TEXT)) == b"\x0a\x02\x02a"
    how = RegistryAvro(TEXT)
    raw = encode(row, how)
    found = decoder(TEXT, "value", how._written(), how._is_strict()).decode(pa.array([raw, framed(b"", 7), None]))
    assert found.values.to_pylist() == [row, None, None]
    assert found.errors.to_pylist() == [None, "schema 7: the registry has no Avro schema of this id", None]
    assert encode({"id": 5}, RegistryAvro('"long"', "id")) == encode(5, RegistryAvro('"long"', "id")) == framed(b"\x0a")
    assert encode({"a": 1}, Avro('{"type": "map", "values": "long"}')) == b"\x02\x02a\x02\x00"
    for wrong in ({"id": 5}, {"id": "5", "note": None}, 5):
        with pytest.raises(InvalidOption):
            encode(wrong, how)


def test_a_schema_that_the_registry_took_and_we_do_not_refuses_its_records_alone() -> None:
    known = ((1, ('"long"',)), (2, ("{",)), (3, ('{"type": "record"}',)))
    found = decoder('"long"', "id", known, strict=True).decode(pa.array([framed(b"\x0a", one) for one in (1, 2, 3)]))
    first, second, third = found.errors.to_pylist()
    assert first is None
    assert second.startswith("schema 2 cannot be used: the Avro schema is no JSON")
    assert third.startswith("schema 3 cannot be used: the Avro schema cannot be used")
