"""`lakestreams demo`: the whole story on one machine, with a real broker, real Spark, and a job that is really killed.

Two JVMs of Spark in all: one is killed with the job, the other one does everything else in this process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

import lakestreams
from lakestreams.cli import status
from lakestreams.cli.demo_jobs import Orders
from lakestreams.cli.screen import Screen, error_text, table
from lakestreams.errors import IngestFailed, LakestreamsError, unfold
from lakestreams.run import failure
from lakestreams.run.locating import locate
from lakestreams.run.options import FileOptions, LakeOptions, RunOptions
from lakestreams.run.runner import Job, load, missing, open_session, prepare
from lakestreams.times import alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

PIPELINE: Final = """\
pipeline: page_views

steps:
  enriched:
    left_join: {left: PageViews, right: UserProfiles}
    select:
      page: PageViews.page
      region: coalesce(UserProfiles.region, '<unknown>')

outputs:
  silver.enriched_page_views: {from: enriched, cluster_by: [user]}
"""
SOURCES: Final = """\
kafka:
  bootstrap_servers: ${{KAFKA_BOOTSTRAP:-{servers}}}

topics:
  PageViews:
    kind: stream
    topic: {views}
    key: {{text: user}}
    value: {{text: page}}
  UserProfiles:
    kind: table
    topic: {users}
    key: {{text: user}}
    value: {{text: region}}
