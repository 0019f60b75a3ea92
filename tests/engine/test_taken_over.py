"""A cycle that was begun under one configuration and is finished under another: nothing of it is lost, and nothing twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, assert_sound, claimed, fresh_topics

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.fingerprint import Configuration
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime import failpoints
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import Fenced, PlanUnderOtherConfig
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

FIRST, SECOND, ROWS = "silver.first", "silver.second", "silver.rows"
PAGES = [("ann", "/a", ZERO), ("ben", "/b", ZERO + 1)]
Arm = Callable[[str], None]


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Arm:
    """Arms a failpoint; none: disarms."""

    def armed(point: str) -> None:
        if point:
            monkeypatch.setenv(failpoints.VARIABLE, f"{point}:1:raise")
        else:
            monkeypatch.delenv(failpoints.VARIABLE, raising=False)

    return armed


def two_outputs(views: str, first: str, second: str) -> Topology:
    """Views in two outputs, each with those that begin so: by that the configurations differ."""
    builder = StreamsBuilder("taken_over")
    stream = builder.stream(views, key=Text("user"), value=Text("page"), name="views")
    stream.filter(lambda view: view.page.startswith(first), name="one").to_delta(FIRST)
    stream.filter(lambda view: view.page.startswith(second), name="two").to_delta(SECOND)
    return builder.build()


ALL, NOTHING = "/", "no page"


class Pipeline:
    """One pipeline under several configurations: what stands in the two outputs, and runs that fail somewhere."""

    def __init__(self, spark: SparkSession, broker: Broker, root: Path, arm: Arm) -> None:
        self.views, _ = fresh_topics(broker)
        self.arm = arm
        self.made = {
            "empty": Bench(spark, broker, root, two_outputs(self.views, NOTHING, NOTHING)),
            "half": Bench(spark, broker, root, two_outputs(self.views, NOTHING, ALL)),
            "all": Bench(spark, broker, root, two_outputs(self.views, ALL, ALL)),
        }
        broker.produce(self.views, PAGES)

    def run(self, which: str, point: str = "") -> None:
        self.arm(point)
        if not point:
            self.made[which].run(config_text=which)
            return
        with pytest.raises(failpoints.FailpointReached):
            self.made[which].run(config_text=which)

    def refused(self, which: str) -> PlanUnderOtherConfig:
        self.arm("")
        with pytest.raises(PlanUnderOtherConfig, match="cycle 1") as refused:
            self.made[which].run(config_text=which)
        return refused.value

    @property
    def users(self) -> tuple[list[str], list[str]]:
        bench = self.made["all"]
        first, second = (
            [row["user"] for row in bench.silver(one).orderBy("user").collect()] for one in (FIRST, SECOND)
        )
        return first, second


@pytest.fixture
def pipeline(spark: SparkSession, broker: Broker, tmp_path: Path, arm: Arm) -> Pipeline:
    return Pipeline(spark, broker, tmp_path, arm)


BOTH = ["ann", "ben"]
SOME = Configuration("f", "text", "f")


def test_a_cycle_is_taken_over_until_a_row_of_it_is_out(pipeline: Pipeline) -> None:
    """Whoever begins it appends nothing, but records transactions: Delta would skip another append of the same number.

    Whoever takes it over falls before its first row, and then behind the only output that has one.
    """
    pipeline.run("empty", "finish.before")
    pipeline.run("half", "taken.after")
    pipeline.run("half", f"publish.after/{SECOND}")
    assert pipeline.refused("all").where == SECOND
    pipeline.run("half")
    assert pipeline.users == ([], BOTH)
    bench = pipeline.made["half"]
    assert_ledger_sound(bench)
    found = verify(bench.spark, bench.lake, bench.topology, ask_second=False)
    assert (found.equal, found.left_out) == (True, 0)
    assert not found.notes, "the cycle counts as one of the configuration that has published it"


@pytest.mark.soak  # a step of the story above
def test_an_append_without_rows_is_not_taken_for_that_of_another_configuration(pipeline: Pipeline) -> None:
    """It has recorded its transaction: Delta would skip another append of the same number."""
    pipeline.run("empty", "finish.before")
    pipeline.run("all")
    assert pipeline.users == (BOTH, BOTH)
    bench = pipeline.made["all"]
    assert_ledger_sound(bench)
    found = verify(bench.spark, bench.lake, bench.topology)
    assert found.equal
    assert not found.notes, "the cycle counts as one of the configuration that has published it"


@pytest.mark.soak  # the story above falls at two places
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("plan.after", "taken.after"),  # nothing is written between this point and the first output's
        ("plan.after", "taken.before"),
        (f"publish.after/{FIRST}", f"publish.after/{FIRST}"),
        *(
            (first, then)
            for first in ("plan.after", f"publish.before/{FIRST}", f"publish.after/{FIRST}", f"publish.after/{SECOND}")
            for then in (
                f"publish.before/{FIRST}",
                f"publish.before/{SECOND}",
                f"publish.after/{SECOND}",
                "finish.after",
            )
        ),
    ],
)
def test_whoever_takes_it_over_falls_too_and_goes_on(pipeline: Pipeline, first: str, then: str) -> None:
    """The one that began has published no row; its successor falls at each step, and repeats itself only."""
    pipeline.run("empty", first)
    pipeline.run("all", then)
    pipeline.run("all", "" if then == "finish.after" else "finish.before")
    pipeline.run("all")
    assert pipeline.users == (BOTH, BOTH)
    assert_sound(pipeline.made["all"])


@pytest.mark.soak
def test_who_began_it_takes_it_back_only_if_its_successor_has_published_nothing(pipeline: Pipeline) -> None:
    pipeline.run("half", f"publish.after/{FIRST}")  # has no row there
    pipeline.run("all", f"publish.before/{FIRST}")
    pipeline.run("half", f"publish.before/{SECOND}")
    pipeline.run("all", f"publish.after/{FIRST}")
    assert pipeline.refused("half").where == FIRST
    assert pipeline.refused("empty").where == FIRST
    pipeline.run("all")
    assert pipeline.users == (BOTH, BOTH)
    assert_sound(pipeline.made["all"])


@pytest.mark.soak  # a step of the story above
def test_rows_of_one_output_are_found_whichever_it_is(pipeline: Pipeline) -> None:
    pipeline.run("half", f"publish.after/{SECOND}")
    assert pipeline.refused("all").where == SECOND
    pipeline.run("half")
    assert pipeline.users == ([], BOTH)
    assert_sound(pipeline.made["half"])


@pytest.mark.soak
def test_settings_that_no_result_follows_from_may_change_in_the_middle_of_a_cycle(pipeline: Pipeline) -> None:
    bench = pipeline.made["all"]
    pipeline.arm(f"publish.after/{FIRST}")
    with pytest.raises(failpoints.FailpointReached):
        bench.run(config_text="pace 1", semantics="all")
    pipeline.arm("")
    bench.run(config_text="pace 2", semantics="all")
    assert pipeline.users == (BOTH, BOTH)
    assert_sound(bench)


@pytest.mark.soak
def test_quarantine_of_another_configuration_is_seen(
    spark: SparkSession, broker: Broker, tmp_path: Path, arm: Arm
) -> None:
    views, _ = fresh_topics(broker)
    bench = Bench(spark, broker, tmp_path, two_outputs(views, ALL, ALL))
    broker.produce(views, [("ann", None, ZERO)])
    arm("quarantine.after")
    with pytest.raises(failpoints.FailpointReached):
        bench.run(config_text="one")
    arm("")
    with pytest.raises(PlanUnderOtherConfig, match="cycle 1") as refused:
        bench.run(config_text="other")
    assert refused.value.where == "quarantine"
    bench.run(config_text="one")
    assert bench.quarantine().count() == 1
    assert_sound(bench, may_be_empty=True)


@pytest.mark.soak
@pytest.mark.parametrize("out", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_deletions_of_a_merge_are_seen(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    arm: Arm,
    out: bool,
) -> None:
    """They leave no row that names their cycle."""
    users, _ = fresh_topics(broker)
    builder = StreamsBuilder("deleting")
    builder.table(users, key=Text("user"), value=Text("region"), name="users").to_delta(ROWS, mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("ann", "eu", ZERO), ("ben", "us", ZERO + 1)])
    bench.run(config_text="one")
    broker.produce(users, [("ann", None, ZERO + 2)])
    arm("publish.after" if out else "publish.before")
    with pytest.raises(failpoints.FailpointReached):
        bench.run(config_text="one")
    arm("")
    if out:
        with pytest.raises(PlanUnderOtherConfig, match="cycle 2") as refused:
            bench.run(config_text="other")
        assert refused.value.where == ROWS
        bench.run(config_text="one")
    else:
        bench.run(config_text="other")
    assert [row["user"] for row in bench.silver(ROWS).collect()] == ["ben"]
    if out:
        assert_sound(bench)
    else:  # `one` is no text that the first cycle could be evaluated by again
        assert_ledger_sound(bench)


def test_a_statement_that_has_passed_its_fence_is_stopped_by_a_seal(spark: SparkSession, tmp_path: Path) -> None:
    """Of a driver that was killed, whose JVM still works: it would come behind the look for what is out."""
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    lake = Lake(str(tmp_path / "lake"))
    ledger, table = Ledger(lake, "sealed"), lake.output("silver.sealed")
    ledger.create(spark)
    older = claimed(spark, ledger, "older")
    table.create(spark, spark.createDataFrame([], "k int").schema)
    found: list[Any] = []

    @F.udf("int")
    def slow(number: int) -> int:
        begun.touch()
        until = time.monotonic() + 120
        while not go_on.exists() and time.monotonic() < until:
            time.sleep(0.05)
        return number

    def append() -> None:
        rows = spark.range(0, 1, 1, 1).select(slow(F.col("id").cast("int")).alias("k"))
        try:
            with translated("sealed"):
                table.append(older.fence(spark, rows), "sealed/x", 1)
        except Exception as error:  # noqa: BLE001 - it is what is asked for
            found.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    while not begun.exists():
        assert thread.is_alive(), found
        time.sleep(0.05)
    newer = claimed(spark, ledger, "newer", ledger.history(spark))
    table.seal(spark, "sealed", newer.epoch)
    go_on.touch()
    thread.join()
    assert [type(one) for one in found] == [Fenced]
    assert table.read(spark).count() == 0
