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
from lakestreams.engine.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "explore_enrichment.py"


def cells() -> list[str]:
    return NOTEBOOK.read_text(encoding="utf-8").split("# COMMAND ----------\n")


def from_fates() -> str:
    """The code from the cell of fates to the end."""
    first = next(number for number, cell in enumerate(cells()) if "## The fate of each view" in cell)
    return "".join(cells()[first:])


def test_widgets_say_where_the_tables_are_on_databricks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAMS_ROOT", "not-this-one")
    given = {"catalog": "prod", "root": "/Volumes/prod/x/y", "pipeline": "orders"}
    made: list[str] = []
    widgets = SimpleNamespace(text=lambda name, _default: made.append(name), get=given.get)
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=widgets), "spark": None}
    exec(cells()[1], names)
    assert made == ["catalog", "root", "pipeline"]
    assert names["lake"] == Lake("/Volumes/prod/x/y", "prod")


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
    broker.produce(views, at(("dave", "/home", 4), ("alice", None, 5)))
    bench.run()
    monkeypatch.setenv("LAKESTREAMS_ROOT", str(tmp_path))
    monkeypatch.delenv("LAKESTREAMS_CATALOG", raising=False)
    monkeypatch.delenv("LAKESTREAMS_PIPELINE", raising=False)

    found = runpy.run_path(str(NOTEBOOK), init_globals={"spark": spark})

    assert found["counts"] == {"matched": 3, "unmatched": 1, "NULL_VALUE": 1}
    assert (found["streams"], found["outputs"]) == ([views], ["silver.enriched_page_views"])
    assert len(found["checked"]) == 8
    assert "8 statements hold for 5 views of page_views" in capsys.readouterr().out

    # a result that was lost is found, so the assertions are no decoration
    spark.sql(f"delete from {bench.lake.output('silver.enriched_page_views').reference} where user = 'dave'")
    found["show"] = lambda _frame: None
    with pytest.raises(AssertionError, match="views without a result in a pipeline that drops none: 1, expected 0"):
        exec(from_fates(), found)


@pytest.mark.broker  # no broker, but a session: not for the fast lane
def test_the_readmes_topology_binds_to_its_columns(spark: SparkSession) -> None:
    (code,) = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    outputs = dataflow.require_valid(topology_of(code), spark)
    assert {name: frame.columns for name, frame in outputs.items()} == {
        "silver.enriched_page_views": ["user", "page", "region", "event_time_ms", "_lineage"]
    }
