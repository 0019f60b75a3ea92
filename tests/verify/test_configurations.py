"""`verify` where the configuration has changed between cycles and the ledger has no text that could be compiled: what can be
compared is, and the rest is counted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics
from typer.testing import CliRunner

from lakestreams import StreamsBuilder, Text
from lakestreams.cli import verify as command
from lakestreams.cli.app import app
from lakestreams.cli.screen import Screen
from lakestreams.engine.ledger import fingerprint
from lakestreams.errors import NothingToVerify
from lakestreams.testing.small import small
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.verify import Verdict, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

VIEWS, ROWS = "silver.views", "silver.rows"
FUNCTION = "named_by_a_table:made"
NAMING = json.dumps({"sources": {"topics": {}}, "pipeline": {"pipeline": "configured", "topology": FUNCTION}})


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def ran(spark: SparkSession, broker: Broker, root: Path, *configurations: tuple[str, str | None]) -> Bench:
    """A pipeline with an appended output and a merged one that has run a cycle under each configuration."""
    views, users = fresh_topics(broker)
    builder = StreamsBuilder("configured")
    builder.stream(views, key=Text("user"), value=Text("page"), name="views").to_delta(VIEWS)
    builder.table(users, key=Text("user"), value=Text("region"), name="users").to_delta(ROWS, mode="merge")
    bench = Bench(spark, broker, root, builder.build())
    for number, (text, semantics) in enumerate(configurations):
        at = ZERO + 10 * number
        broker.produce(views, [(f"user{number}", f"/{number}", at + 1)])
        broker.produce(users, [(f"user{number}", "eu", at), ("everybody", f"region {number}", at)])
        bench.run(config_text=text, semantics=semantics)
    return bench


@pytest.fixture(scope="module")
def two(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A cycle under a text that names a function, and one under a text of no files. Tests change its outputs."""
    return ran(spark, broker, tmp_path_factory.mktemp("two"), (NAMING, None), ("two", None))


def change(bench: Bench, output: str, column: str, user: str) -> None:
    table = bench.lake.output(output).reference
    bench.spark.sql(f"update {table} set {column} = 'changed' where user = '{user}'")


def differing(found: Verdict) -> dict[str, int]:
    return {one.what: one.differs for one in found.findings if one.differs}


