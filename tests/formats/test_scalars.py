"""Formats of one number, UUID or JSON scalar: what each record becomes, and that what is written is read again."""

from __future__ import annotations

import random
import struct
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.formats.cases import BAD, differences, read, told
from tests.partitioning.test_kafka_default import partition as murmur2_partition

from lakestreams import Int, JsonScalar, Short, Uuid
from lakestreams.errors import InvalidFormat, InvalidOption
from lakestreams.formats import WritableFormat
from lakestreams.formats.base import struct_type
from lakestreams.partitioning.kafka_default import partition_of
from lakestreams.testing.encode import encode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.formats import Format

ID = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
NUMBERS = {Int("n"): (">i", 31), Short("n"): (">h", 15)}
TEXTS = ("", "a", "ä\U0001f600", 'say "x"', "a\\b", "\n\t\x00", "{}", "null", "5", "x" * 20_000, '\\" ' * 3_000)
SCALARS: dict[Format, dict[bytes | None, Any]] = {
    JsonScalar("id bigint"): {
        b"5": 5, b"-5": -5, b"0": 0, b"-0": 0, b" 5\n": 5, b"9223372036854775807": 2**63 - 1, b"null": None, None: None,
        b"9223372036854775808": BAD, b"5.0": BAD, b"5e0": BAD, b"05": BAD, b"+5": BAD, b"": BAD, b" ": BAD, b'"5"': BAD,
        b"5 6": BAD, b"5,6": BAD, b"[5]": BAD, b'{"id": 5}': BAD, b"true": BAD, b"NaN": BAD, b"\xff": BAD, b"5\x00": BAD,
        b"\xc2\xa05": BAD, b"5]": BAD, b"nul": BAD, b"--5": BAD, b"0x5": BAD, b"\xd9\xa5": BAD,
    },
    JsonScalar("id int"): {b"2147483647": 2**31 - 1, b"-2147483648": -(2**31), b"2147483648": BAD, b"1" * 400: BAD},
    JsonScalar("id string"): {
        b'"a"': "a", b'""': "", b'"5"': "5", b' "a" ': "a", b'"null"': "null", b"null": None, b'"\\u00e4\\n\\\\\\""': 'ä\n\\"',
        b'"\\ud83d\\ude00"': "\U0001f600", b'"{\\"v\\": 1}"': '{"v": 1}', b"a": BAD, b"'a'": BAD, b'"a': BAD, b'"a"b"': BAD,
        b'"a", "b"': BAD, b'"a"} {"v":"b"': BAD, b'"\\ud800"': BAD, b'"\\ude00\\ud83d"': BAD, b'"\\q"': BAD, b'"\n"': BAD,
        b'"\xff"': BAD, b"5": BAD, b"true": BAD, b'["a"]': BAD, b'{"id": "a"}': BAD, b"": BAD, b'"\\"': BAD,
    },
    Uuid("id"): {
        ID.bytes: str(ID), b"\x00" * 16: "00000000-0000-0000-0000-000000000000", b"\xff" * 16: str(uuid.UUID(int=2**128 - 1)),
        None: None, b"": BAD, b"\x00" * 15: BAD, b"\x00" * 17: BAD, str(ID).encode(): BAD,
    },
    Int("id"): {b"\x00\x00\x00\x05": 5, b"": BAD, b"5": BAD, b"\x00" * 3: BAD, b"\x00" * 5: BAD, b"\x00" * 8: BAD, None: None},
    Short("id"): {b"\x00\x05": 5, b"": BAD, b"5": BAD, b"\x00" * 3: BAD, b"\x00" * 4: BAD, None: None},
}  # fmt: skip


def test_each_record_is_the_value_that_was_written_or_an_error() -> None:
    for how, cases in SCALARS.items():
        raw = {repr(one): one for one in cases}
        wanted = {
            repr(one): BAD if value is BAD else value if value is None else {"id": value}
            for one, value in cases.items()
        }
        found = read(how, raw, nulls=[repr(b"null")])
        assert differences(found, wanted) == {}, how.describe()


def test_numbers_in_bytes_are_those_of_the_clients() -> None:
    chance = random.Random(27)
    for how, (form, bits) in NUMBERS.items():
        edges = [0, 1, -1, 2**bits - 1, -(2**bits), 2 ** (bits - 1), 255, -256]
        numbers = [*edges, *(chance.randint(-(2**bits), 2**bits - 1) for _ in range(100))]
        found = read(how, {str(number): struct.pack(form, number) for number in numbers})
        assert found == {str(number): ({"n": number}, None) for number in numbers}
        assert [encode(number, how) for number in numbers] == [struct.pack(form, number) for number in numbers]
        for beyond in (2**bits, -(2**bits) - 1, True, "5"):
            with pytest.raises(InvalidOption, match="cannot be written as"):
                encode(beyond, how)


def test_what_is_written_is_read_again_and_is_what_tests_write(spark: SparkSession) -> None:
    values: dict[WritableFormat, list[Any]] = {
        Int("id"): [0, -1, 2**31 - 1, -(2**31)], Short("id"): [0, -1, 2**15 - 1, -(2**15)],
        Uuid("id"): [str(ID), str(uuid.UUID(int=0))], JsonScalar("id bigint"): [0, -1, 2**63 - 1, -(2**63)],
        JsonScalar("id int"): [5], JsonScalar("id string"): list(TEXTS),
    }  # fmt: skip
    for how, own in values.items():
        frame = spark.createDataFrame(
            [(place, {"id": one}) for place, one in enumerate([*own, None])] + [(-1, None)],
            f"place int, v {struct_type(how.fields)}",
        )
        rows = frame.withColumn("raw", how.write(F.col("v"))).select("place", "raw").collect()
        written = {row["place"]: row["raw"] and bytes(row["raw"]) for row in rows}
        again = told(how, [written[place] for place in range(len(own))])
        assert again == [({"id": one}, None) for one in own], how.describe()
        if not isinstance(how, JsonScalar):
            assert [written[place] for place in range(len(own))] == [encode(one, how) for one in own]
        assert written[len(own)] is written[-1] is None


@pytest.mark.parametrize(
    "schema", ["", "id", "id double", "id bigint, b int", "a-b string", "id struct<x: int>", "id decimal(9, 2)"]
)
def test_a_scalar_is_one_column_of_few_types(schema: str) -> None:
    with pytest.raises(InvalidFormat):
        JsonScalar(schema)


def test_a_key_of_four_bytes_has_the_partition_that_clients_give_it(spark: SparkSession) -> None:
    numbers = [0, 1, -1, 77, 2**31 - 1, -(2**31)]
    rows = spark.createDataFrame([({"id": number},) for number in numbers], "k struct<id: int>")
    found = rows.select(F.col("k.id"), partition_of(rows, "k", 7)).collect()
    assert {row[0]: row[1] for row in found} == {one: murmur2_partition(struct.pack(">i", one), 7) for one in numbers}
