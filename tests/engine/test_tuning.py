"""What a driver sets a session to: for few rows, for many, and back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import Bench, fresh_topics, page_views

from lakestreams.engine import settling
from lakestreams.engine.driver import Driver
from lakestreams.engine.ingest import batches
from lakestreams.engine.ledger.plans import Range
from lakestreams.engine.publish import cycle
from lakestreams.engine.runtime import tuning
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.engine.runtime.tuning import ARROW, BUFFERS, SETTINGS, SHUFFLES, SMALL_INPUT, ZONE, Tuning, in_utc
from lakestreams.evaluate.inputs import Inputs, Results
from lakestreams.expectations.rules import RecordRules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.progress import Event
    from lakestreams.local.broker import Broker


def settings(spark: SparkSession) -> dict[str, str | None]:
    return {name: spark.conf.get(name, None) for name in SETTINGS}


@pytest.fixture
def own(spark: SparkSession) -> Iterator[dict[str, str | None]]:
    """What the session has; one of them is the user's."""
    before = spark.conf.get(SHUFFLES)
    spark.conf.set(SHUFFLES, "7")
    yield settings(spark)
    spark.conf.set(SHUFFLES, before)


def test_few_rows_and_many_in_between(spark: SparkSession, own: dict[str, str | None]) -> None:
    tuning = Tuning(spark)
    with tuning.small_input():
        assert settings(spark) == SETTINGS
        with tuning.rows(SMALL_INPUT):
            assert settings(spark) == SETTINGS
        with pytest.raises(AssertionError), tuning.rows(SMALL_INPUT + 1):
            assert settings(spark) != own
        with tuning.small_input():
            assert settings(spark) == SETTINGS
        assert settings(spark) == SETTINGS, "the inner one's end is not the outer one's"
    assert settings(spark) == own
    with tuning.rows(SMALL_INPUT + 1):
        assert settings(spark) == own


def test_few_are_looked_for_among_many(spark: SparkSession, own: dict[str, str | None]) -> None:
    """With generated code, and else as few rows are; from few rows and from many, and back."""
    code = {name for name in SETTINGS if name.startswith("spark.sql.codegen")}
    tuning = Tuning(spark)

    def looks() -> None:
        with tuning.lookup():
            found = settings(spark)
            assert found[SHUFFLES] == SETTINGS[SHUFFLES]
            assert {name: found[name] for name in code} == {name: own[name] for name in code}
            assert found["spark.sql.adaptive.enabled"] == "false"

    with tuning.small_input():
        looks()
        assert settings(spark) == SETTINGS
        with tuning.rows(SMALL_INPUT + 1):
            looks()
            assert settings(spark) == own
        with pytest.raises(ZeroDivisionError), tuning.lookup():
            _ = 1 / 0
        assert settings(spark) == SETTINGS
    assert settings(spark) == own


class Refusing:
    """A session of compute that takes one setting only."""

    def __init__(self) -> None:
        self.conf = self
        self.values = {SHUFFLES: "auto"}
        self.asked = 0

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.asked += 1
        if name != SHUFFLES:
            raise PermissionError(name)
        self.values[name] = value


WINDOW = "spark.sql.windowExec.buffer.in.memory.threshold"


@pytest.mark.parametrize(
    ("record_bytes", "rows"), [(0, None), (500, None), (8_192, None), (32_768, "1024"), (1 << 30, "1")]
)
def test_of_large_records_fewer_are_held(spark: SparkSession, record_bytes: int, rows: str | None) -> None:
    """However many rows there are; Parquet's looks at what it holds are of the driver, too."""
    own = spark.conf.get(WINDOW)
    tuning = Tuning(spark)
    tuning.holds(record_bytes)
    with tuning.small_input(), tuning.rows(SMALL_INPUT + 1):
        assert spark.conf.get(WINDOW) == (rows or own)
        assert {name: spark.conf.get(name) for name in BUFFERS} == BUFFERS
        tuning.holds(1 << 20)
        assert spark.conf.get(WINDOW) == "32"
        tuning.holds(0)
        assert spark.conf.get(WINDOW) == "32", "unknown is as before"
        tuning.holds(100)
        assert spark.conf.get(WINDOW) == own
    assert spark.conf.get(WINDOW) == own
    assert all(spark.conf.get(name, None) is None for name in BUFFERS)


def test_what_is_refused_is_asked_for_once() -> None:
    session = Refusing()
    tuning = Tuning(session)  # type: ignore[arg-type]
    for _ in range(3):
        with tuning.small_input():
            assert session.values == {SHUFFLES: "1"}
        assert session.values == {SHUFFLES: "auto"}
    assert session.asked == len(SETTINGS) - 1 + len(BUFFERS) + len(ARROW) + 1 + 3 * 2  # the zone is refused once


