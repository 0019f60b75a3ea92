"""The dashboard's file: its form, its columns, every path that its queries take; and what they compute, on Spark.

Nothing here runs Databricks SQL. sqlglot parses the queries as Databricks' and writes them as Spark's, where a path
`details:a.b` is `get_json_object(details, '$.a.b')`; that is what the last test executes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp
from tests.deploy.board import BOARD, DATASETS, FILE, in_spark

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.deploy import dashboards
from lakestreams.deploy.dashboards import Dataset
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.publish import events
from lakestreams.engine.publish.events import CYCLE, FLOW, CycleSummary
from lakestreams.expectations.cycle_metrics import CycleMetrics, Expected
from lakestreams.report.model import LATENESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDGETS = {one["widget"]["name"]: one["widget"] for page in BOARD["pages"] for one in page["layout"]}


# --- its form --------------------------------------------------------------------------------------------------------


def test_it_has_no_mistake_and_every_dataset_is_shown() -> None:
    assert dashboards.mistakes(FILE.read_text(encoding="utf-8")) == []
    drawn = [one for one in WIDGETS.values() if not one["name"].startswith("filter-")]
    assert {query["query"]["datasetName"] for one in drawn for query in one.get("queries", [])} == set(DATASETS)
    kinds = {one["spec"]["widgetType"] for one in WIDGETS.values() if "spec" in one}
    assert kinds <= set(dashboards.VERSIONS), "a type whose version nobody has looked up"


def test_columns_are_read_off_the_query() -> None:
    """What the other tests stand on: a check that reads no columns finds no mistake either."""
    assert DATASETS["stages"].tree().named_selects == ["pipeline", "closed_at", "stage", "seconds"]
    assert all(dataset.tree().named_selects for dataset in DATASETS.values())


def test_every_dataset_is_of_the_event_log_alone_and_can_be_filtered_by_pipeline() -> None:
    for dataset in DATASETS.values():
        tree = dataset.tree()
        inside = {one.alias for one in tree.find_all(exp.CTE)}
        assert {one.sql("databricks") for one in tree.find_all(exp.Table)} - inside == {"events"}
        assert tree.named_selects[0] == "pipeline"
    filtered = {query["query"]["datasetName"] for query in WIDGETS["filter-pipeline"]["queries"]}
    assert filtered == set(DATASETS)


def test_the_period_holds_for_all_but_the_last_cycles() -> None:
    filtered = {query["query"]["datasetName"] for query in WIDGETS["filter-period"]["queries"]}
    assert filtered == set(DATASETS) - {"last_cycles"}
    assert {name for name, dataset in DATASETS.items() if dataset.parameters == ("period",)} == filtered


def test_words_for_lateness_are_those_of_the_report() -> None:
    (words,) = DATASETS["lateness"].tree().find_all(exp.Elt)
    told = [re.sub(r"^[a-z]  ", "", one.this) for one in words.expressions]
    assert tuple(told) == LATENESS


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "it is no dashboard"),
        ('{"datasets": []}', "it is no dashboard: KeyError('pages')"),
        ('{"pages": [], "datasets": [{"name": "a", "query": "select 1 as x"}, {"name": "a", "query": "select 2 as x"}]}', "the dataset a appears twice"),
        ('{"pages": [], "datasets": [{"name": "a", "query": "select 1 as x", "parameters": [{"keyword": "p"}]}]}', "the parameter p is not used"),
    ],
)  # fmt: skip
def test_files_that_are_no_dashboards(text: str, told: str) -> None:
    assert told in "\n".join(dashboards.mistakes(text))


def test_columns_of_foreign_tables_are_not_judged() -> None:
    text = json.dumps({"pages": [], "datasets": [{"name": "a", "query": "SELECT anything FROM main.silver.orders"}]})
    assert dashboards.mistakes(text) == []


# --- the paths that its queries take ---------------------------------------------------------------------------------


def of_one_cycle() -> list[dict[str, Any]]:
    """The events of a cycle in which everything was counted, by the code that writes them."""
    builder = StreamsBuilder("p")
    left = builder.stream("left", key=Text("id"), value=Json("amount int"))
    right = builder.stream("right", key=Text("id"), value=Json("amount int"))
    left.left_join(right, within="5 minutes", name="matched").to_delta("silver.x")
    topology, cycle_metrics = builder.build(), CycleMetrics()
    cycle_metrics.of("left").rows_in = 10
    cycle_metrics.of("left").expected.append(Expected("r", "drop", 7, 2))
    cycle_metrics.quarantined("left", "EXPECTATION", 2)
    cycle_metrics.rows("matched", {"rows": 8, "rows_matched": 5, "rows_unmatched": 3})
    part = Range("left", 0, 5, 15, 10, 0, 0, 0, 900, 30, end_offset=20, lateness=(9, 1, 0, 0, 0, 0, 0, 0))
    summary = CycleSummary(3, cycle_metrics, {"join": 1.5}, "run", 1_000, 2_000)
    return events.of_cycle(topology, Plan(3, "f", (part,), {0: 900}, 1, 2), summary)


ROWS = of_one_cycle()


def paths(dataset: Dataset) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    """Column, keys, and the type that it is read as, where from_json does."""
    for one in dataset.tree().find_all(exp.JSONExtract):
        keys = tuple(str(key.this) for key in one.expression.find_all(exp.JSONPathKey))
        call = one.parent
        yield one.this.name, keys, call.expression.name if isinstance(call, exp.FromJson) else None


def followed(row: dict[str, Any], column: str, keys: tuple[str, ...]) -> Any:
    found = json.loads(row[column])
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


@pytest.mark.parametrize("name", DATASETS)
def test_every_path_leads_to_something_that_events_have(name: str) -> None:
    taken = list(paths(DATASETS[name]))
    assert taken
    for column, keys, read in taken:
        found = [value for row in ROWS if (value := followed(row, column, keys)) is not None]
        assert found, f"{column}:{'.'.join(keys)} is in no event"
        if read is not None and "struct<" in read:
            fields = set(re.findall(r"(\w+): ", read))
            items = [item for value in found for item in value]
            assert items
            assert all(fields <= item.keys() for item in items), (keys, fields)
        elif read is not None:
            assert all(isinstance(value, dict) for value in found), (keys, read)


def test_types_that_json_is_read_as_were_found() -> None:
    """What the test before stands on."""
    read = [told for dataset in DATASETS.values() for _, _, told in paths(dataset) if told]
    assert len(read) == sum(dataset.sql.count("FROM_JSON(") for dataset in DATASETS.values()) == 7
    assert sum("struct<" in told for told in read) == 3


def test_kinds_of_events_are_those_that_are_written() -> None:
    asked = {one.this for dataset in DATASETS.values() for one in dataset.tree().find_all(exp.Literal)}
    assert {FLOW, CYCLE} <= asked
    assert {row["event_type"] for row in ROWS} == {FLOW, CYCLE}
    assert [row for row in ROWS if followed(row, "details", (FLOW, "lakestreams", "kind")) == "left_join"]


# --- what they compute -----------------------------------------------------------------------------------------------


def test_the_translation_leaves_nothing_of_databricks_own() -> None:
    text = in_spark(DATASETS["matches"], "2026-11-22 00:00:00", "2026-11-23 00:00:00")
    assert "GET_JSON_OBJECT(details, '$.flow_progress.lakestreams.rows.matched')" in text
    assert text.count("CAST('2026-11-22 00:00:00' AS TIMESTAMP)") == 1
    assert ":period" not in text


def moment(hour: int, day: int = 22) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def flow(node: str, kind: str, metrics: dict[str, int], **more: Any) -> tuple[str, dict[str, Any]]:
    """A node's event: its name, and its details as the docs describe them."""
    quality = {"dropped_records": more.get("dropped", 0), "expectations": more.get("expectations", [])}
    own = {"kind": kind, "parents": [], "rows": more.get("rows", {}), "quarantined": more.get("quarantined", {})}
    return node, {FLOW: {"status": "COMPLETED", "metrics": metrics, "data_quality": quality, "lakestreams": own}}


