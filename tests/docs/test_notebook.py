"""The notebooks' code in this session: the tutorial, and the others on lakes that their pipelines have just written."""

from __future__ import annotations

import posixpath
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
from pyspark.sql import functions as F  # noqa: N812
from tests.docs.blocks import blocks, topology_of
from tests.engine.harness import ZERO, Bench, at, fresh_topics
from tests.topology.checked import outputs_of

import lakestreams
from lakestreams.config.compile import load_pipeline
from lakestreams.deploy.read import load
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.replay import deciding
from lakestreams.engine.replay.deciding import Selection
from lakestreams.engine.replay.edits import Repair
from lakestreams.engine.runtime.failpoints import VARIABLE, FailpointReached
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
TUTORIAL = NOTEBOOKS / "tutorial_joins.py"
JOBS = ("enrichment", "correlation", "fk_join")


def explore(job: str) -> Path:
    return NOTEBOOKS / f"explore_{job}.py"


def cells(notebook: Path) -> list[str]:
    return notebook.read_text(encoding="utf-8").split("# COMMAND ----------\n")


def from_cell(title: str, notebook: Path) -> str:
    """The code from the cell of this title to the end."""
    every = cells(notebook)
    first = next(number for number, cell in enumerate(every) if f"## {title}" in cell)
    return "".join(every[first:])


def first_code(notebook: Path) -> str:
    """The cell with the imports and the widgets."""
    return next(cell for cell in cells(notebook) if "def parameter" in cell)


@pytest.mark.parametrize("job", JOBS)
def test_widgets_say_which_file_and_where_its_tables_are(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAMS_ROOT", "not-this-one")
    given = {"catalog": "prod", "schemas": "bronze=raw", "root": "/Volumes/prod/x/y", "conf": "conf/mine.yml"}
    made: dict[str, str] = {}
    widgets = SimpleNamespace(text=made.__setitem__, get=given.get)
    asked: list[Any] = []
    opened = SimpleNamespace(spark=None, topology=SimpleNamespace(name="p"))
    monkeypatch.setattr(lakestreams, "open", lambda *places, **named: asked.append((places, named)) or opened)
    exec(first_code(explore(job)), {"dbutils": SimpleNamespace(widgets=widgets), "__file__": str(explore(job))})
    assert made == {"catalog": "", "schemas": "", "root": "lake", "conf": str(ROOT / "conf" / f"{job}.yml")}
    assert asked == [(("conf/mine.yml",), {"root": "/Volumes/prod/x/y", "catalog": "prod", "schemas": "bronze=raw"})]


def test_the_tutorials_widget_is_the_window() -> None:
    made: list[Any] = []
    widgets = SimpleNamespace(dropdown=lambda *told: made.append(told), get={"within": "1 minute"}.get)
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=widgets), "spark": None}
    exec(first_code(TUTORIAL), names)
    assert names["within"] == "1 minute"
    assert made == [("within", "5 minutes", ["1 minute", "5 minutes", "10 minutes"])]


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.py")), ids=lambda file: file.stem)
def test_a_notebook_installs_the_wheel_that_its_bundle_deploys(notebook: Path) -> None:
    """Before anything else, and only on Databricks: the lines are comments to Python."""
    told, find, install, restart, code = cells(notebook)[:5]
    assert told.startswith("# Databricks notebook source\n# MAGIC %md")
    assert install.split() == ["#", "MAGIC", "%pip", "install", "--quiet", "$wheel"]
    assert restart.split() == ["#", "MAGIC", "%restart_python"]
    assert "sys.path" not in code
    bundle = load(ROOT, "prod")
    (library,) = bundle.jobs["correlation"]["tasks"][0]["libraries"]
    (place,) = re.findall(r'Path\(\)\.glob\("(.*?)"\)', find)
    installed = posixpath.normpath(f"notebooks/{place}")
    assert installed == posixpath.normpath(f"resources/{library['whl']}"), "the wheel that the jobs install"
    assert installed in bundle.config["sync"]["include"], "and it is there"


