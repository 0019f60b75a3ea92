"""Batches of Avro into bronze without a broker: which schemas are asked for and kept, and what a missing registry harms."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import claimed
from tests.engine.laid import _KAFKA
from tests.formats.avro.judge import framed, judged, written
from tests.registry.fake import Fake, fake

from lakestreams import RegistryAvro, StreamsBuilder
from lakestreams.engine.ingest import batches
from lakestreams.engine.ingest.bronze_rows import create_bronze
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import BronzeState
from lakestreams.engine.publish import kafka_sink, subjects
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import LakestreamsError, RegistryRefused, SchemaMissing
from lakestreams.evaluate.encode import encoded
from lakestreams.operators.records import KEY, TIME, VALUE
from lakestreams.registry import RegistryOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime
TIMED = {"type": "long", "logicalType": "timestamp-millis"}


def order(*more: dict[str, Any]) -> dict[str, Any]:
    fields = [{"name": "id", "type": "int"}, {"name": "at", "type": TIMED}, *more]
    return {"type": "record", "name": "Order", "fields": fields}


ONE, TWO = order(), order({"name": "tags", "type": {"type": "array", "items": "string"}})
READ = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "at", "type": TIMED}]}  # fmt: skip
AT = dt.datetime(2024, 3, 1, 12, 0, 0, 5000, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake() as server:
        server.says("GET /schemas/ids/1", (200, {"schema": '"string"'}))
        server.says("GET /schemas/ids/11", (200, {"schema": json.dumps(ONE)}))
        server.says("GET /schemas/ids/12", (200, {"schema": json.dumps(TWO)}))
        lost = [{"name": "lost", "subject": "lost", "version": 1}]
        server.says("GET /schemas/ids/13", (200, {"schema": json.dumps(TWO), "references": lost}))
        yield server


def asked(server: Fake) -> list[str]:
    found = [question.removeprefix("GET /schemas/ids/") for question, _, _ in server.asked if "lost" not in question]
    server.asked.clear()
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("small_input")
def test_schemas_are_asked_for_once_and_stand_in_the_ledger(spark: SparkSession, server: Fake, tmp_path: Path) -> None:
    builder = StreamsBuilder("orders")
    stream = builder.stream("Orders", key=RegistryAvro('"string"', "order_id"), value=RegistryAvro(json.dumps(READ)))
    stream.to_delta("silver.orders")
    topology = builder.build()
    (source,) = topology.sources
    lake, options = Lake(str(tmp_path)), RegistryOptions(server.url, {"max.retries": "0"})
    ledger = Ledger(lake, "orders")
    ledger.create(spark)
    create_bronze(spark, lake, "orders", source)
    ledger = claimed(spark, ledger, "first")
    offsets = iter(range(100))
    bronze_state = BronzeState(0, {})

    def ingest(schemas: WriterSchemas, *records: tuple[str, bytes]) -> None:
        nonlocal bronze_state
        rows = [
            (bytearray(framed(written("string", key))), bytearray(raw), "Orders", 0, next(offsets), AT, 0, None)
            for key, raw in records
        ]
        writer = batches.BatchWriter(ledger, topology.sources, str(tmp_path), bronze_state, schemas=schemas)
        writer(spark.createDataFrame(rows, _KAFKA).coalesce(1), 0)
        bronze_state = BronzeState.after(ledger.ingests(spark, 1))

    def bronze() -> dict[str, tuple[Any, ...]]:
        found = lake.bronze("orders", "Orders").read(spark)
        rows = found.select("k.order_id", "v.id", "v.tags", F.unix_millis("v.at"), "error.message").collect()
        return {row[0]: tuple(row[1:]) for row in rows}

    one = framed(written(ONE, {"id": 1, "at": AT}), 11)
    two = framed(written(TWO, {"id": 2, "at": AT, "tags": ["ä", "b"]}), 12)
    ms = 1_709_294_400_005
    first = WriterSchemas(options)
    ingest(
        first,
        ("a", one),
        ("b", two),
        ("c", framed(b"\x02", 99)),
        ("d", two[:-1]),
        ("e", b"{}"),
        ("x", framed(b"\2", 13)),
    )
    good = {"a": (1, [], ms, None), "b": (2, ["ä", "b"], ms, None)}
    bad = {"c": "schema 99: the registry has no Avro schema of this id", "d": "tags: the record ends within it",
           "e": "no registry prefix (0x00 and four bytes) before the record",
           "x": "schema 13 cannot be used: a schema refers to version 1 of subject lost, which the registry lacks"}  # fmt: skip
    assert bronze() == good | {key: (None, None, None, message) for key, message in bad.items()}
    assert sorted(asked(server)) == ["1", "11", "12", "13", "99"]
    assert {number: json.loads(one.texts[-1]) for number, one in ledger.schemas(spark).items()} == {
        1: "string",
        11: ONE,
        12: TWO,
    }

    # another run, the registry gone: what is known is read, and what is not ends the batch before anything is written
    ledger = replace(ledger, run_id="second")
    ledger = claimed(spark, replace(ledger, epoch=0), "second", ledger.history(spark))
    nobody = RegistryOptions("http://127.0.0.1:1", {"max.retries": "0"})
    gone = WriterSchemas(nobody)
    ingest(gone, ("f", one))
    assert bronze()["f"] == (1, [], ms, None)
    for schemas, message in ((gone, "LS308"), (WriterSchemas(), "LS310")):
        with pytest.raises(LakestreamsError, match=message):
            ingest(schemas, ("g", one), ("h", framed(b"\x02", 99)))
    assert "g" not in bronze()
    server.says("GET /schemas/ids/99", (200, {"schema": json.dumps(order({"name": "new", "type": "int"}))}))
    second = WriterSchemas(options)
    ingest(second, ("i", framed(written(ONE, {"id": 3, "at": AT}) + b"\x02", 99)))
    assert bronze()["i"] == (3, [], ms, None)
    assert asked(server) == ["99"]
    assert second._of_ledger(spark, ledger).keys() == ledger.schemas(spark).keys() == {1, 11, 12, 99}


def test_an_output_is_written_under_the_id_of_its_subject(spark: SparkSession, server: Fake) -> None:
    builder = StreamsBuilder("orders")
    stream = builder.stream("Orders", key=RegistryAvro('"string"', "order_id"), value=RegistryAvro(json.dumps(READ)))
    value = RegistryAvro(json.dumps(READ), register=True, subject="shop")
    stream.to_kafka("Out", key=RegistryAvro('"string"', "order_id"), value=value)
    topology = builder.build()
    options = RegistryOptions(server.url)
    with pytest.raises(SchemaMissing, match="no registry is declared"):
        subjects.prefixes(topology, None)
    with pytest.raises(SchemaMissing, match=r"subject Out-key does not have"):
        subjects.prefixes(topology, options)
    server.says("POST /subjects/Out-key", (200, {"id": 1}))
    verdict = "POST /compatibility/subjects/shop/versions/latest?verbose=true"
    server.says(verdict, (200, {"is_compatible": False, "messages": ["no default"]}), (200, {"is_compatible": True}))
    server.says("POST /subjects/shop/versions", (200, {"id": 258}))
    with pytest.raises(RegistryRefused, match=r"not compatible with subject shop(?s:.*)no default"):
        subjects.prefixes(topology, options)
    found = subjects.prefixes(topology, options)
    assert found == {"Out": {"key": b"\0\0\0\0\1", "value": b"\0\0\0\1\2"}}

    (sink,) = topology.kafka_sinks
    rows = spark.sql(
        f"SELECT named_struct('order_id', 'a') AS {KEY}, named_struct('id', 7L, 'tags', array('x'), 'at', "
        f"TIMESTAMP'2024-03-01 12:00:00.005+00:00') AS {VALUE}, 5L AS {TIME}"
    )
    raw = encoded(sink, rows, "event_time_ms")
    raw = raw.withColumns({side: kafka_sink._under(F.col(side), prefix) for side, prefix in found["Out"].items()})
    (row,) = raw.select("key", "value").collect()
    assert (bytes(row["key"][:5]), bytes(row["value"][:5])) == tuple(found["Out"].values())
    assert judged(bytes(row["key"][5:]), "string") == "a"
    assert judged(bytes(row["value"][5:]), READ) == {"id": 7, "tags": ["x"], "at": AT}