def rule(dataset: str, passed: int, failed: int) -> dict[str, Any]:
    counts = {"passed_records": passed, "failed_records": failed}
    return {"name": "positive", "dataset": dataset, "action": "drop", **counts}


def source(name: str, lag: int | None, *lateness: int) -> dict[str, Any]:
    return {"name": name, "topic": name, "partition": 0, "lag_records": lag, "lateness": list(lateness)}


def cycle(
    pipeline: str, number: int, at: datetime, told: dict[str, Any], *flows: tuple[str, dict[str, Any]]
) -> list[Any]:
    origin = {"pipeline_name": pipeline, "update_id": f"run-{number}", "batch_id": number}
    rows = [(FLOW, origin | {"flow_name": node}, details) for node, details in flows]
    rows.append((CYCLE, origin, {CYCLE: told | {"cycle": number, "closed_at_ms": int(at.timestamp() * 1_000)}}))
    return [
        (pipeline, number, f"{pipeline}/{number}/{place}", number * 10_000 + place, kind, "METRICS", "STABLE", at, "",
         json.dumps(whence), json.dumps(details))
        for place, (kind, whence, details) in enumerate(rows)
    ]  # fmt: skip


def by_hand() -> list[Any]:
    """Two pipelines: three cycles of `a`, the third of the next day, which no period here has; one cycle of `b`."""
    noon = int(moment(12).timestamp() * 1_000)
    return [
        *cycle(
            "a", 1, moment(12),
            {"records": 10, "bad": 1, "seconds": {"join": 1.5, "settle": 0.5}, "clocks": {"0": noon - 4_000, "1": -1, "2": 0},
             "sources": [source("s", 5, 7, 2, 0, 0, 0, 0, 0, 0), source("s", 2, 0, 1, 0, 0, 0, 0, 0, 0)]},
            flow("s", "stream", {"num_input_rows": 10, "num_output_rows": 7}, dropped=2,
                 quarantined={"EXPECTATION": 2, "MALFORMED_VALUE": 1}, expectations=[rule("s", 7, 2)]),
            flow("j", "left_join", {"num_output_rows": 7}, rows={"matched": 6, "unmatched": 1}),
        ),
        *cycle(
            "a", 2, moment(13),
            {"records": 4, "bad": 0, "seconds": {"join": 1.0}, "clocks": {},
             "sources": [source("s", None, 4, 0, 0, 0, 0, 0, 0, 0), source("s", 1)]},
            flow("s", "stream", {"num_input_rows": 4, "num_output_rows": 3}, dropped=1,
                 quarantined={"EXPECTATION": 1}, expectations=[rule("s", 3, 1)]),
            flow("j", "left_join", {"num_output_rows": 3}, rows={"unmatched": 3}),
        ),
        *cycle("a", 3, moment(9, day=23), {"records": 99, "bad": 9, "seconds": {"join": 3.0, "finish": 0.25},
               "clocks": {}, "sources": []}, flow("s", "stream", {"num_input_rows": 99})),
        *cycle(
            "b", 7, moment(12),
            {"records": 3, "bad": 0, "seconds": {"join": 2.0}, "clocks": {"0": noon - 500},
             "sources": [source("s", 0, 3, 0, 0, 0, 0, 0, 0, 0)]},
            flow("s", "stream", {"num_input_rows": 3, "num_output_rows": 3}, expectations=[rule("s", 3, 0)]),
            flow("i", "join", {"num_output_rows": 2}, rows={"matched": 2}),  # inner: it has no rate
            flow("o", "outer_join", {}),  # nothing was counted
        ),
    ]  # fmt: skip