@pytest.mark.soak
def test_settings_that_no_result_follows_from_leave_no_cycle_out(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Such as `bronze_retention`: another fingerprint, the same results."""
    bench = ran(spark, broker, tmp_path, ("pace 1", "same"), ("pace 2", "same"))
    change(bench, VIEWS, "page", "user0")
    change(bench, ROWS, "region", "user0")
    found = verify(spark, bench.lake, bench.topology)
    assert (found.from_cycle, found.to_cycle, found.notes) == (1, 2, [])
    assert differing(found) == {VIEWS: 1, ROWS: 1}


@pytest.mark.soak
def test_only_the_cycles_that_are_asked_for_are_compared(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the command; only that its pipeline comes from no file."""
    bench = ran(spark, broker, tmp_path, ("same", None), ("same", None))
    change(bench, VIEWS, "page", "user0")
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    given = SimpleNamespace(topology=bench.topology, text="same", semantics=None)
    monkeypatch.setattr(command, "load", lambda *_: [given])

    def of(*asked: str) -> tuple[int, dict[str, Any]]:
        words = ["verify", "its.yml", "--root", str(tmp_path), "--no-second-opinion", "--json", *asked]
        result = CliRunner().invoke(app, words)
        (one,) = json.loads(result.stdout)["pipelines"]
        return result.exit_code, one

    exit_code, later = of("--from", "2")
    assert (exit_code, later["equal"]) == (0, True)
    assert (later["from_cycle"], later["to_cycle"], later["cycles"]) == (2, 2, 1)
    assert [one["compared"] for one in later["findings"] if one["what"] == VIEWS] == [1]
    exit_code, former = of("--to", "1")
    assert (exit_code, former["equal"]) == (1, False)
    assert (former["from_cycle"], former["to_cycle"], former["cycles"]) == (1, 1, 1)
    assert {one["what"]: one["differs"] for one in former["findings"] if one["differs"]} == {VIEWS: 1}
    (example,) = next(one["examples"] for one in former["findings"] if one["what"] == VIEWS)
    assert "cycle=1" in example
    assert '"page":"changed"' in example


def test_cycles_of_another_configuration_are_counted_and_not_called_equal(
    spark: SparkSession, two: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = two

    def under(text: str) -> Verdict:
        own = fingerprint.of(bench.topology, text)
        return verify(spark, bench.lake, bench.topology, configuration=own)

    found = under("two")
    assert found.equal
    assert (found.cycles, found.left_out) == (2, 1)
    assert [one for one in found.findings if one.what in (VIEWS, ROWS)] == [
        Comparison(VIEWS, 1, left_out=1),
        Comparison(ROWS, 2, left_out=1),
    ]
    first = fingerprint.of(bench.topology, NAMING).whole
    why = f"their topology is the Python function '{FUNCTION}', and only the function of the given file is imported"
    left_out = f"1 of 2 cycles are of other configurations and not compared: cycles 1 to 1 ({first}): {why}"
    assert found.notes[0].startswith(left_out)
    change(bench, ROWS, "region", "everybody")
    change(bench, ROWS, "region", "user0")
    change(bench, VIEWS, "page", "user0")
    newest = verify(spark, bench.lake, bench.topology)
    assert newest.left_out == 1, "the newest one is meant"
    assert differing(newest) == {ROWS: 1}, "what only the first cycle has written is not compared"
    former = under(NAMING)
    assert differing(former) == {VIEWS: 1}
    assert [one.looked for one in former.findings if one.what == ROWS] == [False]
    command._show(Screen(), former)
    told = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 left out" in told
    assert f"{ROWS} 0 3 not compared" in told
    with pytest.raises(
        NothingToVerify, match=r"cycles 1 to 1 .*, cycles 2 to 2 .*what differs is steps, columns.*in Python"
    ):
        under("three")


def test_code_that_only_the_ledger_names_is_not_run(
    spark: SparkSession, two: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a cycle is a row of a table, which others than the files' owner may write to."""
    called: list[str] = []
    module = ModuleType(FUNCTION.partition(":")[0])
    module.made = lambda *_: called.append("made")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    bench = two
    found = verify(spark, bench.lake, bench.topology, configuration=fingerprint.of(bench.topology, "two"))
    assert called == []
    assert (found.cycles, found.left_out) == (2, 1)
    assert f"'{FUNCTION}', and only the function of the given file is imported" in found.notes[0]
    with pytest.raises(NothingToVerify, match=r"named_by_a_table:made.*give a file with that topology"):
        verify(spark, bench.lake, bench.topology, to_cycle=1, configuration=fingerprint.of(bench.topology, "two"))
    assert called == []


def test_what_could_not_be_compared_at_all_is_not_called_equal(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The only output is merged, and the last cycle to write it is of a configuration that cannot be evaluated."""
    _, users = fresh_topics(broker)
    builder = StreamsBuilder("merged")
    builder.table(users, key=Text("user"), value=Text("region"), name="users").to_delta(ROWS, mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    for number, text in enumerate(("one", "two")):
        broker.produce(users, [("everybody", f"region {number}", ZERO + number)])
        bench.run(config_text=text, semantics=None)
    found = verify(spark, bench.lake, bench.topology, configuration=fingerprint.of(bench.topology, "one"))
    assert [one for one in found.findings if one.what == ROWS] == [Comparison(ROWS, 0, left_out=1)]
    assert (found.is_compared, found.equal) == (False, False)
    found = verify(spark, bench.lake, bench.topology, configuration=fingerprint.of(bench.topology, "two"))
    assert (found.is_compared, found.equal) == (True, True)
