"""A declared field that no record has is told once, with the name that is nearest."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.test_bronze_rows import KAFKA, NOW

from lakestreams import Json, RegistryJson, StreamsBuilder, Text
from lakestreams.engine.ingest import unseen
from lakestreams.engine.ingest.bronze_rows import bronze_rows
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.formats.json import Declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "user_id string, amount double, note string"


def sample(records: list[dict[str, Any]], how: Declared) -> list[tuple[list[bool], str]]:
    names = [path[-1] for path in how.places.paths]
    return [([record.get(name) is not None for name in names], json.dumps(record)) for record in records]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("userId", "userId"),
        ("UserID", "UserID"),
        ("user-id", "user-id"),
        ("usr_id", "usr_id"),
        ("customer", None),
        ("user_id", ""),
    ],
)
def test_a_declared_field_that_never_appears_is_told_with_the_nearest_name(written: str, told: str | None) -> None:
    how = Json(SCHEMA)
    found = unseen.absent(how, sample([{written: "ada", "amount": 1.5, "note": None}] * 20, how))
    assert len(found) == (told != "")
    for one in found:
        assert "'user_id', so user_id is null" in one
        assert ("did you mean" in one) == (told is not None)
        assert told is None or f"fields: {{user_id: {told}}}" in one


def test_a_field_that_is_there_as_null_or_in_a_few_records_only_is_no_news() -> None:
    how = RegistryJson(SCHEMA)
    records: list[dict[str, Any]] = [{"user_id": "ada", "note": None}] * 30 + [{"amount": 1.0}]
    assert unseen.absent(how, sample(records, how)) == []


def test_of_few_records_and_of_records_without_any_declared_field_nothing_is_said() -> None:
    how = Json(SCHEMA)
    assert unseen.absent(how, sample([{"userId": "a", "amount": 1.0}] * (unseen.LEAST - 1), how)) == []
    assert unseen.absent(how, sample([{"other": 1}] * 50, how)) == []


def test_a_field_with_another_name_is_looked_for_under_that() -> None:
    how = Json(SCHEMA, fields={"user_id": ["user", "ident"]})
    (told,) = unseen.absent(how, sample([{"user": {"Ident": "ada"}, "amount": 1.0, "note": "x"}] * 20, how))
    assert "'ident'" in told
    assert "did you mean 'Ident'?" in told


def test_the_records_of_a_cycle_are_looked_at_in_bronze(spark: SparkSession) -> None:
    builder = StreamsBuilder("p")
    builder.stream("t", key=Text("k"), value=Json("user_id string, amount double")).to_delta("silver.t")
    (source,) = builder.build().sources
    sent = [b'{"userId": "ada", "amount": 1.5}'] * 25 + [b"{", None]
    time = dt.datetime.fromtimestamp(NOW / 1_000, dt.UTC)
    rows = [
        (bytearray(b"k"), None if raw is None else bytearray(raw), "t", 0, place, time, 0, None)
        for place, raw in enumerate(sent)
    ]
    bronze = bronze_rows(spark.createDataFrame(rows, KAFKA), source, {}, 1, NOW)
    lake = SimpleNamespace(bronze=lambda *_: SimpleNamespace(read=lambda _: bronze))
    ledger: Any = SimpleNamespace(lake=lake, pipeline="p")
    plan = Plan(1, "f", (Range("t", 0, 0, len(sent), records=len(sent)),), {}, 1, 1)
    (told,) = unseen.fields(spark, ledger, source, plan)
    assert told.startswith("t: none of the first 25 records has the field 'user_id'")
    assert "did you mean 'userId'?" in told
