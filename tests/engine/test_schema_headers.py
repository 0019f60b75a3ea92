"""Batches whose records name their schemas in headers, into bronze without a broker: asked for once, kept, read without a registry."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.engine.harness import claimed
from tests.engine.laid import _KAFKA
from tests.formats.avro.judge import framed, written
from tests.formats.test_headers import of_guid
from tests.registry.fake import fake

from lakestreams import JsonSchema, RegistryAvro, StreamsBuilder
from lakestreams.engine.ingest import batches
from lakestreams.engine.ingest.bronze_rows import create_bronze
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import BronzeState
from lakestreams.engine.runtime.lake import Lake
from lakestreams.formats.writers import AVRO, JSON, Written
from lakestreams.registry import RegistryOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
KEY, VALUE = "__key_schema_id", "__value_schema_id"
OF_KEY, OF_VALUE, LOST = UUID(int=1), UUID(int=2), UUID(int=3)
Record = tuple[str, bytes, bytes, Sequence[tuple[str, bytes]]]


@pytest.mark.slow
@pytest.mark.usefixtures("small_input")
def test_schemas_named_in_headers_are_asked_for_once_and_stand_in_the_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder("orders")
    builder.stream("Orders", key=RegistryAvro('"string"', "order"), value=JsonSchema("id bigint")).to_delta("silver.o")
    topology = builder.build()
    (source,) = topology.sources
    lake, ledger = Lake(str(tmp_path)), Ledger(Lake(str(tmp_path)), "orders")
    ledger.create(spark)
    create_bronze(spark, lake, "orders", source)
    ledger = claimed(spark, ledger, "first")
    offsets, bronze_state = iter(range(100)), BronzeState(0, {})

    def ingest(schemas: WriterSchemas, *records: Record) -> None:
        nonlocal bronze_state
        rows = [
            (bytearray(key), bytearray(value), "Orders", 0, next(offsets), AT, 0, [(name, bytearray(raw)) for name, raw in more])
            for _, key, value, more in records
        ]  # fmt: skip
        writer = batches.BatchWriter(ledger, topology.sources, str(tmp_path), bronze_state, schemas=schemas)
        writer(spark.createDataFrame(rows, _KAFKA).coalesce(1), 0)
        bronze_state = BronzeState.after(ledger.ingests(spark, 1))

    def bronze() -> dict[str, tuple[Any, ...]]:
        rows = lake.bronze("orders", "Orders").read(spark).select("k.order", "offset", "v.id", "error.*").collect()
        return {row[0] or str(row[1]): tuple(row[2:]) for row in rows}

    def key(name: str) -> bytes:
        return written("string", name)

    value, by_guid, by_id = b'{"id": 5}', (VALUE, of_guid(OF_VALUE)), (VALUE, b"\0\0\0\0\x0b")
    with fake() as server:
        server.says(f"GET /schemas/guids/{OF_KEY}", (200, {"schema": '"string"'}))
        server.says(f"GET /schemas/guids/{OF_VALUE}", (200, {"schema": "{}", "schemaType": "JSON"}))
        server.says("GET /schemas/ids/10", (200, {"schema": '"string"'}))
        server.says("GET /schemas/ids/11", (200, {"schema": "{}", "schemaType": "JSON"}))
        first = WriterSchemas(RegistryOptions(server.url, {"max.retries": "0"}))
        ingest(
            first,
            ("a", key("a"), value, [(KEY, of_guid(OF_KEY)), by_guid]),
            ("b", framed(key("b"), 10), framed(value, 11), []),
            ("c", framed(key("c"), 10), value, [("trace", b"1"), by_id]),
            ("d", key("d"), value, [(KEY, of_guid(OF_KEY)), (VALUE, of_guid(LOST))]),
            ("e", key("e"), value, [(KEY, of_guid(OF_KEY)), (VALUE, b"\7")]),
            ("5", key("f"), value, [(KEY, b"7"), by_guid]),
        )
        neither = "is neither 0x00 and an id of four bytes nor 0x01 and a GUID of sixteen"
        assert bronze() == {
            **dict.fromkeys("abc", (5, None, None)),
            "d": (None, "MALFORMED_VALUE", f"schema {LOST}: the registry has no JSON schema of this GUID"),
            "e": (None, "MALFORMED_VALUE", f"header {VALUE}: 0x07 {neither}"),
            "5": (5, "MALFORMED_KEY", f"header {KEY}: 0x37 {neither}"),
        }
        asked = sorted(question for question, _, _ in server.asked)
        assert asked == sorted(
            [f"GET /schemas/guids/{one}" for one in (OF_KEY, OF_VALUE, LOST, UUID(int=0))]
            + ["GET /schemas/ids/10", "GET /schemas/ids/11"]
        )

        # a registry that has no such path
        for one in (LOST, UUID(int=0)):
            server.says(f"GET /schemas/guids/{one}", (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
        ingest(first, ("g", framed(key("g"), 10), value, [(VALUE, of_guid(LOST))]))
        said = bronze()["g"][2]
        assert said.startswith(f"schema {LOST} cannot be used: this registry does not look schemas up by GUID")

    assert ledger.schemas(spark) == {
        10: Written(AVRO, ('"string"',)),
        11: Written(JSON, ("{}",)),
        str(OF_KEY): Written(AVRO, ('"string"',)),
        str(OF_VALUE): Written(JSON, ("{}",)),
    }
    ledger = replace(ledger, run_id="second")
    ledger = claimed(spark, replace(ledger, epoch=0), "second", ledger.history(spark))
    gone = WriterSchemas(RegistryOptions("http://127.0.0.1:1", {"max.retries": "0"}))
    ingest(gone, ("h", key("h"), value, [(KEY, of_guid(OF_KEY)), by_guid]))
    assert bronze()["h"] == (5, None, None)