EXPECTED: dict[str, set[tuple[Any, ...]]] = {
    "cycles": {
        ("a", 1, moment(12), 10, 1, 4.0),
        ("a", 2, moment(13), 4, 0, None),
        ("b", 7, moment(12), 3, 0, 0.5),
    },
    "lag": {("a", moment(12), "a: s", 7), ("a", moment(13), "a: s", None), ("b", moment(12), "b: s", 0)},
    "lateness": {
        ("a", "a: s", "a  on time", 11),
        ("a", "a: s", "b  ≤ 1 s", 3),
        ("b", "b: s", "a  on time", 3),
    },
    "stages": {
        ("a", moment(12), "join", 1.5),
        ("a", moment(12), "settle", 0.5),
        ("a", moment(13), "join", 1.0),
        ("b", moment(12), "join", 2.0),
    },
    "last_cycles": {
        ("a", 3, moment(9, day=23), 99, 3.25, "run-3"),
        ("b", 7, moment(12), 3, 2.0, "run-7"),
    },
    "nodes": {
        ("a", "s", "stream", 14, 10, 3),
        ("a", "j", "left_join", None, 10, 0),
        ("b", "s", "stream", 3, 3, 0),
        ("b", "i", "join", None, 2, 0),
        ("b", "o", "outer_join", None, None, 0),
    },
    "matches": {("a", moment(12), "a: j", 6, 7, 85.71), ("a", moment(13), "a: j", 0, 3, 0.0)},
    "expectations": {
        ("a", "s", "positive", "drop", 10, 3, 23.08, moment(13)),
        ("b", "s", "positive", "drop", 3, 0, 0.0, None),
    },
    "quarantine": {("a", "s", "EXPECTATION", 3), ("a", "s", "MALFORMED_VALUE", 1)},
}


def test_numbers_made_by_hand_are_there_for_every_dataset() -> None:
    assert set(EXPECTED) == set(DATASETS)
    for name, rows in EXPECTED.items():
        columns = [column for column in DATASETS[name].tree().named_selects if column != "minutes_ago"]
        assert {len(row) for row in rows} == {len(columns)}, name


@pytest.mark.slow
def test_queries_compute_what_was_computed_by_hand(spark: SparkSession) -> None:
    spark.createDataFrame(by_hand(), events.SCHEMA).createOrReplaceTempView("events")
    try:
        for name, dataset in DATASETS.items():
            frame = spark.sql(in_spark(dataset, "2026-11-22 00:00:00", "2026-11-22 23:59:59"))
            assert frame.columns == dataset.tree().named_selects, name
            rows = [row.asDict() for row in frame.collect()]
            ago = {row.pop("minutes_ago") for row in rows if "minutes_ago" in row}
            # buckets of lateness that nothing fell into are rows, too
            found = [row for row in rows if not (name == "lateness" and row["records"] == 0)]
            assert len(found) == len(EXPECTED[name]), name
            assert {tuple(map(_comparable, row.values())) for row in found} == EXPECTED[name], name
            assert len(ago) == (2 if name == "last_cycles" else 0)
    finally:
        spark.catalog.dropTempView("events")


def _comparable(value: Any) -> Any:
    """Moments in UTC: Spark gives them in the machine's zone, without naming it."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