@pytest.mark.slow
def test_the_tutorial_holds_with_its_window_and_with_another(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LAKESTREAMS_WITHIN", raising=False)
    with small(spark):
        found = runpy.run_path(str(TUTORIAL), init_globals={"spark": spark})
        assert found["rows"] == {"o1": ("payment of o1", 40_000), "o2": (None, 1_000), "o3": (None, 2_000)}
        assert f"{len(found['checked'])} statements hold, with a window of 5 minutes" in capsys.readouterr().out

        found["within"] = "10 minutes"
        exec(from_cell("2. Two streams in a window", TUTORIAL).partition("## 3. ")[0], found)
        assert found["rows"]["o2"] == ("payment of o2", 420_000)


@pytest.mark.broker
def test_the_notebook_follows_every_view_to_its_fate(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    views, users = fresh_topics(broker, 4)
    expected = {
        "PageViews": {"expect": {"short": "length(page) < 6"}, "expect_or_drop": {"own": "page not like '//%'"}}
    }
    conf = ready("enrichment", {"PageViews": views, "UserProfiles": users}, tmp_path, expected)
    bench = Bench(spark, broker, tmp_path / "lake", load_pipeline(conf).topology)
    broker.produce(users, at(("alice", "us-east", 0), ("bob", "eu-west", 0), ("carol", "ap-south", 0)))
    broker.produce(views, at(("alice", "/home", 1), ("bob", "/products", 2), ("carol", "/checkout", 3)))
    broker.produce(views, at(("dave", "/home", 4), ("alice", None, 5), ("bob", "//elsewhere", 6)))
    monkeypatch.setenv("LAKESTREAMS_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKESTREAMS_CONF", str(conf))
    monkeypatch.delenv("LAKESTREAMS_CATALOG", raising=False)
    with small(spark):
        bench.run()
        found = runpy.run_path(str(explore("enrichment")))

    assert found["counts"] == {"matched": 3, "unmatched": 1, "NULL_VALUE": 1, "EXPECTATION": 1}
    assert (found["streams"], found["outputs"]) == ([views], ["silver.enriched_page_views"])
    assert found["expectations"] == {
        ("PageViews", "short", "warn"): (2, 3),
        ("PageViews", "own", "drop"): (4, 1),
        ("UserProfiles", "keys_not_null", "drop"): (3, 0),
    }
    assert [row["key"] for row in found["why"]] == ["dave"]
    assert f"{len(found['checked'])} statements hold for 6 views of page_views" in capsys.readouterr().out

    with small(spark):
        fall_behind_a_replay(bench, "NULL_VALUE", "/cart", monkeypatch)
        again = runpy.run_path(str(explore("enrichment")))
    assert again["counts"] == {**found["counts"], "held": 1}, "the attempt is in bronze and in no cycle"

    # a result that was lost is found, so the assertions are no decoration
    spark.sql(f"delete from {bench.lake.output('silver.enriched_page_views').reference} where user = 'dave'")
    found["show"] = lambda _frame: None
    with pytest.raises(AssertionError, match="views without a result in a pipeline that drops none: 1, expected 0"):
        exec(from_cell("The fate of each view", explore("enrichment")), found)


@dataclass(frozen=True)
class Explored:
    """A notebook over a ready pipeline, and the records that it is to explain.

    Attributes:
        records: by source: key, value and time.
        expected: by source: what is declared to be expected of its records.
        repaired: the value with which the record that cannot be read is replayed.
        held: what the notebook counts of it while no cycle has taken it.
        finds: names of the notebook to what they hold in the end.
        lost: a row that is deleted (output, condition), and what the notebook says then.
    """

    job: str
    records: Mapping[str, Sequence[tuple[str | None, str | bytes | None, int]]]
    expected: Mapping[str, Mapping[str, Mapping[str, str]]]
    repaired: str
    held: Mapping[tuple[str, str], int]
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
                ("negative", '{"customer_id": "c3", "amount": -3}', ZERO + 60 * MINUTE),
            ],
            "Payments": [
                ("paid", '{"reference": "p1"}', ZERO + MINUTE),
                ("at the edge", '{"reference": "p2"}', ZERO + 7 * MINUTE),
                ("nothing ordered", '{"reference": "p3"}', ZERO + 8 * MINUTE),
                ("nothing paid", None, ZERO + 8 * MINUTE),
            ],
        },
        {"PlacedOrders": {"expect_or_drop": {"positive": "amount > 0"}, "expect_or_fail": {"named": "order_id <> ''"}}},
        '{"customer_id": "c2", "amount": 4}',
        {("PlacedOrders", "held"): 1},
        {
            "counts": {
                ("PlacedOrders", "matched"): 2,
                ("PlacedOrders", "unmatched"): 1,
                ("PlacedOrders", "MALFORMED_VALUE"): 1,
                ("PlacedOrders", "LATE"): 1,
                ("PlacedOrders", "EXPECTATION"): 1,
                ("PlacedOrders", "waits"): 1,
                ("Payments", "matched"): 2,
                ("Payments", "unmatched"): 1,
                ("Payments", "NULL_VALUE"): 1,
            },
            "unpaid": 1,
            "matched": 2,
            "expectations": {("PlacedOrders", "positive", "drop"): (5, 1), ("PlacedOrders", "named", "fail"): (6, 0)},
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
                ("o1", '{"customer_id": "c1", "amount": -1}', ZERO + 10),
            ],
        },
        {"Orders": {"expect_or_drop": {"positive": "amount > 0"}, "expect": {"large": "amount > 5"}}},
        '{"customer_id": "c1", "amount": 9}',
        {},
        {
            "counts": {"silver.orders_of_known_customers": 1, "silver.orders_with_names": 3},
            "expectations": {
                ("Orders", "positive", "drop"): (5, 1),
                ("Orders", "large", "warn"): (3, 3),
                ("Orders", "keys_not_null", "drop"): (6, 1),
                ("Customers", "keys_not_null", "drop"): (5, 0),
            },
        },
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
    conf = ready(case.job, topics, tmp_path, case.expected)
    bench = Bench(spark, broker, tmp_path / "lake", load_pipeline(conf).topology)
    for source, records in case.records.items():
        # one partition, so that the records come in this order; the other one stays empty
        broker.produce(topics[source], [(*record, 0) for record in records])
    monkeypatch.setenv("LAKESTREAMS_ROOT", str(tmp_path / "lake"))
    monkeypatch.setenv("LAKESTREAMS_CONF", str(conf))
    monkeypatch.delenv("LAKESTREAMS_CATALOG", raising=False)
    notebook = explore(case.job)
    with small(spark):
        bench.run()
        found = runpy.run_path(str(notebook))

        assert {name: found[name] for name in case.finds} == case.finds
        assert found["why"], "nothing told of the example"
        assert found["spark"] is spark
        assert f"{len(found['checked'])} statements hold for" in capsys.readouterr().out

        fall_behind_a_replay(bench, "MALFORMED_VALUE", case.repaired, monkeypatch)
        again = runpy.run_path(str(notebook))
        assert again["counts"] == {**found["counts"], **case.held}, "the attempt is in bronze and in no cycle"

        # a result that was lost is found, so the assertions are no decoration
        output, condition, said = case.lost
        spark.sql(f"delete from {bench.lake.output(output).reference} where {condition}")
        found["show"] = lambda _frame: None
        with pytest.raises(AssertionError, match=re.escape(said)):
            exec(from_cell("What must hold", notebook), found)


