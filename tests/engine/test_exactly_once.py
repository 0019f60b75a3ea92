"""Exactly once: whatever fails wherever, the tables come out equal to those of a run that nothing disturbed."""

from __future__ import annotations

import functools
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.engine.harness import Bench, assert_sound, facts, fresh_topics, page_views
from tests.engine.jobs import JOBS, RACES, Job, Record
from tests.engine.victim import BATCH

from lakestreams.engine.runtime import failpoints
from lakestreams.engine.runtime.failpoints import FailpointReached
from lakestreams.engine.runtime.tuning import Tuning
from lakestreams.engine.state.operator_state import OperatorState
from lakestreams.errors import Fenced
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.progress import Event
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

PACE = {"max_offsets_per_trigger": 1_000, "snapshot_every": 1}  # one batch: a run costs seconds, and there are many


class Log:
    """A job's topics with the old data, and with the new data from some time on, and what an undisturbed run makes of it."""

    def __init__(self, spark: SparkSession, broker: Broker, root: Path, job: Job) -> None:
        self.spark, self.broker, self.root, self.job = spark, broker, root, job
        self.topics = fresh_topics(broker, 3, job.topics)
        self.produce(job.old())
        self._holds = "old-data"
        self._expected: dict[str, dict[str, list[tuple[Any, ...]]]] = {}

    @property
    def expected(self) -> dict[str, list[tuple[Any, ...]]]:
        """What an undisturbed run makes of the data that is there."""
        if self._holds not in self._expected:
            self._expected[self._holds] = self.undisturbed(self._holds)
        return self._expected[self._holds]

    def undisturbed(self, name: str, **more: Any) -> dict[str, list[tuple[Any, ...]]]:
        bench = self.bench(self.root / name)
        bench.run(**PACE, **more)
        return facts(bench)

    def bench(self, root: Path) -> Bench:
        return Bench(self.spark, self.broker, root, self.job.build(*self.topics))

    def point(self, name: str) -> str:
        """A failpoint's name with the topic that is meant."""
        first, second = self.topics
        return name.replace("/first", f"/{first}").replace("/second", f"/{second}")

    def in_pieces(self, count: int) -> list[dict[str, list[Record]]]:
        """The new data in so many pieces, one after the other in time."""
        new = self.job.new()
        times = sorted({record[2] for records in new.values() for record in records})
        ends = [times[len(times) * piece // count] for piece in range(count)] + [times[-1] + 1]
        return [
            {topic: [one for one in records if start <= one[2] < end] for topic, records in new.items()}
            for start, end in itertools.pairwise(ends)
        ]

    def produce(self, records: Mapping[str, Sequence[Record]]) -> None:
        for name, topic in zip(self.job.topics, self.topics, strict=True):
            self.broker.produce(topic, records[name])

    def add(self) -> None:
        """Produces the new data."""
        self.produce(self.job.new())
        self._holds = "all-data"


@pytest.fixture(scope="module")
def logs(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Log]:
    """One log a job, whichever tests ask for it, and in whatever order."""
    return functools.cache(lambda job: Log(spark, broker, tmp_path_factory.mktemp("log"), JOBS[job]))


@pytest.fixture
def log(logs: Callable[[str], Log], request: pytest.FixtureRequest) -> Log:
    """Shared by the tests; each has tables of its own. Those of lost checkpoints add the new data, for all that follow."""
    return logs(request.param)


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    """The runs are many and the data is little."""
    with small(spark):
        yield


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Arms failpoints; disarms them at the end."""

    def arm(spec: str) -> None:
        monkeypatch.setenv(failpoints.VARIABLE, spec)

    def disarm() -> None:
        monkeypatch.delenv(failpoints.VARIABLE, raising=False)

    arm.off = disarm  # type: ignore[attr-defined]
    yield arm
    disarm()


BRONZE = [f"bronze.{when}/{side}" for side in ("first", "second") for when in ("before", "after")]
_OTHERS = [name for name in failpoints.NAMES if not name.startswith("bronze.")]
NAMES = [*_OTHERS[:2], *BRONZE, *_OTHERS[2:]]  # as a run passes them


# Topics are appended side by side. One that fails alone would leave the next run nothing of the other to fail at.
TOGETHER = {
    "bronze.before/first": ("bronze.before/first", "bronze.before/second"),
    "bronze.after/first": ("bronze.after/first", "bronze.before/second"),
}
LAST = ("finish.after", "snapshot.", "state.", "events.")  # when they are reached, the cycle is finished


def _passed_by(job: str) -> list[str]:
    """The failpoints that a job passes, in the order in which it does. None writes to a topic (`test_kafka_sink`)."""
    others = ("kafka.", "state." if job == "enrichment" else "snapshot.")
    return [name for name in NAMES if not name.startswith(others)]


# Behind the ledger's plan, and behind what is kept. Behind one topic of two, and behind an output, other tests below fail.
BEHIND = ("plan.after", "state.after")


# One job fails behind these here; all of them at every step in `make soak`.
_CHAINS = [
    pytest.param("correlation", BEHIND, True, id="correlation, behind a plan and what is kept"),
    *(pytest.param(job, tuple(_passed_by(job)), False, id=job, marks=pytest.mark.soak) for job in JOBS),
]


def fails_at(bench: Bench, *points: str) -> None:
    """A run fails, and has reached all of these points."""
    driver = bench.driver(**PACE)
    with pytest.raises(Exception, match=r"failpoint|LS505"):
        driver.run()
    assert {point: [*left] for point, left in driver.setup.ledger.failpoint.left.items()} == {one: [] for one in points}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("job", "names", "many"), _CHAINS)
def test_failing_at_every_step_one_after_the_other_leaves_equal_tables(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    armed: Any,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
    names: Sequence[str],
    many: bool,
) -> None:
    """Each run goes on where the one before failed, and fails a step further on; behind a finished cycle with new data.

    As with `many` records, what nodes keep is stored while results are published, and counts when their cycle is finished.
    """
    stored_by = []
    write = OperatorState._write
    monkeypatch.setattr(
        OperatorState, "_write", lambda *given: (stored_by.append(threading.current_thread().name), write(*given))[1]
    )
    if many:
        monkeypatch.setattr(Tuning, "is_small", False)
    log = Log(spark, broker, tmp_path, JOBS[job])
    bench = log.bench(tmp_path / "failing")
    pieces = iter(log.in_pieces(sum(name.startswith(LAST) for name in names)))
    for name in names:
        if name.startswith(LAST):
            log.produce(next(pieces))
        points = [log.point(one) for one in TOGETHER.get(name, (name,))]
        armed(",".join(points))
        fails_at(bench, *points)
    armed.off()
    bench.run(**PACE)
    assert facts(bench) == log.undisturbed("undisturbed")
    assert_sound(bench)
    assert all(name.startswith("lakestreams-concurrently") is many for name in stored_by)
    assert stored_by or job == "enrichment"


def test_a_batch_that_is_recovered_knows_partitions_without_records(
    spark: SparkSession, broker: Broker, tmp_path: Path, armed: Any
) -> None:
    """How many tasks there are follows from them, and with it where a new key goes: as if nothing had failed."""
    views, users = fresh_topics(broker, 4)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    broker.produce(views, [("alice", "/", 1_000)])
    armed("ingest.before:1:raise")
    with pytest.raises(FailpointReached):
        bench.run()
    armed.off()
    bench.run()
    (plan,) = bench.ledger().where("kind = 'plan'").collect()
    parts = {(part["topic"], part["partition"]): part["records"] for part in plan["ranges"]}
    assert parts.keys() == {(topic, partition) for topic in (views, users) for partition in range(4)}
    assert sum(parts.values()) == 1
    assert_sound(bench)


@pytest.mark.timeout(900)
def test_merged_rows_a_change_log_and_records_that_wait_survive_what_fails(
    spark: SparkSession, broker: Broker, tmp_path: Path, armed: Any
) -> None:
    """The few steps that part one of these outputs from the others."""
    log = Log(spark, broker, tmp_path, RACES)
    bench = log.bench(tmp_path / "failing")

    def fails(name: str) -> None:
        armed(f"{name}:1:raise")
        with pytest.raises(FailpointReached):
            bench.run(**PACE)
        armed.off()

    fails("state.written")  # what waits is written down, and nothing says where
    assert bench.silver("silver.amended").where("_lineage.kind = 'unmatched'").count() > 0
    log.produce(RACES.new())
    fails("publish.after/silver.amended")  # rows are merged and deleted, all of it is out, and comes a second time
    bench.run(**PACE, drain=True)

    assert facts(bench) == log.undisturbed("undisturbed", drain=True)
    assert_sound(bench)
    assert bench.silver("silver.amended").where("_lineage.kind = 'amended'").count() > 0
    assert bench.quarantine().where("code = 'NO_PARTNER'").count() > 0
    users = bench.lake.output("silver.users").path
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 0).format("delta").load(str(users))
    doubled = feed.groupBy("user", "_change_type", "_lineage.trigger").count().where("count > 1")
    assert doubled.collect() == [], "whoever follows the merged table sees each change once"
    assert feed.where("_change_type = 'delete'").count() > 0


@pytest.mark.soak
@pytest.mark.parametrize(("log", "name"), [(job, name) for job in JOBS for name in _passed_by(job)], indirect=["log"])
def test_a_failure_at_every_step_leaves_equal_tables(log: Log, tmp_path: Path, armed: Any, name: str) -> None:
    bench = log.bench(tmp_path)
    armed(log.point(name))
    fails_at(bench, log.point(name))
    armed.off()
    bench.run(**PACE)
    assert facts(bench) == log.expected
    assert_sound(bench)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("log", "point"),
    [("enrichment", "plan.after"), ("enrichment", "ingest.before"), *((job, "publish.after") for job in JOBS)],
    indirect=["log"],
)
def test_a_second_failure_during_the_repetition(log: Log, tmp_path: Path, armed: Any, point: str) -> None:
    bench = log.bench(tmp_path)
    for spec in (f"{point}:1:raise", "publish.after:1:raise"):
        armed(spec)
        with pytest.raises(Exception, match=r"failpoint|LS505"):
            bench.run(**PACE)
    armed.off()
    bench.run(**PACE)
    assert facts(bench) == log.expected
    assert_sound(bench)


# --- checkpoints lost, damaged, restored from a backup; new data before the restart ----------------------------------


def _delete(bench: Bench) -> None:
    shutil.rmtree(bench.lake.checkpoints(bench.topology.name))


def _newest_commit(bench: Bench) -> Path:
    generation = next(bench.lake.checkpoints(bench.topology.name).glob("gen-*"))
    commits = sorted((generation / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    assert len(commits) > 1, "damage to the only commit would be no older backup"
    return commits[-1]


def _empty_newest_commit(bench: Bench) -> None:
    _newest_commit(bench).write_bytes(b"")


def _restore_older_backup(bench: Bench) -> None:
    newest = _newest_commit(bench)
    (newest.parent.parent / "offsets" / newest.name).unlink()
    newest.unlink()


def _lose_metadata(bench: Bench) -> None:
    (_newest_commit(bench).parent.parent / "metadata").unlink()


def _lose_what_is_stored(bench: Bench) -> None:
    """Snapshots, or what the nodes keep: caches, all of them."""
    control = bench.root / "_lakestreams"
    stored = [folder for pattern in ("snapshot_*", "state_*") for folder in control.glob(pattern)]
    assert stored, "nothing was stored"
    for folder in stored:
        shutil.rmtree(folder)


DAMAGE: dict[str, Callable[[Bench], None]] = {
    "deleted": _delete,
    "last commit lost": lambda bench: _newest_commit(bench).unlink(),
    "last commit empty": _empty_newest_commit,
    "older backup": _restore_older_backup,
    "metadata lost": _lose_metadata,
    "snapshots and state deleted": _lose_what_is_stored,
}
OF_ALL_JOBS = ("deleted", "snapshots and state deleted")
BETWEEN = "killed between two appends, checkpoint deleted"
# It deletes the checkpoint of a batch that is not whole, and so shows what "deleted" does. Snapshots are lost in test_maintain.
IN_MAKE_TEST = {job: (BETWEEN,) if job == "enrichment" else () for job in JOBS}


class Aged:
    """Pipelines that have read the old data and were damaged, one a kind; the new data is there."""

    def __init__(self, log: Log, kinds: Sequence[str]) -> None:
        self.log = log
        for kind in kinds:
            if kind == BETWEEN:
                self._kill_between_two_appends()
                continue
            bench = self.bench(kind)
            bench.run(max_offsets_per_trigger=BATCH, snapshot_every=1)
            DAMAGE[kind](bench)
        log.add()

    def bench(self, kind: str) -> Bench:
        return self.log.bench(self.log.root / kind.replace(" ", "-"))

    def _kill_between_two_appends(self) -> None:
        views, users = self.log.topics
        bench = self.bench(BETWEEN)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(failpoints.VARIABLE, f"bronze.before/{users}:1:raise")
            with pytest.raises(Exception, match=r"failpoint|LS505"):
                bench.run()
        assert bench.bronze(views).count() > 0, "the first topic is in, the second is not"
        assert bench.bronze(users).count() == 0
        _delete(bench)


@pytest.fixture(scope="module")
def ages(logs: Callable[[str], Log], request: pytest.FixtureRequest) -> Callable[[str], Aged]:
    """Shared: the new data can be added only once. Of the kinds that are asked for in this session."""

    def made(job: str) -> Aged:
        asked = [getattr(item, "callspec").params for item in request.session.items if hasattr(item, "callspec")]  # noqa: B009
        kinds = [one["kind"] for one in asked if one.get("aged") == job]
        return Aged(logs(job), kinds)

    return functools.cache(made)


@pytest.fixture
def aged(ages: Callable[[str], Aged], request: pytest.FixtureRequest) -> Aged:
    """The damaged pipelines of a job."""
    return ages(request.param)


@pytest.mark.timeout(900)  # the first one prepares them all
@pytest.mark.parametrize(
    ("aged", "kind"),
    [
        pytest.param(job, kind, marks=[] if kind in IN_MAKE_TEST[job] else [pytest.mark.soak])
        for job in JOBS
        for kind in ([*DAMAGE, BETWEEN] if job == "enrichment" else OF_ALL_JOBS)
    ],
    indirect=["aged"],
)
def test_a_damaged_checkpoint_and_new_data_lose_and_double_nothing(aged: Aged, kind: str) -> None:
    """A scheme that trusts the checkpoint, the batch id or the batch's content loses or doubles rows here."""
    bench = aged.bench(kind)
    bench.run(max_offsets_per_trigger=BATCH)
    found = facts(bench)
    for name, rows in aged.log.expected.items():
        assert found[name] == rows, name
    assert_sound(bench)


_MOMENTS = [("enrichment", one) for one in ("published", "claimed", "ingested", "planned")]


@pytest.mark.soak  # test_two_drivers and test_late_statements have it in `make test`
@pytest.mark.parametrize(
    ("log", "moment"), [*_MOMENTS, ("fk_join", "planned"), ("correlation", "planned")], indirect=["log"]
)
def test_a_second_driver_takes_over_while_the_first_is_alive(log: Log, tmp_path: Path, moment: str) -> None:
    """Both in one JVM, interleaved at a fixed place: the older one stops, and changes nothing any more."""
    second = log.bench(tmp_path)
    state: dict[str, Any] = {}

    def take_over(event: Event) -> None:
        if event.kind == moment and not state:
            state["running"] = True
            second.run(**PACE)
            state["facts"] = facts(second)
            state["ledger"] = second.ledger().count()

    first = log.bench(tmp_path)
    first.events = _Calls(take_over)  # type: ignore[assignment]
    with pytest.raises(Fenced):
        first.run(**PACE)
    assert state["facts"] == log.expected
    assert facts(second) == log.expected
    assert second.ledger().count() == state["ledger"], "the older driver wrote to the ledger"
    assert_sound(second)


class _Calls:
    """An event list that calls back."""

    def __init__(self, callback: Any) -> None:
        self.append = callback


# --- real processes ------------------------------------------------------------------------------------------------


def _victim(log: Log, root: Path, failpoint: str = "", *, endless: bool = False) -> subprocess.Popen[bytes]:
    root.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.engine.victim",
        str(root),
        log.broker.bootstrap_servers,
        log.job.name,
        *log.topics,
    ]
    environment = os.environ | ({failpoints.VARIABLE: failpoint} if failpoint else {})
    environment |= {"LAKESTREAMS_TEST_ENDLESS": "yes"} if endless else {}
    return subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _wait(condition: Any, what: str, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)


def _gone(group: int) -> None:
    _wait(lambda: not [p for p in psutil.process_iter(["pid"]) if _group(p.pid) == group], "end of the group", 60)


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid) if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else None
    except (ProcessLookupError, psutil.NoSuchProcess, PermissionError):
        return None


