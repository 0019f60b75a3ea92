"""The notebooks' code on lakes that their pipelines have just written, in this session."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.docs.blocks import blocks, topology_of
from tests.engine.harness import ZERO, Bench, at, fresh_topics, page_views

import lakestreams
from lakestreams.config.compile import load_pipeline
from lakestreams.engine.lake import Lake
from lakestreams.flow import dataflow
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "explore_enrichment.py"


def cells(notebook: Path = NOTEBOOK) -> list[str]:
    return notebook.read_text(encoding="utf-8").split("# COMMAND ----------\n")


def from_cell(title: str, notebook: Path = NOTEBOOK) -> str:
    """The code from the cell of this title to the end."""
    every = cells(notebook)
    first = next(number for number, cell in enumerate(every) if f"## {title}" in cell)
    return "".join(every[first:])


def test_widgets_say_where_the_tables_are_on_databricks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAMS_ROOT", "not-this-one")
    given = {"catalog": "prod", "schemas": "bronze=raw", "root": "/Volumes/prod/x/y", "pipeline": "orders"}
    made: list[str] = []
    widgets = SimpleNamespace(text=lambda name, _default: made.append(name), get=given.get)
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=widgets), "spark": None}
    exec(cells()[1], names)
    assert made == ["catalog", "schemas", "root", "pipeline"]
    assert names["lake"] == Lake("/Volumes/prod/x/y", "prod", bronze_schema="raw")


@pytest.mark.parametrize("job", ["correlation", "fk_join"])
def test_widgets_say_which_file_and_where_its_tables_are(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ROOT / "notebooks" / f"explore_{job}.py"
    given = {"catalog": "prod", "schemas": "", "root": "/Volumes/prod/x/y", "conf": "conf/mine.yml"}
    made: dict[str, str] = {}
    widgets = SimpleNamespace(text=made.__setitem__, get=given.get)
    asked: list[Any] = []
    opened = SimpleNamespace(spark=None, topology=SimpleNamespace(name="p"))
    monkeypatch.setattr(lakestreams, "open", lambda *places, **named: asked.append((places, named)) or opened)
    exec(cells(notebook)[1], {"dbutils": SimpleNamespace(widgets=widgets), "__file__": str(notebook)})
    assert made == {"catalog": "", "schemas": "", "root": "lake", "conf": str(ROOT / "conf" / f"{job}.yml")}
    assert asked == [(("conf/mine.yml",), {"root": "/Volumes/prod/x/y", "catalog": "prod", "schemas": None})]


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
        exec(from_cell("The fate of each view"), found)


@dataclass(frozen=True)
class Explored:
    """A notebook over a ready pipeline, and the records that it is to explain.

    Attributes:
        records: by source: key, value and time.
        finds: names of the notebook to what they hold in the end.
        lost: a row that is deleted (output, condition), and what the notebook says then.
    """

    job: str
    records: Mapping[str, Sequence[tuple[str | None, str | bytes | None, int]]]
    finds: Mapping[str, Any]
    lost: tuple[str, str, str]


MINUTE = 60_000
EXPLORED = (
    Explored(
        "correlation",
        {
            "PlacedOrders": [
                ("paid", '{"customer_id": "c1", "amount": 30.00}', ZERO),
                ("unpaid", '{"customer_id": "c1", "amount": 12.50}', ZERO + MINUTE),
                ("at the edge", '{"customer_id": "c2", "amount": 1}', ZERO + 2 * MINUTE),
                ("broken", b"{", ZERO + 2 * MINUTE),
                ("far", '{"customer_id": "c2", "amount": 2}', ZERO + 60 * MINUTE),
                ("late", '{"customer_id": "c3", "amount": 3}', ZERO),
            ],
            "Payments": [
                ("paid", '{"reference": "p1"}', ZERO + MINUTE),
                ("at the edge", '{"reference": "p2"}', ZERO + 7 * MINUTE),
                ("nothing ordered", '{"reference": "p3"}', ZERO + 8 * MINUTE),
                ("nothing paid", None, ZERO + 8 * MINUTE),
            ],
        },
        {
            "counts": {
                ("PlacedOrders", "matched"): 2,
                ("PlacedOrders", "unmatched"): 1,
                ("PlacedOrders", "MALFORMED_VALUE"): 1,
                ("PlacedOrders", "LATE"): 1,
                ("PlacedOrders", "waits"): 1,
                ("Payments", "matched"): 2,
                ("Payments", "unmatched"): 1,
                ("Payments", "NULL_VALUE"): 1,
            },
            "unpaid": 1,
            "matched": 2,
        },
        ("silver.paid_orders", "order_id = 'paid'", "the inner join has the matched pairs: {'matched': 1}"),
    ),
    Explored(
        "fk_join",
        {
            "Customers": [
                ("c1", '{"name": "Ada"}', ZERO),
                ("c2", '{"name": "Grace"}', ZERO),
                ("c1", '{"name": "Ada Lovelace"}', ZERO + 5),
                ("c2", None, ZERO + 6),
                ("c3", '{"name": "Edsger"}', ZERO + 7),
            ],
            "Orders": [
                ("o1", '{"customer_id": "c1", "amount": 30.00}', ZERO + 1),
                ("o2", '{"customer_id": "c2", "amount": 45.00}', ZERO + 2),
                ("o3", '{"customer_id": "c1", "amount": 7}', ZERO + 3),
                ("o3", None, ZERO + 4),
                ("o4", '{"customer_id": "c9", "amount": 1}', ZERO + 8),
                ("o4", b"{", ZERO + 9),
                (None, '{"customer_id": "c1", "amount": 1}', ZERO + 9),
            ],
        },
        {"counts": {"silver.orders_of_known_customers": 1, "silver.orders_with_names": 3}},
        (
            "silver.orders_with_names",
            "order_id = 'o2'",
            "rows of silver.orders_with_names that are missing: 1, expected 0",
        ),
    ),
)


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.parametrize("case", EXPLORED, ids=lambda case: case.job)
def test_a_notebook_explains_what_its_job_has_made(
    case: Explored,
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topics = dict(zip(case.records, fresh_topics(broker, 2, topics=tuple(case.records)), strict=True))  # type: ignore[arg-type]
    conf = ready(case.job, topics, tmp_path)
    bench = Bench(spark, broker, tmp_path / "lake", load_pipeline(conf).topology)
    for source, records in case.records.items():
        # one partition, so that the records come in this order; the other one stays empty
        broker.produce(topics[source], [(*record, 0) for record in records])
    monkeypatch.setenv("LAKESTREAMS_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKESTREAMS_CONF", str(conf))
    monkeypatch.delenv("LAKESTREAMS_CATALOG", raising=False)
    notebook = ROOT / "notebooks" / f"explore_{case.job}.py"
    with small(spark):
        bench.run()
        found = runpy.run_path(str(notebook))

        assert {name: found[name] for name in case.finds} == case.finds
        assert found["why"], "nothing told of the example"
        assert found["spark"] is spark
        assert f"{len(found['checked'])} statements hold for" in capsys.readouterr().out

        # a result that was lost is found, so the assertions are no decoration
        output, condition, said = case.lost
        spark.sql(f"delete from {bench.lake.output(output).reference} where {condition}")
        found["show"] = lambda _frame: None
        with pytest.raises(AssertionError, match=re.escape(said)):
            exec(from_cell("What must hold", notebook), found)


def ready(job: str, topics: Mapping[str, str], folder: Path) -> Path:
    """The ready pipeline of a job over topics of these names."""
    sources = yaml.safe_load((ROOT / "conf" / "sources.yml").read_text(encoding="utf-8"))
    for source, topic in topics.items():
        sources["topics"][source]["topic"] = topic
    (folder / "sources.yml").write_text(yaml.safe_dump(sources), encoding="utf-8")
    return Path(shutil.copy(ROOT / "conf" / f"{job}.yml", folder))


@pytest.mark.broker  # no broker, but a session: not for the fast lane
def test_the_readmes_topology_binds_to_its_columns(spark: SparkSession) -> None:
    (code,) = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    outputs = dataflow.require_valid(topology_of(code), spark)
    assert {name: frame.columns for name, frame in outputs.items()} == {
        "silver.enriched_page_views": ["user", "page", "region", "event_time_ms", "_lineage"]
    }