def fall_behind_a_replay(bench: Bench, code: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is in quarantine comes once more, into bronze, and the run falls before a cycle has taken it."""
    rows = bench.quarantine().where(F.col("code") == code).select("topic", "partition", "offset")
    repair = Repair(*rows.first(), None, {"value": value.encode()})  # type: ignore[misc]
    deciding.request(bench.spark, Ledger(bench.lake, bench.topology.name), Selection(repairs=(repair,)))
    monkeypatch.setenv(VARIABLE, "ingest.after:1")
    with pytest.raises(FailpointReached):
        bench.run()
    monkeypatch.delenv(VARIABLE)


def ready(
    job: str, topics: Mapping[str, str], folder: Path, expected: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> Path:
    """The ready pipeline of a job over topics of these names, of whose records this is expected."""
    sources = yaml.safe_load((ROOT / "conf" / "sources.yml").read_text(encoding="utf-8"))
    for source, topic in topics.items():
        sources["topics"][source] |= {"topic": topic, **expected.get(source, {})}
    (folder / "sources.yml").write_text(yaml.safe_dump(sources), encoding="utf-8")
    return Path(shutil.copy(ROOT / "conf" / f"{job}.yml", folder))


@pytest.mark.broker  # no broker, but a session: not for the fast lane
def test_the_readmes_topology_binds_to_its_columns(spark: SparkSession) -> None:
    (code,) = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    outputs = outputs_of(topology_of(code), spark)
    assert {name: frame.columns for name, frame in outputs.items()} == {
        "silver.enriched_page_views": ["user", "page", "region", "event_time_ms", "_lineage"]
    }