def _kill(log: Log, root: Path, chance: random.Random, *, group: bool) -> str:
    """Starts a driver that does not end by itself, kills it some time after bronze has its first commit and the ledger
    the driver's; says when."""
    bench = log.bench(root)
    ledger, bronze = (
        Path(str(table.path)) / "_delta_log"
        for table in (bench.lake.control("ledger"), bench.lake.bronze(bench.topology.name, log.topics[0]))
    )
    before = len(list(ledger.glob("*.json")))
    process = _victim(log, root, endless=True)

    def begun() -> bool:
        return (bronze / f"{1:020}.json").exists() and len(list(ledger.glob("*.json"))) > before

    _wait(lambda: begun() or process.poll() is not None, "a commit")
    delay = chance.uniform(0, 8)
    time.sleep(delay)
    assert process.poll() is None, f"it ended by itself, with {process.returncode}"
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    assert process.wait(30) == -signal.SIGKILL
    _gone(process.pid)  # py4j's JVM may still finish a commit when only Python is dead
    kinds = {row["kind"]: row["count"] for row in bench.ledger().groupBy("kind").count().collect()}
    target = "group" if group else "python"
    return f"killed {target} after {delay:.2f} s, ledger then {dict(sorted(kinds.items()))}"


KILLS = [(job, number) for job in JOBS for number in range(20)]
IN_A_ROW = {1: 2}  # each of the driver that goes on where the last one was killed


