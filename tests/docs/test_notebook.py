"""The notebook's code on a lake that the pipeline has just written, in this session."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.blocks import blocks, topology_of
from tests.engine.harness import Bench, at, fresh_topics, page_views

from lakestreams.engine import dataflow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "explore_enrichment.py"


def explore(spark: SparkSession, **more: Any) -> dict[str, Any]:
    return runpy.run_path(str(NOTEBOOK), init_globals={"spark": spark, **more})


@pytest.mark.broker
def test_the_notebook_follows_every_view_to_its_fate(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    views, users = fresh_topics(broker, 4)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    broker.produce(users, at(("alice", "us-east", 0), ("bob", "eu-west", 0), ("carol", "ap-south", 0)))
    broker.produce(views, at(("alice", "/home", 1), ("bob", "/products", 2), ("carol", "/checkout", 3)))
    bench.run()
    broker.produce(views, at(("dave", "/home", 4), ("alice", None, 5)))
    bench.run()
    monkeypatch.setenv("LAKESTREAMS_ROOT", str(tmp_path))
    monkeypatch.delenv("LAKESTREAMS_CATALOG", raising=False)
    monkeypatch.delenv("LAKESTREAMS_PIPELINE", raising=False)

    found = explore(spark)

    assert found["counts"] == {"matched": 3, "unmatched": 1, "NULL_VALUE": 1}
    assert (found["streams"], found["outputs"]) == ([views], ["silver.enriched_page_views"])
    assert len(found["checked"]) == 9
    assert "9 statements hold for 5 views of page_views" in capsys.readouterr().out

    # a result that was lost is found, so the assertions are no decoration; here with a workspace's widgets and display
    monkeypatch.setenv("LAKESTREAMS_ROOT", "nowhere")
    widgets = SimpleNamespace(
        text=lambda _name, _default: None, get={"catalog": "", "root": str(tmp_path), "pipeline": "page_views"}.get
    )
    spark.sql(f"delete from {bench.lake.output('silver.enriched_page_views').reference} where user = 'dave'")
    with pytest.raises(AssertionError, match="views without a result in a pipeline that drops none: 1, expected 0"):
        explore(spark, dbutils=SimpleNamespace(widgets=widgets), display=lambda _frame: None)


@pytest.mark.broker  # no broker, but a session: not for the fast lane
def test_the_readmes_topology_binds_to_its_columns(spark: SparkSession) -> None:
    (code,) = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    outputs = dataflow.require_valid(topology_of(code), spark)
    assert {name: frame.columns for name, frame in outputs.items()} == {
        "silver.enriched_page_views": ["user", "page", "region", "event_time_ms", "_lineage"]
    }
