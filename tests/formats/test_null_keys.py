"""A key of whose declared columns none has a value is a null key, in every format; one with some of them is a key."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lakestreams import ConnectJson, Json, Long, RegistryJson, Text
from lakestreams.engine.ingest.bronze_rows import typed_rows
from lakestreams.topology.endpoints import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.formats import Format

PREFIX = b"\x00\x00\x00\x00\x07"
ONE, TWO, NESTED = Json("id bigint"), Json("a int, b string"), Json("id bigint, n struct<x: int>")
OTHER = Json("id bigint", {"id": "the-id"})
WRAPPED = "in Connect's wrapper"
# Format and bytes to the key's columns, None for a null key, or the beginning of the error.
KEYS: tuple[tuple[Format, bytes | None, Any], ...] = (
    (ONE, b'{"id": 1}', {"id": 1}), (ONE, b'{"id": 0}', {"id": 0}), (ONE, None, None), (ONE, b"{}", None),
    (ONE, b'{"id": null}', None), (ONE, b'{"ID": 9}', None), (ONE, b'{"other": {"id": 1}}', None), (ONE, b" { } ", None),
    (ONE, b'{"schema": {"type": "struct"}, "payload": {"id": 1}}', WRAPPED),
    (ONE, b'{"payload": {"id": 1}, "schema": null}', WRAPPED), (ONE, b'{"schema": null, "payload": null}', WRAPPED),
    (ONE, b'{"payload": {"id": 1}}', None), (ONE, b'{"schema": 1, "payload": 2, "more": 3}', None),
    (ONE, b'{"schema": null, "payload": {"id": 1}, "id": 2}', {"id": 2}),
    (ONE, b"", "not a JSON object"), (ONE, b"null", "not a JSON object"),
    (Json("payload string"), b'{"schema": null, "payload": null}', None),
    (Json("payload string"), b'{"schema": null, "payload": "x"}', {"payload": "x"}),
    (TWO, b'{"a": 1, "b": "x"}', {"a": 1, "b": "x"}), (TWO, b'{"a": 1}', {"a": 1, "b": None}),
    (TWO, b'{"a": null, "b": ""}', {"a": None, "b": ""}), (TWO, b'{"a": null, "b": null}', None), (TWO, b"{}", None),
    (TWO, b'{"A": 1, "B": "x"}', None),
    (NESTED, b"{}", None), (NESTED, b'{"n": {}}', {"id": None, "n": {"x": None}}), (NESTED, b'{"n": null}', None),
    (NESTED, b'{"schema": null, "payload": {"id": 1}}', WRAPPED),
    (OTHER, b'{"the-id": 1}', {"id": 1}), (OTHER, b'{"id": 1}', None), (OTHER, b'{"the-id": null}', None),
    (OTHER, b'{"schema": null, "payload": {"the-id": 1}}', WRAPPED),
    (RegistryJson("id bigint"), PREFIX + b'{"id": 1}', {"id": 1}), (RegistryJson("id bigint"), PREFIX + b"{}", None),
    (RegistryJson("id bigint"), PREFIX + b'{"schema": null, "payload": {"id": 1}}', WRAPPED),
    (ConnectJson("id bigint"), b'{"schema": null, "payload": {"id": 1}}', {"id": 1}),
    (ConnectJson("id bigint"), b'{"schema": null, "payload": {}}', None),
    (ConnectJson("id bigint"), b'{"schema": null, "payload": {"ID": 1}}', None),
    (ConnectJson("id bigint"), b'{"schema": null, "payload": null}', None),
    (Text("id"), b"", {"id": ""}), (Text("id"), None, None), (Long("id"), b"\x00" * 8, {"id": 0}), (Long("id"), None, None),
)  # fmt: skip


def test_a_key_without_any_declared_column_is_a_null_key(spark: SparkSession) -> None:
    frames = []
    for how in dict.fromkeys(how for how, _, _ in KEYS):
        rows = [
            (place, None if raw is None else bytearray(raw), None, 1)
            for place, (own, raw, _) in enumerate(KEYS)
            if own == how
        ]
        given = spark.createDataFrame(rows, "place int, key binary, value binary, timestamp_ms bigint")
        typed = typed_rows(given, Source("s", "s", "stream", key=how, value=Text("v")))
        frames.append(typed.select("place", F.to_json("k", {"ignoreNullFields": "false"}).alias("k"), "key_error"))
    found = {row["place"]: row for row in reduce(DataFrame.unionAll, frames).collect()}
    for place, (how, raw, wanted) in enumerate(KEYS):
        key, error = found[place]["k"], found[place]["key_error"]
        told = error[: len(wanted)] if isinstance(wanted, str) and error else key and json.loads(key)
        assert told == wanted, (how.describe(), raw, key, error)