"""
OUTPUT: Final = "silver.enriched_page_views"
PARTITIONS: Final = 4
UNEQUAL: Final = (12, 6)
ZERO_MS: Final = 1_700_000_000_000  # librdkafka takes timestamp 0 for "now"
PROFILES: Final = (("alice", "us-east"), ("bob", "eu-west"), ("carol", "ap-south"))
VIEWS: Final = (("alice", "/home"), ("bob", "/products"), ("carol", "/checkout"), ("dave", "/home"))
ENRICHED: Final = [
    ["alice", "/home", "us-east"],
    ["bob", "/products", "eu-west"],
    ["carol", "/checkout", "ap-south"],
    ["dave", "/home", "<unknown>"],
]
KILLED: Final = 128 + int(signal.SIGKILL)
FAILPOINT: Final = "publish.before:1:killgroup"
_CHILD_WITHIN_S: Final = 300


def run(screen: Screen, keep: Path | None) -> int:
    """Plays the story; returns 0 if every act came out as it should.

    Args:
        keep: folder to keep tables, files and logs in; by default they are removed.
    """
    try:
        from lakestreams.local.broker import Broker  # noqa: PLC0415 - a local part
        from lakestreams.local.cache import temporary_dir  # noqa: PLC0415 - a local part
    except ModuleNotFoundError as error:
        raise missing(error) from error
    _end_on_sigterm()
    folder = keep.resolve() if keep else temporary_dir("demo")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        broker = Broker(progress=screen.say)
        with contextlib.closing(broker):
            return _Demo(screen, folder, broker).play()
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Demo:
    """The acts, in order; each leaves in `facts` what the next ones and `--json` need."""

    screen: Screen
    folder: Path
    broker: Broker
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def play(self) -> int:
        """All acts; returns the exit code."""
        with self._act("broker", "A Kafka broker on this machine, two topics, seven records"):
            self._produce()
        with self._act("kill", "The job enrichment, killed (kill -9) when its cycle is planned and not yet published"):
            self._kill()
        with self._act("restart", "The same job again"):
            spark, job = self._restart()
        with self._act("tables", "What is in the tables"):
            self._show_tables(spark, job)
        with self._act(
            "refusal", f"Topics with {UNEQUAL[0]} and {UNEQUAL[1]} partitions: refused before anything starts"
        ):
            self._refuse(spark)
        orders = Orders(self.screen, self.folder, self.broker, spark)
        with self._act("correlation", "The job correlation: orders and payments within 5 minutes, PENDING without one"):
            orders.produce()
            correlation = orders.correlate()
        with self._act("fk_join", "The job fk_join: orders with their customers' names, one of which has changed"):
            orders.join_by_foreign_key()
        with self._act("why", "Why: what became of an order that is paid, and of one that still waits for its payment"):
            self.facts["why"] = orders.tell(correlation)
        self.wrong += orders.wrong
        return self._end()

    # --- acts ------------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        self.broker.start()
        for topic in ("PageViews", "UserProfiles"):
            self.broker.create_topic(topic, PARTITIONS)
        self.broker.produce("UserProfiles", [(user, region, ZERO_MS) for user, region in PROFILES])
        self.broker.produce("PageViews", [(u, page, ZERO_MS + 1_000 * n) for n, (u, page) in enumerate(VIEWS, start=1)])
        self._write("conf", "PageViews", "UserProfiles")
        self.screen.say(Text("  " + PIPELINE.rstrip().replace("\n", "\n  "), style="cyan"))

    def _kill(self) -> None:
        log = self.folder / "killed-job.log"
        code = _killed_child(self._options("conf"), log)
        self._expect(
            code == KILLED, f"the job ended with code {code} instead of by SIGKILL; its log:\n{_last_lines(log)}"
        )
        self.screen.say("  killed: process and JVM are gone")

    def _restart(self) -> tuple[SparkSession, Job]:
        options = self._options("conf")
        job = prepare(load(options.files, self.screen.secrets), options)
        spark = open_session(ends=self.screen.ends, quick=True, progress=self.screen.say)
        before = status.read(spark, job.lake, "page_views")
        silver = job.lake.output(OUTPUT).read(spark).count()
        plan = before.open_plan or {}
        self.screen.say(
            f"  found: epoch {before.epoch}; cycle {plan.get('cycle')} planned ({plan.get('records')} records), "
            f"not finished; {silver} rows in {OUTPUT}"
        )
        self.facts["after_kill"] = {"epoch": before.epoch, "open_plan": before.open_plan, "silver_rows": silver}
        self._expect(before.open_plan is not None and silver == 0, "the killed job left no open plan")
        outcome = job.run(spark)[0]
        if outcome.error is not None:
            raise outcome.error
        summary = outcome.summary
        if summary is not None:
            self.screen.say(f"  done: epoch {summary.epoch}, {summary.cycles} cycle, {summary.records} records")
        return spark, job

    def _show_tables(self, spark: SparkSession, job: Job) -> None:
        bronze = [row for topic in ("UserProfiles", "PageViews") for row in _bronze(spark, job, topic)]
        columns = ("topic", "partition", "offset", "key", "value", "event time")
        self.screen.show(table(*columns, title="bronze", rows=[[*row[:5], alone(row[5])] for row in bronze]))
        silver = _silver(spark, job)
        self.screen.show(table("user", "page", "region", "kind", "made of", title=OUTPUT, rows=silver))
        self.facts["bronze_rows"] = len(bronze)
        self.facts["silver"] = enriched = [row[:3] for row in silver]
        self._expect(enriched == ENRICHED, f"{OUTPUT} holds {enriched}")
        self.screen.say(Text.assemble(("  ledger  ", "bold"), self._history(spark, job, len(silver))))

    def _history(self, spark: SparkSession, job: Job, rows: int) -> str:
        from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415 - needs pyspark

        ledger = Ledger(job.lake, "page_views").rows(spark).where("kind in ('epoch', 'plan', 'done')")
        seen = [tuple(row) for row in ledger.select("kind", "epoch", "cycle").orderBy("written_at_ms").collect()]
        self.facts["ledger"] = seen
        expected = [("epoch", 1, None), ("plan", 1, 1), ("epoch", 2, None), ("done", 2, 1)]
        self._expect(seen == expected, f"the ledger holds {seen}")
        return (
            f"epoch 1 was killed after its plan of cycle 1; epoch 2 executed the same plan; {rows} rows, "
            f"{'no duplicate' if rows == len(ENRICHED) else 'which is wrong'}"
        )

    def _refuse(self, spark: SparkSession) -> None:
        topics = [f"{name}{count}" for name, count in zip(("PageViews", "UserProfiles"), UNEQUAL, strict=True)]
        for topic, count in zip(topics, UNEQUAL, strict=True):
            self.broker.create_topic(topic, count)
        self._write("unequal", *topics)
        options = self._options("unequal")
        job = prepare(load(options.files, self.screen.secrets), options)
        try:
            job.driver(spark).check()
        except LakestreamsError as error:
            located = locate(error, job.pipelines[0])
            self.facts["refusal"] = [fault.as_dict() for fault in unfold(located)]
            self.screen.say(error_text(located))
        codes = [fault["code"] for fault in self.facts.get("refusal", [])]
        self._expect(codes == ["LS104"], f"the check found {codes or 'nothing'}")

    def _end(self) -> int:
        total = time.monotonic() - self.began
        times = " · ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items())
        self.screen.say(Text(f"\n{total:.1f} s: {times}", style="dim"))
        for fault in self.wrong:
            self.screen.errors.print(Text.assemble(("wrong  ", "bold red"), fault))
        if not self.wrong:
            self.screen.say(
                Text("Every act came out as it should. Next: docs/cli.md, or lakestreams --help", style="green")
            )
        self.screen.result({"ok": not self.wrong, "wrong": self.wrong, **self.facts, "seconds": self.seconds})
        return failure.FAILED if self.wrong else failure.OK

    # --- inside ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _act(self, name: str, title: str) -> Iterator[None]:
        number = len(self.seconds) + 1
        self.screen.say(Text(f"\n{number}  {title}", style="bold"))
        began = time.monotonic()
        with self.screen.working(name):
            yield
        self.seconds[name] = round(time.monotonic() - began, 1)

    def _expect(self, right: bool, otherwise: str) -> None:
        if not right:
            self.wrong.append(otherwise)

    def _write(self, name: str, views: str, users: str) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        servers = self.broker.bootstrap_servers
        (folder / "sources.yml").write_text(SOURCES.format(servers=servers, views=views, users=users), encoding="utf-8")
        (folder / "enrichment.yml").write_text(PIPELINE, encoding="utf-8")

    def _options(self, name: str) -> RunOptions:
        return RunOptions(
            FileOptions((self.folder / name / "enrichment.yml",), bootstrap_servers=self.broker.bootstrap_servers),
            LakeOptions(str(self.folder / "lake")),
            quick=True,
        )


def _killed_child(options: RunOptions, log: Path) -> int:
    """Runs the job as a process of its own, with a failpoint that kills its whole group; returns its exit code.

    The guard of the local room ends it, JVM included, if this process ends first, however it ends.
    """
    from lakestreams.local import guard  # noqa: PLC0415 - a local part

    job = (
        *(sys.executable, "-m", "lakestreams.jobs.enrichment", f"--pipeline={options.files.pipelines[0]}"),
        *(f"--root={options.lake.root}", f"--bootstrap-servers={options.files.bootstrap_servers}", "--quick=true"),
    )
    command = [sys.executable, str(guard.__file__), "--grace", "0", "--log", str(log), "--", *job]
    source = str(Path(lakestreams.__file__).parents[1])  # so that an uninstalled tree finds itself from anywhere
    # What a killed process leaves in the temporary folder (Spark's blocks, unpacked native libraries) goes with ours.
    scratch = log.parent / "tmp"
    scratch.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "LAKESTREAMS_FAILPOINT": FAILPOINT,
        "PYTHONPATH": os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TMPDIR": str(scratch),
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={scratch}".strip(),
    }
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    try:
        return process.wait(_CHILD_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        msg = f"the job was not killed within {_CHILD_WITHIN_S} s; its log:\n{_last_lines(log)}"
        raise IngestFailed(msg) from error
    finally:
        if process.stdin is not None:
            process.stdin.close()  # the guard's sign to end what it guards
        process.wait()


def _bronze(spark: SparkSession, job: Job, topic: str) -> list[list[Any]]:
    rows = job.lake.bronze("page_views", topic).read(spark).orderBy("event_time_ms", "partition", "offset")
    text = [f"cast({name} as string) as {name}" for name in ("key", "value")]
    return [list(row) for row in rows.selectExpr("topic", "partition", "offset", *text, "event_time_ms").collect()]


def _silver(spark: SparkSession, job: Job) -> list[list[Any]]:
    rows = job.lake.output(OUTPUT).read(spark).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
    collected = rows.select("user", "page", "region", "_lineage.kind", "_lineage.contributors").collect()
    return [[*row[:4], _places(row["contributors"])] for row in collected]


def _places(contributors: Sequence[Any]) -> str:
    return " + ".join(f"{one['source']}-{one['partition']}@{one['offset']}" for one in contributors)


def _last_lines(log: Path) -> str:
    from lakestreams.local.cache import tail  # noqa: PLC0415 - a local part

    return tail(log)


def _end_on_sigterm() -> None:
    """SIGTERM unwinds the stack like Ctrl-C, so that it leaves no process and no folder behind either."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    with contextlib.suppress(ValueError):  # not in the main thread: whoever runs us has the signals
        signal.signal(signal.SIGTERM, end)