def test_a_cycle_has_the_rows_that_it_reads() -> None:
    """A table that is looked up counts whole, what few new records reach of what is retained as little as that is."""
    table = Inputs({}, {}, 1, counts={"views": 1_000, "users": 1_000_000}, changes={"users": 0})
    assert Results().rows(table) == 1_001_000
    window = Inputs({}, {}, 1, counts={"orders": 500}, retained={"joined": {}}, retained_rows=1_000_000)
    assert Results(pruned={"joined": 70}).rows(window) == 570
    assert Results().rows(window) == 1_000_500


def test_work_is_done_in_utc_and_the_session_has_its_own_zone_back() -> None:
    session = Refusing()
    session.values = {ZONE: "America/New_York"}
    session.set = session.values.__setitem__  # type: ignore[method-assign]
    session.unset = session.values.__delitem__  # type: ignore[attr-defined]
    tuning, seen = Tuning(session), []  # type: ignore[arg-type]
    with tuning.small_input(), tuning.rows(SMALL_INPUT + 1):
        seen.append(session.values[ZONE])
        seen += tuning.other_zone()
    in_utc(lambda one: seen.append(one.conf.get(ZONE)))(session)  # type: ignore[arg-type, attr-defined]
    assert seen == ["UTC", "UTC"]
    assert session.values == {ZONE: "America/New_York"}


def test_a_zone_that_cannot_be_set_is_told() -> None:
    session = Refusing()
    session.values[ZONE] = "America/New_York"
    tuning = Tuning(session)  # type: ignore[arg-type]
    with tuning.utc():
        (told,) = tuning.other_zone()
    assert "America/New_York" in told
    session.values[ZONE] = "Etc/UTC"
    assert tuning.other_zone() == []


def test_a_large_backlog_is_counted_as_the_session_is_set(
    spark: SparkSession, tmp_path: Path, own: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def spying(spark: SparkSession, *_: object) -> dict[tuple[str, int], Range]:
        seen.append(spark.conf.get(SHUFFLES))
        return {}

    monkeypatch.setattr(settling, "cut_below", spying)
    topology = page_views("views", "users")
    one = Driver(spark, topology, Lake(str(tmp_path)), RunSettings(kafka={}))
    with one.setup.tuning.small_input():
        for records in (SMALL_INPUT, SMALL_INPUT + 1):
            settling.cut(one.setup, RecordRules(), [Range("views", 0, 0, records)], None, 1)
    assert seen == ["1", own[SHUFFLES]]


@pytest.mark.broker
def test_a_run_leaves_the_session_as_it_was(
    spark: SparkSession, broker: Broker, tmp_path: Path, own: dict[str, str | None]
) -> None:
    views, users = fresh_topics(broker, 1)
    broker.produce(users, [("u", "EU", 1_000)])
    broker.produce(views, [("u", "/1", 1_001)])
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    seen: dict[str, dict[str, str | None]] = {}

    def listen(event: Event) -> None:
        seen[event.kind] = settings(spark)

    listening = bench.driver()
    listening.setup.reporter.listener = listen
    listening.run()
    assert bench.silver().count() == 1
    assert seen["published"] == SETTINGS
    assert settings(spark) == own


@pytest.mark.broker
@pytest.mark.parametrize("and_back", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_large_batch_behind_a_small_one_has_all_its_tasks(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    own: dict[str, str | None],
    monkeypatch: pytest.MonkeyPatch,
    and_back: bool,
) -> None:
    """A checkpoint keeps the number of its first batch."""
    views, users = fresh_topics(broker, 1)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    seen: list[str | None] = []
    evaluated: list[str | None] = []
    append, evaluate = batches._Batch._append, cycle.evaluate

    def spying(self: batches._Batch, *given: Any) -> Any:
        seen.append(self._spark.conf.get(SHUFFLES))
        return append(self, *given)

    def evaluating(*given: Any, **more: Any) -> Any:
        evaluated.append(spark.conf.get(SHUFFLES))
        return evaluate(*given, **more)

    monkeypatch.setattr(batches._Batch, "_append", spying)
    monkeypatch.setattr(cycle, "evaluate", evaluating)
    for most in (SMALL_INPUT, 0, SMALL_INPUT)[: 3 if and_back else 2]:
        monkeypatch.setattr(tuning, "SMALL_INPUT", most)
        broker.produce(views, [("u", "/1", 1_000)])
        bench.run()
    assert seen == evaluated == ["1", own[SHUFFLES], *(["1"] if and_back else [])]
    assert own[SHUFFLES] == "7"
