"""What looks at the tables of a pipeline that has never run says so, in a lake of others as in an empty one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from tests.engine.harness import Bench, claimed, fresh_topics
from typer.testing import CliRunner

import lakestreams
from lakestreams import Json, StreamsBuilder, Text, agg
from lakestreams.cli import entry_points
from lakestreams.cli.app import app
from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import LakestreamsError
from lakestreams.kafka import cluster
from lakestreams.run.pipeline_tables import PipelineTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

FILE = str(Path(__file__).parents[2] / "conf" / "enrichment.yml")
COMMANDS = {
    "verify": "LS508 NOTHING_TO_VERIFY",
    "why --key alice": "LS509 NO_SUCH_RECORD",
    "why --at PageViews-0@0": "LS509 NO_SUCH_RECORD",
    "maintain": "LS511 NOTHING_TO_MAINTAIN",
    "quarantine list": "LS411 NOT_IN_QUARANTINE",
    "quarantine show": "LS411 NOT_IN_QUARANTINE",
    "quarantine replay --dry-run": "LS411 NOT_IN_QUARANTINE",
    "quarantine discard --reason old": "LS411 NOT_IN_QUARANTINE",
}
SAY_SO_THEMSELVES = {"status", "report", "show"}
READ_NO_LAKE = {
    "check", "dbx", "demo", "explain", "infer", "init", "local consume", "local down", "local produce", "local topic",
    "local up", "registry pull", "run", "schema", "test", "version", "watch",
}  # fmt: skip
METHODS: dict[str, tuple[str, Callable[[PipelineTables], Any]]] = {
    "bronze": ("LS801", lambda one: one.bronze("PageViews")),
    "silver": ("LS801", lambda one: one.silver("silver.enriched_page_views")),
    "quarantine": ("LS801", PipelineTables.quarantine),
    "events": ("LS801", PipelineTables.events),
    "expectations": ("LS801", PipelineTables.expectations),
    "orphans": ("LS801", PipelineTables.orphans),
    "lag": ("LS801", PipelineTables.lag),
    "why": ("LS509", lambda one: one.why(key="alice")),
    "verify": ("LS508", PipelineTables.verify),
}
JOBS = {"verify": entry_points.verify, "maintain": entry_points.maintain}


@pytest.fixture(params=["empty", pytest.param("of others", marks=pytest.mark.slow)])
def root(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake that the pipeline has never run in."""
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    if request.param == "of others":
        ledger = Ledger(Lake(str(tmp_path)), "another")
        ledger.create(spark)
        claimed(spark, ledger, "run", configuration=fingerprint.Configuration("", "", ""))
    return str(tmp_path)


def assert_said(text: str, code: str, root: str) -> None:
    words = " ".join(text.split())
    hint = "Fix: run the pipeline first, or name its lake with --root or --catalog lakestreams explain"
    assert words.startswith(f"{code} pipeline page_views has never run in {root} {hint}"), text


