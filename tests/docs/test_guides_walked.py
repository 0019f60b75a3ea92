"""The how-to guides, walked through: every command runs in the order of the page, and prints what the page shows.

All guides share one broker, one session, and one run of `conf/enrichment.yml`, which is what their readers have.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.docs.blocks import blocks
from tests.docs.walking import DOCS, ran, walk

from lakestreams.local.broker import Broker
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
ZERO_MS = 1_769_860_800_000  # 2026-01-31T12:00:00Z, as in the tutorial
PROFILES = [("alice", "us-east"), ("bob", "eu-west"), ("carol", "ap-south")]
VIEWS: list[tuple[str, str | bytes | None]] = [
    ("alice", "/home"), ("bob", "/products"), ("carol", "/checkout"), ("dave", "/home"),
    *(("erin", f"/item/{number}") for number in range(13)),
    ("erin", b"\xff"), ("erin", b"\xfe"), ("erin", None),
]  # fmt: skip
UNREADABLE = "PageViews-0@17"
RUN = "lakestreams run conf/enrichment.yml"


@dataclass(frozen=True)
class Project:
    """A reader's project, and the broker that its topics are on."""

    folder: Path
    servers: str


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The files of `conf/`, topics with a few records, and one run of the tutorial's pipeline."""
    folder = tmp_path_factory.mktemp("guides")
    shutil.copytree(ROOT / "conf", folder / "conf")
    with Broker() as broker, small(spark), pytest.MonkeyPatch.context() as patch:
        for topic in ("PageViews", "UserProfiles", "Orders", "Payments"):
            broker.create_topic(topic)
        broker.produce("UserProfiles", [(user, region, ZERO_MS) for user, region in PROFILES])
        broker.produce("PageViews", [(*view, ZERO_MS + 1_000 * place) for place, view in enumerate(VIEWS, 1)])
        orders = [
            (f"o{n}", json.dumps({"customer_id": "c1", "amount": 20 + n}), ZERO_MS + n * 60_000) for n in range(1, 4)
        ]
        payments = [(f"o{n}", json.dumps({"reference": f"p{n}"}), ZERO_MS + 3 * n * 120_000) for n in (1, 3)]
        broker.produce("Orders", orders)
        broker.produce("Payments", payments)
        patch.setenv("KAFKA_BOOTSTRAP", broker.bootstrap_servers)
        patch.setenv("LAKESTREAMS_LOG_DIR", str(folder / "logs"))
        patch.setenv("COLUMNS", "80")
        patch.chdir(folder)
        ran(RUN, broker.bootstrap_servers)
        yield Project(folder, broker.bootstrap_servers)


@pytest.fixture(scope="module")
def _correlated(project: Project) -> None:
    """The run of the orders' pipeline, which two of the guides begin with."""
    ran("lakestreams run conf/correlation.yml", project.servers)


@pytest.fixture(autouse=True)
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each guide begins in the project's folder."""
    monkeypatch.chdir(project.folder)


def every_command(page: str, *others: str) -> set[str]:
    """The commands of lakestreams in a page's blocks, to be sure that none was left out."""
    lines = [line for block in blocks(DOCS / page) if block.language == "sh" for line in block.text.splitlines()]
    return {line.partition("  #")[0].strip() for line in lines if line.startswith("lakestreams")} - set(others)


def test_backfill(project: Project) -> None:
    assert set(walk("backfill.md", project.servers)) == every_command("backfill.md")


def test_troubleshooting(project: Project) -> None:
    assert walk("troubleshooting.md", project.servers)[-1] == "lakestreams why conf/enrichment.yml --key alice"


@pytest.mark.usefixtures("_correlated")
def test_debug_a_wrong_row(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []

    def python(code: str) -> None:
        exec(compile(code, "debug-a-wrong-row.md", "exec"), {})
        shown.append(capfd.readouterr().out)

    walk("debug-a-wrong-row.md", project.servers, python=python)
    assert "o3" in shown[0]


@pytest.mark.usefixtures("_correlated")
def test_report(project: Project) -> None:
    walk("report.md", project.servers)
    assert all((project.folder / name).is_file() for name in ("report.html", "today.html"))


def test_quarantine(project: Project) -> None:
    assert UNREADABLE in "".join(walk("quarantine.md", project.servers))
    show = f"lakestreams quarantine show conf/enrichment.yml --at {UNREADABLE} --json"
    (record,) = json.loads(ran(show, project.servers))["records"]
    assert (record["state"], record["reason"]) == ("replayed", "cut off by the proxy")


def test_change_a_pipeline(project: Project) -> None:
    file = project.folder / "conf" / "enrichment.yml"
    right = file.read_text(encoding="utf-8")
    (changed,) = [block.text for block in blocks(DOCS / "change-a-pipeline.md") if "upper(" in block.text]

    def change() -> None:
        old = "      region: coalesce(UserProfiles.region, '<unknown>')\n"
        assert old in right
        file.write_text(right.replace(old, changed), encoding="utf-8")

    check = "lakestreams check conf/enrichment.yml --explain"
    try:
        walk("change-a-pipeline.md", project.servers, before={check: change}, fails=(RUN,))
    finally:
        file.write_text(right, encoding="utf-8")


def test_bring_a_kafka_streams_app(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "bring-a-kafka-streams-app.md"
    assert set(walk(page, project.servers)) == every_command(page)


def test_follow_the_tables_of_a_database(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's broker is the reader's: its topics are made here, and its address is this broker's."""
    monkeypatch.chdir(tmp_path)
    page = "cdc.md"

    def topics(sources: Path) -> None:
        text = sources.read_text(encoding="utf-8")
        for topic in yaml.safe_load(text)["topics"].values():
            ran(f"lakestreams local topic {topic['topic']}", project.servers)
        sources.write_text(text.replace("localhost:9092", project.servers), encoding="utf-8")

    conf = tmp_path / "conf"
    files = {"shop.yml": conf / "sources.yml", "binlog/tables.yml": conf / "binlog" / "sources.yml"}
    before = {f"lakestreams check conf/{name}": partial(topics, sources) for name, sources in files.items()}
    assert set(walk(page, project.servers, before=before)) == every_command(page)