@pytest.mark.crash
@pytest.mark.soak  # in `make test` the demo kills a job and its JVM, at one place (tests/cli/test_commands)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("log", "number"), KILLS, indirect=["log"])
def test_real_kills_after_the_first_bronze_commit(log: Log, tmp_path: Path, number: int) -> None:
    root, chance = tmp_path / "killed", random.Random(number)
    for kill in range(IN_A_ROW.get(number, 1)):
        print(_kill(log, root, chance, group=(number + kill) % 2 == 0))  # noqa: T201  # shown by pytest -s and in the log
    bench = log.bench(root)
    bench.run(**PACE)
    assert facts(bench) == log.expected
    assert_sound(bench)


@pytest.mark.crash
@pytest.mark.soak  # test_late_statements lets paused ones land in one process
@pytest.mark.parametrize("log", ["enrichment", "fk_join"], indirect=True)
def test_a_paused_driver_that_wakes_up_changes_nothing(log: Log, tmp_path: Path) -> None:
    """It halts before it publishes; a second process finishes; a key is deleted; it goes on: fenced, non-zero."""
    root = tmp_path / "paused"
    bench = log.bench(root)
    process = _victim(log, root, "publish.before:1:stop")
    _wait(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "the halt at the failpoint")
    assert bench.silver(bench.topology.sinks[0].name).count() == 0
    bench.run(**PACE)
    assert facts(bench) == log.expected
    assert_sound(bench)
    output = bench.lake.output(bench.topology.sinks[0].name)
    bench.spark.sql(f"delete from {output.reference} where _lineage.trigger.offset < 5")
    before, versions = facts(bench), _versions(bench)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(120) == 3, "fenced"
    assert facts(bench) == before
    assert _versions(bench) == versions


def _versions(bench: Bench) -> dict[str, int]:
    folders = [path.parent for path in bench.root.rglob("_delta_log")]
    return {str(folder): len(list((folder / "_delta_log").glob("*.json"))) for folder in folders}