def test_commands_and_jobs_say_that_it_has_never_run(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, code in COMMANDS.items():
        name, _, rest = command.partition(" --")
        words = [*name.split(), FILE, "--root", root, *(f"--{rest}".split() if rest else ())]
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 1
        assert_said(told.stderr, code, root)
    for name, job in JOBS.items():
        with pytest.raises(SystemExit) as ended:
            job([f"--pipeline={FILE}", f"--root={root}"])
        assert ended.value.code == 1
        assert_said(capsys.readouterr().err, COMMANDS[name], root)


def test_status_show_and_report_say_so_in_their_own_words(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT_S", 0.2)  # of a broker that is not there
    told = CliRunner().invoke(app, ["status", FILE, "--root", root])
    said = " ".join(told.stdout.split())
    assert (told.exit_code, said.startswith("page_views has never run here")) == (
        0,
        True,
    )  # and whether a broker answers
    told = CliRunner().invoke(app, ["report", FILE, "--root", root, "--out", str(tmp_path / "report.html")])
    assert (told.exit_code, "no cycle in the log yet" in told.stdout) == (0, True)
    told = CliRunner().invoke(app, ["show", "enriched_page_views", "--root", root])
    assert (told.exit_code, told.stderr.split()[0]) == (1, "LS801")


def test_no_command_is_forgotten_here() -> None:
    def names(of: Any, before: str = "") -> set[str]:
        if not hasattr(of, "commands"):
            return {before.strip()}
        return {name for key, one in of.commands.items() for name in names(one, f"{before} {key}")}

    looked = {name.partition(" --")[0] for name in COMMANDS} | SAY_SO_THEMSELVES
    assert looked | READ_NO_LAKE == names(typer.main.get_command(app))
    assert not looked & READ_NO_LAKE
    assert METHODS.keys() == {name for name, one in vars(PipelineTables).items() if callable(one) and name[0] != "_"}


def test_what_notebooks_open_says_that_it_has_never_run(root: str) -> None:
    opened = lakestreams.open(FILE, root=root)
    for name, (code, call) in METHODS.items():
        with pytest.raises(LakestreamsError) as caught:
            call(opened)
        assert (name, caught.value.code, caught.value.message) == (
            name, code, f"pipeline page_views has never run in {root}"
        )  # fmt: skip
        assert caught.value.hint == "run the pipeline first, or name its lake with root= or catalog="
    shown = f"pipeline page_views in {root}: sources PageViews, UserProfiles; outputs silver.enriched_page_views"
    assert repr(opened) == shown, "a notebook shows it as a cell's last value"


# --- a source and an output that are new ------------------------------------------------------------------------------


@pytest.mark.broker
@pytest.mark.usefixtures("small_input")
def test_what_no_run_has_read_or_written_yet_is_said_as_such(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The pipeline has run, then it was given another source, steps and outputs."""
    views, users = fresh_topics(broker, 1, ("PageViews", "UserProfiles"))

    def pipeline(*, is_grown: bool) -> lakestreams.Topology:
        builder = StreamsBuilder("page_views")
        stream = builder.stream(views, key=Text("user"), value=Text("page"), name="PageViews")
        stream.to_delta("silver.views")
        if is_grown:
            table = builder.table(users, key=Text("user"), value=Json("region string"), name="UserProfiles")
            joined = stream.left_join(table, lambda view, user: {"page": view.page, "region": user.region})
            joined.to_delta("silver.enriched_page_views")
            by_region = joined.group_by(lambda row: {"region": row.region})
            by_region.aggregate(lambda row: {"pages": agg.max(row.page)}).to_delta("silver.views_per_region")
        return builder.build()

    bench = Bench(spark, broker, tmp_path, pipeline(is_grown=False))
    broker.produce(views, [("alice", "/home", 1_000)])
    bench.run()
    opened = PipelineTables(spark, bench.lake, pipeline(is_grown=True))
    for call in (lambda: opened.bronze("UserProfiles"), lambda: opened.silver("silver.enriched_page_views"),
                 lambda: opened.silver("silver.views_per_region"), opened.orphans):  # fmt: skip
        with pytest.raises(LakestreamsError) as caught:
            call()
        assert (caught.value.code, "no run of page_views has written" in caught.value.message) == ("LS801", True)
    assert [row["user"] for row in opened.silver("silver.views").collect()] == ["alice"]
    assert (opened.quarantine().count(), opened.lag().count()) == (0, 1)
    (told,) = opened.why(key="alice").collect()
    assert any("gave silver.views: record of" in one for one in told["told"]), told["told"]
    for key, at in (("bob", None), (None, f"{users}-0@0"), (None, f"{views}-0@7")):
        with pytest.raises(LakestreamsError) as caught:
            opened.why(key=key, at=at)
        assert caught.value.code == "LS509"
    with pytest.raises(LakestreamsError) as caught:
        opened.verify()
    assert (caught.value.code, "under another configuration" in caught.value.message) == ("LS508", True)
    shutil.rmtree(Path(str(bench.lake.output("silver.views").path)))
    with pytest.raises(LakestreamsError) as caught:
        PipelineTables(spark, bench.lake, pipeline(is_grown=False)).verify()
    assert (caught.value.code, caught.value.message) == ("LS513", "silver.views no longer exists")
